"""The consumer of group.protocol=consumer against a scripted coordinator (KIP-848)."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest

from kafkasim.model.client.exceptions import CommitFailedError, KafkaError
from kafkasim.model.config import ConfigError, ConsumerConfig
from kafkasim.model.errors import NONE, Errors
from kafkasim.model.facts import ConsumerAssigned, ConsumerRevoked
from kafkasim.model.messages import (
    ConsumerGroupHeartbeatRequest,
    ConsumerGroupHeartbeatResponse,
    JoinGroupRequest,
    OffsetCommitRequest,
    OffsetFetchRequest,
    TopicIdPartitions,
)
from kafkasim.model.records import TopicPartition
from tests.model.client_harness import Cluster, Harness
from tests.model.test_consumer_group import Group, polled

T0, T1 = TopicPartition("t", 0), TopicPartition("t", 1)
BOTH: TopicIdPartitions = (("id-t", (0, 1)),)
FIRST: TopicIdPartitions = (("id-t", (0,)),)


class Coordinator(Group):
    """Answers heartbeats: the next assignment once, or an error once; epochs as told."""

    def __init__(self, cluster: Cluster, records: int = 0) -> None:
        super().__init__(cluster, records)
        self.member_epoch = 1
        self.assignment: TopicIdPartitions | None = BOTH
        self.errors: list[Errors] = []
        cluster.handlers[ConsumerGroupHeartbeatRequest] = self.heartbeat

    def heartbeat(self, node: str, m: ConsumerGroupHeartbeatRequest) -> Any:
        if self.errors:
            return ConsumerGroupHeartbeatResponse(self.errors.pop(0))
        if m.member_epoch < 0:
            return ConsumerGroupHeartbeatResponse(NONE, m.member_id, m.member_epoch)
        assignment, self.assignment = self.assignment, None
        return ConsumerGroupHeartbeatResponse(
            NONE, m.member_id, self.member_epoch, 5000, assignment
        )


def start(records: int = 0, **changes: Any) -> tuple[Harness, Coordinator]:
    cluster = Cluster(2)
    coordinator = Coordinator(cluster, records)
    config = ConsumerConfig(group_id="g", group_protocol="consumer", auto_offset_reset="earliest")
    h = Harness(replace(config, **changes), cluster)
    h.call("subscribe", ("t",))
    return h, coordinator


def told(h: Harness) -> list[tuple[int, Any, Any]]:
    """Return (epoch, topics, owned partitions) of every heartbeat."""
    return [
        (m.member_epoch, m.subscribed_topic_names, m.topic_partitions)
        for m in h.cluster.requests(ConsumerGroupHeartbeatRequest)
    ]


JOINS = (0, ("t",), ())


def test_a_member_joins_takes_its_assignment_and_acknowledges_it() -> None:
    h, _ = start(records=2)
    assert h.result("poll", 1000) == ("assigned", (T0, T1))
    assert h.result("continue")[0] == "records"
    assert told(h) == [JOINS, (1, None, BOTH)]
    (assigned,) = h.of(ConsumerAssigned)
    assert (assigned.generation, assigned.assignment) == (1, ("t-0", "t-1"))
    assert h.cluster.requests(JoinGroupRequest) == []


def test_heartbeats_follow_the_coordinators_interval_and_say_only_news() -> None:
    h, _ = start()
    polled(h, 100)
    h.run(10_500)
    assert told(h) == [JOINS, (1, None, BOTH), (1, None, None), (1, None, None)]


def test_only_what_goes_is_revoked_after_a_commit_and_the_rest_is_kept() -> None:
    h, coordinator = start(records=2)
    polled(h)
    coordinator.member_epoch, coordinator.assignment = 1, FIRST
    h.run(5_100)
    assert h.result("poll", 1000) == ("revoked", (T1,))
    committed = h.cluster.requests(OffsetCommitRequest)[-1]
    assert (committed.generation_id, [o[0] for o in committed.offsets]) == (1, [T0, T1])
    assert h.result("continue") == ("assigned", ())
    h.result("continue")
    assert told(h)[-1] == (1, None, FIRST)
    assert [r.assignment for r in h.of(ConsumerRevoked)] == [("t-1",)]


def test_a_fenced_member_loses_everything_and_joins_again() -> None:
    h, coordinator = start()
    polled(h, 100)
    coordinator.errors = [Errors.FENCED_MEMBER_EPOCH]
    h.run(5_100)
    assert h.result("poll", 1000) == ("lost", (T0, T1))
    coordinator.member_epoch, coordinator.assignment = 7, FIRST
    assert h.result("continue") == ("assigned", (T0,))
    h.result("continue")
    assert told(h)[-2:] == [JOINS, (7, None, FIRST)]
    assert [(r.assignment, r.lost) for r in h.of(ConsumerRevoked)] == [(("t-0", "t-1"), True)]


@pytest.mark.parametrize("instance", [None, "i"])
def test_close_commits_and_leaves(instance: str | None) -> None:
    h, _ = start(records=2, group_instance_id=instance)
    polled(h)
    h.result("close")
    last = h.cluster.requests(ConsumerGroupHeartbeatRequest)[-1]
    assert last.member_epoch == (-1 if instance is None else -2)
    assert len(h.cluster.requests(OffsetCommitRequest)) == 1
    assert [r.lost for r in h.of(ConsumerRevoked)] == [False]


def test_an_application_that_does_not_poll_leaves_and_comes_back() -> None:
    h, coordinator = start(max_poll_interval_ms=20_000)
    polled(h, 100)
    h.run(26_000)
    assert told(h)[-1][0] == -1
    count = len(told(h))
    h.run(20_000)
    assert len(told(h)) == count  # STALE: no heartbeat until it polls again
    assert h.result("poll", 1000) == ("lost", (T0, T1))
    coordinator.assignment = BOTH
    assert h.result("continue") == ("assigned", (T0, T1))
    assert told(h)[-1] == JOINS


@pytest.mark.parametrize(
    "error",
    [
        Errors.GROUP_MAX_SIZE_REACHED,
        Errors.UNSUPPORTED_ASSIGNOR,
        Errors.UNSUPPORTED_VERSION,
        Errors.UNRELEASED_INSTANCE_ID,
        Errors.FENCED_INSTANCE_ID,
        Errors.INVALID_REQUEST,
        Errors.GROUP_ID_NOT_FOUND,
    ],
)
def test_other_errors_end_the_membership(error: Errors) -> None:
    h, coordinator = start()
    coordinator.errors = [error]
    failed = h.result("poll", 5000)
    assert isinstance(failed, KafkaError)
    assert failed.error == error.name
    h.result("poll", 10_000)
    assert told(h) == [JOINS]


def test_a_moved_coordinator_is_told_everything_again() -> None:
    h, coordinator = start()
    polled(h, 100)
    coordinator.errors = [Errors.NOT_COORDINATOR]
    h.run(6_000)
    assert told(h)[-1] == (1, ("t",), BOTH)


def test_a_loading_coordinator_is_asked_again_after_a_backoff() -> None:
    h, coordinator = start()
    coordinator.errors = [Errors.COORDINATOR_LOAD_IN_PROGRESS] * 2
    assert h.result("poll", 5000) == ("assigned", (T0, T1))
    assert told(h)[:3] == [JOINS] * 3


def test_a_lost_answer_has_everything_sent_again() -> None:
    h, coordinator = start()
    polled(h, 100)
    h.cluster.handlers[ConsumerGroupHeartbeatRequest] = lambda _n, _m: None
    h.run(5_100)
    h.reset("broker-0")
    h.cluster.handlers[ConsumerGroupHeartbeatRequest] = coordinator.heartbeat
    h.run(1_000)
    assert told(h)[-1] == (1, ("t",), BOTH)


def test_a_commit_before_a_revocation_is_repeated_under_the_new_epoch() -> None:
    h, coordinator = start(records=2)
    polled(h)
    coordinator.commit_error = Errors.STALE_MEMBER_EPOCH
    coordinator.assignment = FIRST
    h.run(5_100)
    asked = h.call("poll", 3000)
    h.run(500)
    coordinator.commit_error = NONE
    coordinator.member_epoch = 2
    h.run(5_500)
    assert asked is not None
    epochs = [m.generation_id for m in h.cluster.requests(OffsetCommitRequest)]
    assert len(epochs) > 2
    assert coordinator.committed == {T0: 2, T1: 0}


def test_a_commit_of_a_stale_epoch_fails() -> None:
    h, coordinator = start(records=2, enable_auto_commit=False)
    polled(h)
    coordinator.commit_error = Errors.STALE_MEMBER_EPOCH
    assert isinstance(h.result("commit_sync", None), CommitFailedError)


def test_offsets_are_fetched_in_the_name_of_the_member() -> None:
    h, _ = start()
    polled(h, 100)
    (asked,) = h.cluster.requests(OffsetFetchRequest)
    assert (asked.member_id, asked.member_epoch) == (
        h.cluster.requests(ConsumerGroupHeartbeatRequest)[0].member_id,
        1,
    )


def test_a_new_subscription_goes_with_the_next_heartbeat() -> None:
    h, _ = start()
    polled(h, 100)
    h.call("subscribe", ("t", "u"))
    h.run(5_100)
    assert told(h)[-1] == (1, ("t", "u"), None)


def test_the_broker_has_the_settings_of_the_classic_protocol() -> None:
    for name, wrong in (("session_timeout_ms", 6000), ("heartbeat_interval_ms", 1000)):
        with pytest.raises(ConfigError, match=r"group\.protocol=consumer"):
            ConsumerConfig(group_protocol="consumer", **{name: wrong})  # type: ignore[arg-type]
    with pytest.raises(ConfigError, match=r"group\.protocol=consumer"):
        ConsumerConfig(group_remote_assignor="range")
