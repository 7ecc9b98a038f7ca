"""Limits of connections: how many, and how fast new ones may come (KIP-402, KIP-612)."""

from __future__ import annotations

import random
from types import SimpleNamespace
from typing import Any

import pytest

from kafkasim.model.broker.common.acceptor import BrokerAcceptor
from kafkasim.model.broker.common.connection_quotas import ConnectionQuotas, ConnectionRules
from kafkasim.model.config import BrokerConfig, ConfigError
from kafkasim.model.controller.common.image import MetadataImage
from kafkasim.model.controller.kraft.managers.configs import alter_client_quotas
from kafkasim.model.effects import Admit, Close, Peer, Process
from kafkasim.model.errors import Errors
from kafkasim.model.facts import ConnectionLimited
from kafkasim.model.messages import AlterClientQuotasRequest, ClientQuotaAlteration
from kafkasim.model.messages.clients.admin import USER, QuotaEntity
from kafkasim.model.storage.files import MemoryFiles

PER_IP, RATE = "max.connections.per.ip", "max.connection.creation.rate"


class Bench:
    """A broker's acceptor; a connection's address is its number's tens: 17 is of host-1."""

    def __init__(self, quotas: dict[Any, Any] | None = None, **properties: Any) -> None:
        config = BrokerConfig.from_properties(
            {name.replace("_", "."): value for name, value in properties.items()}
        )
        self.process = Process("broker-1", MemoryFiles(), random.Random(1), 0)
        self.process.peer_of = lambda connection: Peer("User:A", f"host-{connection // 10}")
        self.quotas = ConnectionQuotas(config, SimpleNamespace(client_quotas=quotas or {}))
        self.acceptor = BrokerAcceptor(
            self.process, self.quotas, ConnectionRules(), config.socket_listen_backlog_size
        )

    def come(self, *connections: int, now: int = 0) -> list[Any]:
        """Let connections come; return the effects."""
        for connection in connections:
            self.acceptor.on_connection(connection, now)
        return self.effects()

    def end(self, connection: int, now: int = 0) -> list[Any]:
        """Let a connection end; return the effects."""
        self.acceptor.on_disconnected(connection, now)
        return self.effects()

    def wait(self, now: int) -> list[Any]:
        """Let the timers that are due at a time run; return the effects."""
        while (due := self.process.timers.pop_due(now)) is not None:
            self.process.timers.fire(due[0], due[1], now)
        return self.effects()

    def effects(self) -> list[Any]:
        effects = list(self.process.out)
        self.process.out.clear()
        return effects


def test_without_a_limit_nobody_is_asked() -> None:
    assert not Bench().acceptor.limiting
    assert Bench(max_connections=5).acceptor.limiting
    assert Bench({(("ip", None),): {"connection_creation_rate": 5.0}}).acceptor.limiting
    assert not Bench({(("user", None),): {"producer_byte_rate": 5.0}}).acceptor.limiting


def test_above_the_limit_of_an_address_a_connection_is_closed_at_once() -> None:
    bench = Bench(max_connections_per_ip=2, max_connections_per_ip_overrides="host-2:1")
    limited = [ConnectionLimited("host-1", PER_IP, 0), Close(13)]
    assert bench.come(11, 12, 13) == [Admit(11), Admit(12), *limited]
    assert bench.come(21, 22)[0] == Admit(21)
    assert bench.end(13) == []  # it had no slot
    assert bench.end(11) == []
    assert bench.come(14) == [Admit(14)]
    assert bench.quotas.total == 3


def test_without_a_slot_new_connections_wait_in_their_order() -> None:
    bench = Bench(max_connections=1, socket_listen_backlog_size=2)
    waits = ConnectionLimited("host-2", "max.connections", 0)
    assert bench.come(11, 21, 31, 41) == [Admit(11), waits]
    assert not bench.acceptor.full  # it has taken the first, and two wait behind
    assert bench.come(51) == []
    assert bench.acceptor.full
    assert bench.end(11) == [Admit(21), ConnectionLimited("host-3", "max.connections", 0)]
    assert not bench.acceptor.full


def test_above_its_rate_the_acceptor_waits_and_others_wait_behind() -> None:
    bench = Bench(max_connection_creation_rate=1)
    assert bench.come(*range(10)) == [Admit(number) for number in range(10)]  # 10 s of the rate
    assert bench.come(11, 12) == [ConnectionLimited("host-1", RATE, 1000)]
    assert bench.wait(999_999) == []
    assert bench.wait(1_000_000) == [Admit(11), ConnectionLimited("host-1", RATE, 1000)]
    assert bench.wait(2_000_000) == [Admit(12)]


def test_above_the_rate_of_an_address_a_connection_is_closed_later_and_counts_nowhere() -> None:
    quotas = {(("ip", "host-1"),): {"connection_creation_rate": 1.0}}
    bench = Bench(quotas, max_connection_creation_rate=2)
    assert len(bench.come(*range(10, 20))) == 10
    limited = ConnectionLimited("host-1", "connection_creation_rate", 1000)
    assert bench.come(19, 10) == [limited, limited]
    assert bench.come(21) == [Admit(21)]
    assert bench.wait(1_000_000) == [Close(19), Close(10)]
    assert bench.quotas.total == 11


def test_a_connection_that_was_reset_in_the_backlog_takes_no_slot() -> None:
    bench = Bench(max_connections=1)
    bench.come(11, 21, 31)
    bench.process.is_open = lambda connection: connection != 21
    assert bench.end(11) == [Close(21), Admit(31)]
    assert bench.quotas.total == 1


@pytest.mark.parametrize(
    ("entity", "key", "rate", "message"),
    [
        ((("ip", "10.0.0.1"),), "connection_creation_rate", 5.0, ""),
        ((("ip", None),), "connection_creation_rate", 5.0, ""),
        ((("ip", "a b"),), "connection_creation_rate", 5.0,
         "a b is not a valid IP or resolvable host."),
        ((("ip", "a"), (USER, "b")), "connection_creation_rate", 5.0,
         "Invalid quota entity combination, IP entity shouldnot be combined with User or ClientId"),
        ((("ip", "a"),), "producer_byte_rate", 5.0,
         "Invalid configuration key producer_byte_rate"),
        (((USER, "a"),), "connection_creation_rate", 5.0,
         "Invalid configuration key connection_creation_rate"),
        ((("ip", "a"),), "connection_creation_rate", 0.5,
         "connection_creation_rate cannot be a fractional value."),
        ((("ip", "a"),), "connection_creation_rate", 2.0**31,
         "Proposed value for connection_creation_rate is too large for an INT."),
    ],
)  # fmt: skip
def test_what_can_be_set_on_an_address(
    entity: QuotaEntity, key: str, rate: float, message: str
) -> None:
    asked = AlterClientQuotasRequest((ClientQuotaAlteration(entity, ((key, rate),)),))
    _, answer = alter_client_quotas(asked, MetadataImage())
    error = Errors.INVALID_REQUEST if message else Errors.NONE
    assert answer.results == ((entity, error, message),)


@pytest.mark.parametrize(
    ("properties", "message"),
    [
        ({PER_IP: 0}, "0 is allowed only with max.connections.per.ip.overrides"),
        ({f"{PER_IP}.overrides": "a=5"}, "'a=5' is not host:count,…"),
    ],
)
def test_limits_that_say_nothing_are_refused(properties: dict[str, Any], message: str) -> None:
    with pytest.raises(ConfigError, match=message.replace("…", ".")):
        BrokerConfig.from_properties(properties)


def test_a_part_of_a_process_knows_who_is_connected() -> None:
    """In combined mode the host tells the whole process, and the broker's quotas ask."""
    whole = Process("broker-1", MemoryFiles(), random.Random(1), 0)
    part = Process("broker-1", MemoryFiles(), random.Random(1), 0, whole)
    whole.peer_of = lambda connection: Peer("User:a", f"host-{connection}")
    assert part.peer_of(7) == Peer("User:a", "host-7")
