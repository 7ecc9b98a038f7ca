"""Every error code that an API of share groups can answer is answered by that API (KIP-932).

``KAFKA`` is read from the sources of 4.1: GroupCoordinatorService and GroupMetadataManager for the
group coordinator, ShareCoordinatorService and ShareCoordinatorShard for the share coordinator. Not
in the table: authorization, a coordinator that is not started, and null ids.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest

from kafkasim.model.errors import Errors
from kafkasim.model.messages import DeleteGroupsRequest
from kafkasim.model.messages.share import (
    AlterShareGroupOffsetsRequest,
    DeleteShareGroupOffsetsRequest,
    DescribeShareGroupOffsetsGroup,
    DescribeShareGroupOffsetsRequest,
    ShareGroupDescribeRequest,
    ShareGroupHeartbeatRequest,
)
from tests.model.group_harness import GROUP
from tests.model.share_group_harness import ORDERS, ShareGroupBench, beats, joins, leaves
from tests.model.share_harness import ShareBench, batch, delete, initialize, read, summary, write

_SHARD = "NOT_COORDINATOR COORDINATOR_LOAD_IN_PROGRESS"
_APPEND = "COORDINATOR_NOT_AVAILABLE UNKNOWN_SERVER_ERROR"
"""After a failed append (CoordinatorOperationExceptionHelper.handleOperationException)."""

KAFKA = {
    "ShareGroupHeartbeat": f"{_SHARD} {_APPEND} UNSUPPORTED_VERSION INVALID_REQUEST"
    " GROUP_ID_NOT_FOUND GROUP_MAX_SIZE_REACHED UNKNOWN_MEMBER_ID FENCED_MEMBER_EPOCH",
    "ShareGroupDescribe": f"{_SHARD} UNSUPPORTED_VERSION INVALID_GROUP_ID GROUP_ID_NOT_FOUND",
    "DescribeShareGroupOffsets": f"{_SHARD} UNSUPPORTED_VERSION",
    "AlterShareGroupOffsets": f"{_SHARD} {_APPEND} UNSUPPORTED_VERSION INVALID_GROUP_ID"
    " GROUP_ID_NOT_FOUND NON_EMPTY_GROUP UNKNOWN_TOPIC_OR_PARTITION",
    "DeleteShareGroupOffsets": f"{_SHARD} {_APPEND} UNSUPPORTED_VERSION INVALID_GROUP_ID"
    " GROUP_ID_NOT_FOUND NON_EMPTY_GROUP UNKNOWN_TOPIC_OR_PARTITION FENCED_STATE_EPOCH",
    "DeleteGroups": f"{_SHARD} {_APPEND} NON_EMPTY_GROUP GROUP_ID_NOT_FOUND FENCED_STATE_EPOCH",
    "InitializeShareGroupState": f"{_SHARD} {_APPEND} INVALID_REQUEST FENCED_STATE_EPOCH"
    " UNKNOWN_TOPIC_OR_PARTITION",
    "ReadShareGroupState": f"{_SHARD} {_APPEND} INVALID_REQUEST FENCED_LEADER_EPOCH"
    " UNKNOWN_TOPIC_OR_PARTITION",
    "WriteShareGroupState": f"{_SHARD} {_APPEND} INVALID_REQUEST FENCED_LEADER_EPOCH"
    " FENCED_STATE_EPOCH UNKNOWN_TOPIC_OR_PARTITION",
    "DeleteShareGroupState": f"{_SHARD} {_APPEND} INVALID_REQUEST UNKNOWN_TOPIC_OR_PARTITION",
    "ReadShareGroupStateSummary": f"{_SHARD} INVALID_REQUEST UNKNOWN_TOPIC_OR_PARTITION",
}

Bench = ShareGroupBench | ShareBench
FAILURES = {
    "COORDINATOR_NOT_AVAILABLE": Errors.NOT_ENOUGH_REPLICAS,
    "UNKNOWN_SERVER_ERROR": Errors.MESSAGE_TOO_LARGE,
}


def describe_offsets() -> Any:
    asked = DescribeShareGroupOffsetsGroup(GROUP, None)
    return DescribeShareGroupOffsetsRequest((asked,))


def alter(group: str = GROUP, topic: str = "orders") -> Any:
    return AlterShareGroupOffsetsRequest(group, ((topic, ((0, 5),)),))


def delete_offsets(group: str = GROUP, topic: str = "orders") -> Any:
    return DeleteShareGroupOffsetsRequest(group, (topic,))


REQUESTS: dict[str, Callable[[], Any]] = {
    "ShareGroupHeartbeat": lambda: joins("b"),
    "ShareGroupDescribe": lambda: ShareGroupDescribeRequest((GROUP,)),
    "DescribeShareGroupOffsets": describe_offsets,
    "AlterShareGroupOffsets": alter,
    "DeleteShareGroupOffsets": delete_offsets,
    "DeleteGroups": lambda: DeleteGroupsRequest((GROUP,)),
    "InitializeShareGroupState": lambda: initialize(),
    "ReadShareGroupState": lambda: read(1),
    "WriteShareGroupState": lambda: write(batch(1, 1)),
    "DeleteShareGroupState": lambda: delete(),
    "ReadShareGroupStateSummary": lambda: summary(),
}
STATES = ("Initialize", "Read", "Write", "DeleteShareGroupState")


def bench_of(api: str, full: bool = True, **config: Any) -> Bench:
    """Return a coordinator that serves an API, with a group or a share partition."""
    if api.startswith(STATES):
        state = ShareBench(**config).elect()
        state.get(initialize(3)) if full else None
        return state
    groups = ShareGroupBench(**config)
    groups.elect()
    if full:
        groups.join("a")
        groups.get(leaves("a"))
    return groups


def loading(api: str, bench: Bench) -> Any:
    """Ask a coordinator that has just been elected."""
    if isinstance(bench, ShareBench):
        after = ShareBench(log=bench.log)
        after.share.on_elected(0, 2, 0)
        after.drain()
        after.posts.clear()
        return after.get(REQUESTS[api]())
    other = ShareGroupBench(log=bench.log)
    other.group.on_elected(0, 2, 0)
    other.ask_only(REQUESTS[api]())
    return other.answers[other.last]


def resigned(api: str, bench: Bench) -> Any:
    if isinstance(bench, ShareBench):
        bench.share.on_resigned(0, None, 0)
    else:
        bench.group.on_resigned(0, None, 0)
    bench.settle()
    return bench.get(REQUESTS[api]())


def refusing(api: str, bench: Bench, error: Errors) -> Any:
    request = REQUESTS[api]()
    if api == "InitializeShareGroupState":
        request = initialize(4)
    if api == "WriteShareGroupState":
        request = write(batch(1, 1), state_epoch=3)
    bench.log.error = error
    return bench.get(request)


def with_member(request: Any) -> Any:
    bench = bench_of("ShareGroupHeartbeat")
    assert isinstance(bench, ShareGroupBench)
    bench.get(joins("z"))
    return bench.get(request)


def full_group() -> Any:
    bench = ShareGroupBench(group_share_max_size=1)
    bench.elect()
    bench.get(joins("a"))
    return bench.get(joins("b"))


def persister_says(error: Errors, request: Any) -> Any:
    bench = bench_of("ShareGroupHeartbeat")
    assert isinstance(bench, ShareGroupBench)
    bench.persister.error = error
    return bench.get(request)


def turned_off(api: str) -> Any:
    bench = ShareGroupBench()
    bench.image.features["share.version"] = 0
    bench.elect()
    return bench.get(REQUESTS[api]())


def fresh(api: str, request: Any) -> Any:
    return bench_of(api, full=False).get(request)


def topicless(api: str) -> Any:
    bench = bench_of(api)
    assert isinstance(bench, ShareBench)
    bench.image.topics.clear()
    return bench.get(initialize(3) if api.startswith("Init") else REQUESTS_OF_TOPIC[api]())


REQUESTS_OF_TOPIC: dict[str, Callable[[], Any]] = {
    **REQUESTS,
    "WriteShareGroupState": lambda: write(state_epoch=3),
}
STALE = Errors.FENCED_STATE_EPOCH
OWN: dict[tuple[str, str], Callable[[], Any]] = {
    ("ShareGroupHeartbeat", "INVALID_REQUEST"): lambda: fresh("Share", joins("")),
    ("ShareGroupHeartbeat", "GROUP_ID_NOT_FOUND"): lambda: fresh("Share", beats("a", 1)),
    ("ShareGroupHeartbeat", "GROUP_MAX_SIZE_REACHED"): full_group,
    ("ShareGroupHeartbeat", "UNKNOWN_MEMBER_ID"): lambda: with_member(beats("y", 1)),
    ("ShareGroupHeartbeat", "FENCED_MEMBER_EPOCH"): lambda: with_member(beats("z", 9)),
    ("ShareGroupDescribe", "INVALID_GROUP_ID"): lambda: fresh(
        "Share", ShareGroupDescribeRequest(("",))
    ),
    ("ShareGroupDescribe", "GROUP_ID_NOT_FOUND"): lambda: fresh(
        "Share", ShareGroupDescribeRequest((GROUP,))
    ),
    ("AlterShareGroupOffsets", "INVALID_GROUP_ID"): lambda: fresh("Share", alter("")),
    ("AlterShareGroupOffsets", "GROUP_ID_NOT_FOUND"): lambda: fresh("Share", alter()),
    ("AlterShareGroupOffsets", "NON_EMPTY_GROUP"): lambda: with_member(alter()),
    ("AlterShareGroupOffsets", "UNKNOWN_TOPIC_OR_PARTITION"): lambda: fresh(
        "Share", alter(topic="none")
    ),
    ("DeleteShareGroupOffsets", "INVALID_GROUP_ID"): lambda: fresh("Share", delete_offsets("")),
    ("DeleteShareGroupOffsets", "GROUP_ID_NOT_FOUND"): lambda: fresh("Share", delete_offsets()),
    ("DeleteShareGroupOffsets", "NON_EMPTY_GROUP"): lambda: with_member(delete_offsets()),
    ("DeleteShareGroupOffsets", "UNKNOWN_TOPIC_OR_PARTITION"): lambda: bench_of("Share").get(
        delete_offsets(topic="none")
    ),
    ("DeleteShareGroupOffsets", "FENCED_STATE_EPOCH"): lambda: persister_says(
        STALE, delete_offsets()
    ),
    ("DeleteGroups", "NON_EMPTY_GROUP"): lambda: with_member(DeleteGroupsRequest((GROUP,))),
    ("DeleteGroups", "GROUP_ID_NOT_FOUND"): lambda: fresh("Share", DeleteGroupsRequest((GROUP,))),
    ("DeleteGroups", "FENCED_STATE_EPOCH"): lambda: persister_says(
        STALE, DeleteGroupsRequest((GROUP,))
    ),
    ("InitializeShareGroupState", "INVALID_REQUEST"): lambda: fresh(
        "Initialize", initialize(partition=-1)
    ),
    ("InitializeShareGroupState", "FENCED_STATE_EPOCH"): lambda: bench_of("Initialize").get(
        initialize(2)
    ),
    ("ReadShareGroupState", "INVALID_REQUEST"): lambda: fresh("Read", read()),
    ("ReadShareGroupState", "FENCED_LEADER_EPOCH"): lambda: bench_of("Read").get(read(-1)),
    ("WriteShareGroupState", "INVALID_REQUEST"): lambda: fresh("Write", write()),
    ("WriteShareGroupState", "FENCED_LEADER_EPOCH"): lambda: bench_of("Write").get(
        write(leader_epoch=-2)
    ),
    ("WriteShareGroupState", "FENCED_STATE_EPOCH"): lambda: bench_of("Write").get(
        write(state_epoch=2)
    ),
    ("DeleteShareGroupState", "INVALID_REQUEST"): lambda: fresh(
        "DeleteShareGroupState", delete(partition=-1)
    ),
    ("ReadShareGroupStateSummary", "INVALID_REQUEST"): lambda: fresh("Read", summary(-1)),
}


def provoke(api: str, code: str) -> Any:
    if (api, code) in OWN:
        return OWN[api, code]()
    if code == "UNSUPPORTED_VERSION":
        return turned_off(api)
    if code == "UNKNOWN_TOPIC_OR_PARTITION":
        return topicless(api)
    if code == "COORDINATOR_LOAD_IN_PROGRESS":
        return loading(api, bench_of(api))
    if code == "NOT_COORDINATOR":
        return resigned(api, bench_of(api))
    return refusing(api, bench_of(api), FAILURES[code])


@pytest.mark.parametrize(
    ("api", "code"), [(api, code) for api, codes in KAFKA.items() for code in codes.split()]
)
def test_the_code_is_answered(api: str, code: str) -> None:
    assert f"Errors.{code}:" in repr(provoke(api, code))


def test_nothing_is_provoked_that_the_table_does_not_have() -> None:
    assert [each for each in OWN if each[1] not in KAFKA[each[0]].split()] == []


@pytest.mark.parametrize(
    "request_",
    [
        joins(" "),
        ShareGroupHeartbeatRequest("", "a", 0, None, ("orders",)),
        ShareGroupHeartbeatRequest(GROUP, "a", 0, " ", ("orders",)),
        ShareGroupHeartbeatRequest(GROUP, "a", 0),
        ShareGroupHeartbeatRequest(GROUP, "a", 0, None, ()),
        beats("a", -2),
    ],
)
def test_a_heartbeat_that_lacks_something_is_invalid(request_: Any) -> None:
    bench = ShareGroupBench()  # not even elected: the fields are checked first
    assert bench.get(request_).error is Errors.INVALID_REQUEST
    assert ORDERS in bench.image.topics
