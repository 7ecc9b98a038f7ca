"""DescribeGroups, ListGroups, DeleteGroups, OffsetDelete at the coordinator, and as admin calls.

What Kafka answers in which case is in tests/fidelity (administering groups).
"""

from __future__ import annotations

from typing import Any

import pytest

from kafkasim.model.config import ClientConfig
from kafkasim.model.errors import NONE, Errors
from kafkasim.model.messages import (
    DeleteGroupsRequest,
    DeleteGroupsResponse,
    DescribedGroup,
    DescribeGroupsRequest,
    DescribeGroupsResponse,
    FindCoordinatorRequest,
    FindCoordinatorResponse,
    ListedGroup,
    ListGroupsRequest,
    ListGroupsResponse,
    OffsetCommitRequest,
    OffsetDeleteRequest,
    OffsetDeleteResponse,
    OffsetFetchRequest,
)
from kafkasim.model.records import TopicPartition
from tests.model.client_harness import Cluster, Harness
from tests.model.group_harness import GROUP, T0, T1, Bench


def commit(group: str, *partitions: TopicPartition) -> OffsetCommitRequest:
    return OffsetCommitRequest(group, -1, "", None, tuple((tp, 5, 0, "") for tp in partitions))


def test_a_deleted_group_stays_deleted_after_a_failover() -> None:
    bench = Bench().elect()
    bench.get(commit(GROUP, T0, T1))
    assert bench.get(DeleteGroupsRequest((GROUP,))) == DeleteGroupsResponse(((GROUP, NONE),))
    successor = Bench(log=bench.log).elect(2)
    described = successor.get(DescribeGroupsRequest((GROUP,)))
    gone = DescribedGroup(Errors.GROUP_ID_NOT_FOUND, GROUP, "Dead")
    assert described == DescribeGroupsResponse((gone,))
    assert successor.get(OffsetFetchRequest(GROUP, None)).partitions == ()


def test_a_deletion_is_answered_once_it_is_replicated() -> None:
    bench = Bench().elect()
    bench.get(commit(GROUP, T0))
    bench.auto_replicate = False
    asked = [bench.ask(DeleteGroupsRequest((GROUP,))), bench.ask(OffsetDeleteRequest("x", (T0,)))]
    assert [n in bench.answers for n in asked] == [False, True]
    bench.replicate()
    assert bench.answers[asked[0]] == DeleteGroupsResponse(((GROUP, NONE),))


def test_a_deletion_that_is_not_replicated_in_time_fails() -> None:
    bench = Bench(offsets_commit_timeout_ms=1000).elect()
    bench.get(commit(GROUP, T0))
    bench.auto_replicate = False
    asked = [bench.ask(OffsetDeleteRequest(GROUP, (T0,))), bench.ask(DeleteGroupsRequest((GROUP,)))]
    bench.wait(2)
    failed = Errors.COORDINATOR_NOT_AVAILABLE
    assert [bench.answers[n] for n in asked] == [
        OffsetDeleteResponse(failed),
        DeleteGroupsResponse(((GROUP, failed),)),
    ]


def test_while_one_partition_loads_no_group_is_listed() -> None:
    bench = Bench(offsets_topic_num_partitions=2).elect()
    bench.group.on_elected(1, 0, bench.now)
    answer = bench.get(ListGroupsRequest())
    assert answer == ListGroupsResponse(Errors.COORDINATOR_LOAD_IN_PROGRESS, ())


@pytest.mark.parametrize("new_coordinator", [True, False])
def test_only_the_new_coordinator_calls_an_unknown_group_an_error(new_coordinator: bool) -> None:
    bench = Bench(new_coordinator=new_coordinator).elect()
    (group,) = bench.get(DescribeGroupsRequest((GROUP,))).groups
    error = Errors.GROUP_ID_NOT_FOUND if new_coordinator else NONE
    assert (group.error, group.state) == (error, "Dead")


class Coordinators(Cluster):
    """Two brokers; the first that is asked for a coordinator's work does not have the group."""

    def __init__(self) -> None:
        super().__init__()
        self.moved = False
        self.handlers[FindCoordinatorRequest] = lambda _n, _m: FindCoordinatorResponse(
            NONE, int(self.moved), f"broker-{int(self.moved)}"
        )

    def error(self, node: str) -> Errors:
        wrong, self.moved = node != "broker-1", True
        return Errors.NOT_COORDINATOR if wrong else NONE


def admin() -> tuple[Harness, Coordinators]:
    cluster = Coordinators()
    cluster.handlers.update(
        {
            DescribeGroupsRequest: lambda n, m: DescribeGroupsResponse(
                (DescribedGroup(cluster.error(n), m.group_ids[0], "Empty"),)
            ),
            DeleteGroupsRequest: lambda n, m: DeleteGroupsResponse(
                ((m.group_ids[0], cluster.error(n)),)
            ),
            OffsetDeleteRequest: lambda n, _: OffsetDeleteResponse(cluster.error(n), ((T0, NONE),)),
            ListGroupsRequest: lambda n, _: ListGroupsResponse(
                NONE, (ListedGroup(f"of-{n}", "consumer", "Empty", "classic"),)
            ),
        }
    )
    return Harness(ClientConfig(), cluster), cluster


@pytest.mark.parametrize(
    ("method", "arguments", "reply"),
    [
        ("describe_group", (GROUP,), DescribedGroup(NONE, GROUP, "Empty")),
        ("delete_group", (GROUP,), None),
        ("delete_offsets", (GROUP, (T0,)), {T0: NONE}),
    ],
)
def test_the_admin_client_follows_the_coordinator(
    method: str, arguments: tuple[Any, ...], reply: Any
) -> None:
    h, cluster = admin()
    assert h.result(method, *arguments) == (NONE, reply)
    assert len(cluster.requests(FindCoordinatorRequest)) == 2


def test_the_admin_client_lists_the_groups_of_all_brokers() -> None:
    h, _ = admin()
    groups = h.result("list_groups", (), ())
    assert [group.group_id for group in groups] == ["of-broker-0", "of-broker-1"]
