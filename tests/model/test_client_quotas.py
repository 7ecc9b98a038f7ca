"""Quotas of clients: the rate, the throttle time, and what a broker does with it."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any

import pytest

from kafkasim.model.broker.common.client_quotas import ClientQuotaManager
from kafkasim.model.controller.common.image import MetadataImage
from kafkasim.model.controller.common.records import ClientQuotaRecord
from kafkasim.model.controller.kraft.managers.configs import alter_client_quotas
from kafkasim.model.errors import Errors
from kafkasim.model.facts import Throttled
from kafkasim.model.messages import AlterClientQuotasRequest, ClientQuotaAlteration
from kafkasim.model.messages.clients.admin import CLIENT_ID, USER, QuotaEntity
from kafkasim.model.replication.quotas.rate import Rate, Windows
from kafkasim.model.replication.rules import ReplicationRules
from kafkasim.scenarios.language.spec import parse
from kafkasim.scenarios.running.runner import run

SECOND = 1_000_000


def of(client_id: str | None) -> QuotaEntity:
    return ((CLIENT_ID, client_id),)


def manager(quotas: dict[QuotaEntity, dict[str, float]]) -> tuple[ClientQuotaManager, list[Any]]:
    out: list[Any] = []
    metadata = SimpleNamespace(client_quotas=quotas, offset=7)
    rules = ReplicationRules()
    return ClientQuotaManager("producer_byte_rate", "Produce", metadata, rules, out), out


def test_a_quota_is_violated_as_in_kafkas_own_test() -> None:
    """ClientQuotaManagerTest.testQuotaViolation: 6300 bytes in 10.5 s are 600 a second; 500 are
    allowed, so that (600 − 500) / 500 × 10.5 s remain."""
    quota, out = manager({of(None): {"producer_byte_rate": 500}})
    for second in range(10):
        assert quota.record("unknown", 400, second * SECOND) == 0
    assert quota.record("unknown", 2300, 10_500_000) == 2100
    assert out == [
        Throttled("unknown", "Produce", 2100, "ANONYMOUS", "producer_byte_rate", "500", 7)
    ]
    assert quota.record("unknown", 0, 30 * SECOND) == 0


def test_a_first_burst_is_measured_over_ten_seconds() -> None:
    rate = Rate()
    rate.record(1000, 0)
    assert (rate.measure(0), rate.window_ms(0)) == (100.0, 10_000)
    assert rate.measure(5_500) == 1000 / 10.5
    assert rate.measure(11_000) == 0.0  # the window's last record is as old as all windows


def test_windows_say_how_long_a_burst_counts() -> None:
    """quota.window.num = 4 and quota.window.size.seconds = 2: six seconds, not ten."""
    rate = Rate(Windows(4, 2000))
    rate.record(600, 0)
    assert (rate.measure(0), rate.window_ms(0)) == (100.0, 6_000)
    metadata = SimpleNamespace(client_quotas={of(None): {"producer_byte_rate": 10}}, offset=7)
    rules, windows = ReplicationRules(), Windows(4, 2000)
    quota = ClientQuotaManager("producer_byte_rate", "Produce", metadata, rules, [], windows)
    assert quota.most_bytes("a") == 60
    assert quota.record("a", 60, 0) == 0
    assert quota.record("a", 60, 0) == 6_000


def test_a_client_has_its_own_quota_or_the_default_or_none() -> None:
    quotas = {of(None): {"producer_byte_rate": 10.0}, of("a"): {"consumer_byte_rate": 5.0},
              of("b"): {"producer_byte_rate": 7.0}}  # fmt: skip
    quota, _ = manager(quotas)
    assert [quota.limit(name) for name in ("a", "b", "c")] == [10.0, 7.0, 10.0]
    assert [quota.most_bytes(name) for name in ("a", "b")] == [100, 70]
    quotas.pop(of(None))
    assert quota.limit("a") is None
    assert quota.record("a", 1 << 30, 0) == 0


def test_the_most_specific_quota_applies() -> None:
    """ClientQuotaManagerTest.testQuotaConfigPrecedence."""
    me, any_user = (USER, "ANONYMOUS"), (USER, None)
    client, any_client = (CLIENT_ID, "a"), (CLIENT_ID, None)
    precedence: list[QuotaEntity] = [
        (client, me), (any_client, me), (me,), (client, any_user), (any_client, any_user),
        (any_user,), (client,), (any_client,),
    ]  # fmt: skip
    quotas = {
        entity: {"producer_byte_rate": float(rate)} for rate, entity in enumerate(precedence, 1)
    }
    quota, _ = manager(quotas)
    for rate, entity in enumerate(precedence, 1):
        assert quota.limit("a") == rate
        del quotas[entity]
    assert quota.limit("a") is None


def test_the_clients_of_a_user_share_the_users_quota() -> None:
    quota, _ = manager({((USER, "ANONYMOUS"),): {"producer_byte_rate": 10}})
    assert quota.record("a", 100, 0) == 0
    assert quota.record("b", 100, 0) == 10_000
    quota, _ = manager({of(None): {"producer_byte_rate": 10}})
    assert quota.record("a", 100, 0) == quota.record("b", 100, 0) == 0


def test_a_quota_of_zero_throttles_nobody() -> None:
    quota, out = manager({of("a"): {"producer_byte_rate": 0.0}})
    assert (quota.record("a", 1000, 0), quota.most_bytes("a"), out) == (0, 0, [])


def test_what_is_not_sent_is_not_counted() -> None:
    quota, _ = manager({of(None): {"producer_byte_rate": 10}})
    assert quota.record("a", 200, 0) == 10_000
    quota.unrecord("a", 200, 0)
    assert quota.record("a", 100, 0) == 0


def test_quotas_are_records_of_the_metadata() -> None:
    image = MetadataImage()
    changes = (
        ("a", "producer_byte_rate", 5.0), (None, "consumer_byte_rate", 7.0),
        ("b", "producer_byte_rate", 0.0), ("c", "no_such_rate", 1.0),
    )  # fmt: skip
    asked = AlterClientQuotasRequest(
        tuple(ClientQuotaAlteration(of(name), ((key, rate),)) for name, key, rate in changes)
    )
    records, answer = alter_client_quotas(asked, image)
    assert records == [ClientQuotaRecord(of("a"), "producer_byte_rate", 5.0),
                       ClientQuotaRecord(of(None), "consumer_byte_rate", 7.0)]  # fmt: skip
    assert [error for _, error, _ in answer.results] == [
        Errors.NONE, Errors.NONE, Errors.INVALID_REQUEST, Errors.INVALID_REQUEST,
    ]  # fmt: skip
    before = image.copy().contents()
    for offset, record in enumerate(records):
        image.apply(record, offset, 1)
    assert image.client_quotas == image.copy().client_quotas == {
        of("a"): {"producer_byte_rate": 5.0}, of(None): {"consumer_byte_rate": 7.0},
    }  # fmt: skip
    assert alter_client_quotas(asked, image)[0] == []
    for offset, name in ((2, "a"), (3, None)):
        key = "producer_byte_rate" if name else "consumer_byte_rate"
        image.apply(ClientQuotaRecord(of(name), key, None), offset, 1)
    assert image.contents()[2:] == before[2:]


def test_a_throttled_connection_stays_muted_and_its_client_waits() -> None:
    scenario = {
        "name": "quota", "claim": "Who is above a quota waits.", "duration": "5s",
        "cluster": {"brokers": 1, "controllers": 1},
        "topics": [{"name": "orders"}],
        "workload": [{"kind": "producer", "rate": "40/s", "value-size": 1000}],
        "operations": [{"kind": "alter-client-quotas", "at": "0s",
                        "config": {"producer_byte_rate": 8000}}],
    }  # fmt: skip
    result = run(parse(scenario, "quota"), 1)
    assert result.verdict == "pass"
    assert result.observations.keys() >= {"throttled:producer-1", "slow-acks:producer-1"}


@pytest.mark.parametrize(
    ("rate", "verdict", "anomalies"),
    [(1300, "fail", ["no-progress", "unseen"]), (1700, "pass", [])],
)
def test_a_batch_above_all_windows_of_the_quota_is_never_given(
    rate: int, verdict: str, anomalies: list[str]
) -> None:
    """What is left of KAFKA-9677: the first batch of an answer is read whole."""
    scenario = {
        "name": "quota", "claim": "A batch of 16 KB needs a quota of 1.4 KB/s.", "duration": "5s",
        "cluster": {"brokers": 1, "controllers": 1,
                    "config": {"offsets.topic.replication.factor": 1}},
        "topics": [{"name": "orders"}],
        "workload": [
            {"kind": "producer", "rate": "20/s", "value-size": 800,
             "config": {"linger.ms": 10_000}},
            {"kind": "consumer-group", "group": "g", "topics": ["orders"],
             "config": {"auto.offset.reset": "earliest"}},
        ],
        "operations": [{"kind": "alter-client-quotas", "at": "0s", "client-id": "consumer-1",
                        "config": {"consumer_byte_rate": rate}}],
    }  # fmt: skip
    result = run(parse(scenario, "quota"), 1)
    assert (result.verdict, result.anomalies) == (verdict, anomalies)
