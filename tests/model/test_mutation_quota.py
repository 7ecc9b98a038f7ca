"""controller_mutation_rate: the token bucket, who is refused, who has to wait (KIP-599)."""

from __future__ import annotations

import tomllib

import pytest

from kafkasim.model.config import BrokerConfig
from kafkasim.model.controller.common.client_quotas import Quotas
from kafkasim.model.controller.common.mutation_quota import (
    MESSAGE,
    ControllerMutationQuotaManager,
)
from kafkasim.model.controller.common.topics import Refused
from kafkasim.model.errors import Errors
from kafkasim.model.messages.clients.admin import CLIENT_ID, USER
from kafkasim.scenarios.language import library
from kafkasim.scenarios.language.spec import parse
from kafkasim.scenarios.running.runner import run

SECOND = 1_000_000
REFUSED = Refused(Errors.THROTTLING_QUOTA_EXCEEDED, MESSAGE)


def manager(quotas: Quotas) -> ControllerMutationQuotaManager:
    return ControllerMutationQuotaManager(BrokerConfig(), lambda: quotas)


def of_admin(rate: float) -> Quotas:
    return {((CLIENT_ID, "admin"),): {"controller_mutation_rate": rate}}


def test_the_strict_quota_admits_what_overdraws_it_and_refuses_what_follows() -> None:
    """ControllerMutationQuotaManagerTest.testControllerMutationQuotaViolation: 10 a second are 110
    at once; 90 more than that need 9 s, after which the next is admitted."""
    quotas = manager(of_admin(10.0))

    def ask(partitions: int, at_s: int) -> tuple[Refused | None, int]:
        quota = quotas.quota_for("ANONYMOUS", "admin", True, at_s * SECOND)
        assert quota is not None
        return quota.record(partitions), quota.throttle_time_ms(at_s * 1000)

    assert ask(90, 0) == (None, 0)
    assert ask(110, 0) == (None, 0)
    assert ask(1, 0) == (REFUSED, 9000)
    assert ask(1, 5) == (REFUSED, 4000)
    assert ask(1, 9) == (None, 0)
    assert ask(1, 9) == (REFUSED, 100)


def test_the_permissive_quota_admits_all_and_asks_to_wait() -> None:
    quota = manager(of_admin(10.0)).quota_for("ANONYMOUS", "admin", False, 0)
    assert quota is not None
    assert (quota.record(110), quota.throttle_time_ms(0)) == (None, 0)
    assert (quota.record(20), quota.throttle_time_ms(0)) == (None, 2000)
    assert quota.throttle_time_ms(500) == 1500  # what has gone by until the answer is sent


def test_a_bucket_is_shared_by_whom_the_quota_is_of() -> None:
    quotas = manager({((USER, "alice"),): {"controller_mutation_rate": 1.0}})
    first = quotas.quota_for("alice", "a", True, 0)
    second = quotas.quota_for("alice", "b", True, 0)
    assert first is not None
    assert second is not None
    assert (first.record(12), second.record(1)) == (None, REFUSED)
    assert quotas.quota_for("bob", "a", True, 0) is None


@pytest.mark.slow
def test_in_zookeeper_mode_the_broker_that_is_controller_charges_its_clients() -> None:
    """KafkaApis.handleCreateTopicsRequest, ZkAdminManager.createTopics."""
    raw = tomllib.loads(library.path("topic-storm").read_text(encoding="utf-8"))
    del raw["cluster"]["controllers"]
    raw["cluster"] |= {"mode": "zookeeper", "zookeepers": 3, "kafka-version": "3.9"}
    result = run(parse(raw, "topic-storm"), 1)
    assert (result.verdict, result.anomalies) == ("pass", [])
