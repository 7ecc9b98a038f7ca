"""Failures of applications that Kafka allows, and what only looks like them: for both judges."""

from __future__ import annotations

from dataclasses import replace

from kafkasim.model import facts
from tests.scenarios.fact_makers import Row, T, acked, batch, final, polled, positioned

STARTED: Row = ("consumer-1", facts.HostStarted(1))
ASSIGNED: Row = ("consumer-1", facts.ConsumerAssigned("billing", "m2", 2, ()))
SECOND: Row = ("world", 1)
"""A second passes."""


def group(
    state: str, *members: str, protocol: str = "", node: str = "broker-1", reason: str = ""
) -> Row:
    return node, facts.GroupState("billing", state, 1, members, protocol, reason)


def to(protocol: str) -> Row:
    return "broker-1", facts.GroupConverted("billing", protocol, "")


def created(partitions: int, topic_id: str = T) -> Row:
    return "controller-1", facts.TopicCreated(1, topic_id, "orders", partitions, 1, 1)


def grown(partition: int) -> Row:
    fact = facts.PartitionChanged(2, T, partition, -1, 1, 1, (), (1,), "created", False)
    return "controller-1", fact


def failed(reason: str, exception: str = "KafkaError") -> Row:
    fact = facts.ApplicationFailed("consumer-1-task-1", True, exception, reason, ())
    return "consumer-1", fact


def loads(request: str, group: str = "billing") -> Row:
    return "broker-1", facts.LoadInProgress(group, request)


def joins(member: str = "", instance: str = "i", group: str = "billing") -> Row:
    request = facts.MemberRequest(group, member, instance, "JoinGroup", -1, (), ("range",), 1, 1)
    return "broker-1", request


def back(old: str, new: str, group: str = "billing") -> Row:
    """The old id of a member is back, since the record with its new one was not appended."""
    fact = facts.MemberIdReverted(group, old, "i", new, "NOT_ENOUGH_REPLICAS")
    return "broker-1", fact


def placed(member: str) -> Row:
    return "broker-1", facts.GroupAssigned("billing", 1, member, ())


def told(member: str) -> Row:
    return "consumer-1", facts.ConsumerAssigned("billing", member, 1, ())


GONE = failed("GROUP_ID_NOT_FOUND: group billing")
FENCED = failed("FENCED_INSTANCE_ID: group billing")
NOT_CONVERTED = failed("UNKNOWN_SERVER_ERROR: group billing")
LOADING = failed("COORDINATOR_LOAD_IN_PROGRESS: group billing")
NO_PLAN = failed("IllegalStateException", "AssignorError")


def owns(partition: str, group: str = "billing", host: str = "consumer-2") -> Row:
    return host, facts.ConsumerAssigned(group, "m1", 1, (partition,))


def shares(partition: str, group: str = "billing") -> Row:
    return "broker-1", facts.ShareGroupAssigned(group, 1, "m1", (partition,))


def reads(topic: str, group: str = "billing") -> Row:
    """A member of a consumer group tells its subscription."""
    request = facts.MemberRequest(
        group, "m1", None, "ConsumerGroupHeartbeat", -1, (topic,), (), 0, 0
    )
    return "broker-1", request


def takes_over(partition: int = 0) -> Row:
    return "broker-2", facts.CoordinatorLoaded(partition, 1, True)


GROUPS: Row = ("controller-1", facts.TopicCreated(1, "offsets-id", "__consumer_offsets", 1, 1, 1))
LEAVES: Row = (
    "broker-1",
    facts.MemberRequest("billing", "i-2", None, "LeaveGroup", 1, (), (), 0, 0),
)
FORMER: list[Row] = [
    ("controller-1", facts.TopicCreated(1, "offsets-id", "__consumer_offsets", 1, 1, 1)),
    group("Stable", "i-0", protocol="range"),
]
JOINING = group("PreparingRebalance", "m1")
PLACED = group("Stable", "m2", protocol="range")
REMOVED: list[Row] = [
    ("broker-1", facts.MemberRequest("billing", "m2", None, "LeaveGroup", -1, (), (), 0, 0)),
    group("Empty"),
]
DELETED = group("Dead", reason="expired")

_ALLOWED: dict[str, list[Row]] = {
    "gone: the group is a classic one again": [
        STARTED, SECOND, to("consumer"), ASSIGNED, SECOND, to("classic"), GONE],
    "gone: the group acts as a classic one": [STARTED, SECOND, ASSIGNED, SECOND, JOINING, GONE],
    "gone: the group was deleted after the member had been removed": [
        STARTED, PLACED, ASSIGNED, *REMOVED, DELETED, GONE],
    "gone: the member heard of its assignment after the group was deleted": [
        STARTED, PLACED, *REMOVED, DELETED, ASSIGNED, GONE],
    "gone: an operator deleted the group, and others use its name": [
        STARTED, PLACED, ASSIGNED, *REMOVED, group("Dead", reason="deleted"),
        group("Stable", "m3", protocol="range"), GONE],
    "gone: the consumer group was deleted": [
        STARTED, group("Stable", "m2", protocol="uniform"), ASSIGNED, *REMOVED,
        group("Dead", reason="empty"), GONE],
    "not converted: it has no assignor": [JOINING, SECOND, STARTED, NOT_CONVERTED],
    "not converted: it had no assignor since the host started": [
        JOINING, SECOND, STARTED, group("CompletingRebalance", "m1", protocol="range"),
        NOT_CONVERTED],
    "fenced: a coordinator has loaded the group without the member": [
        group("PreparingRebalance", "i-1", "i-2"),
        group("Stable", "i-1", protocol="range", node="broker-2", reason="loaded"), FENCED],
    "fenced: the same coordinator has loaded the group again without the member": [
        group("PreparingRebalance", "i-1", "i-2"),
        group("Stable", "i-1", protocol="range", reason="loaded"), FENCED],
    "fenced: a deposed coordinator has taken the member in after another one loaded the group": [
        group("Empty", protocol="range"),
        group("Stable", "i-1", protocol="range", node="broker-2", reason="loaded"),
        group("PreparingRebalance", "i-2"), FENCED],
    "fenced: another process joined after it was placed": [
        STARTED, joins(), placed("i-1"), joins(), told("i-1"), FENCED],
    "fenced: another process joined before it was placed": [STARTED, joins(), joins(), FENCED],
    "fenced: the old id of the member that it was is back": [
        STARTED, *FORMER, joins(), told("i-1"), back("i-0", "i-1"), FENCED],
    "fenced: an old id is back since it joined, and it was told none": [
        STARTED, *FORMER, joins(), back("i-0", "i-1"), FENCED],
    "loading: a coordinator that loads the group was asked for the assignment": [
        STARTED, SECOND, loads("SyncGroup"), LOADING],
    "no plan: a topic grew": [created(1), grown(1), owns("orders-1"), NO_PLAN],
    "no plan: a topic was created again with more partitions": [
        created(1), created(2, "other-id"), owns("orders-1"), NO_PLAN],
    "no plan: a topic was created again with fewer partitions": [
        created(2), owns("orders-1"), created(1, "other-id"), NO_PLAN],
    "not assigned: a coordinator was loaded since a topic grew": [
        GROUPS, created(1), reads("orders"), grown(1), takes_over(), NOT_CONVERTED],
    "not assigned: the topic is one that an expression matches": [
        GROUPS, created(1), reads("/ord.*/"), grown(1), takes_over(), NOT_CONVERTED],
    "not assigned: the group has had the topic": [
        GROUPS, created(1), owns("orders-0"), reads("payments"), grown(1), takes_over(),
        NOT_CONVERTED],
    "not assigned: the leader of the classic group knew the partition": [
        GROUPS, takes_over(), created(1), grown(1), group("CompletingRebalance", "m1"),
        owns("orders-1"), NOT_CONVERTED],
    "not assigned: a topic of the share group grew": [
        created(1), shares("orders-0"), grown(1), NOT_CONVERTED],
}  # fmt: skip
_BAD: dict[str, list[Row]] = {
    "gone: refused when it joined": [STARTED, SECOND, JOINING, GONE],
    "gone: it was a member before its host started again": [
        ASSIGNED, SECOND, STARTED, SECOND, JOINING, GONE],
    "gone: the group was a classic one before the host started": [
        to("classic"), SECOND, STARTED, SECOND, to("consumer"), ASSIGNED, GONE],
    "gone: the group is none of the classic protocol": [
        STARTED, ASSIGNED, SECOND, group("Stable", "m1", protocol="uniform"), GONE],
    "gone: another group is a classic one": [
        STARTED, SECOND, ASSIGNED, SECOND,
        ("broker-1", facts.GroupState("other", "PreparingRebalance", 1, ("m1",), "", "")), GONE],
    "gone: the group became a classic one later": [
        STARTED, SECOND, ASSIGNED, SECOND, GONE, to("classic")],
    "gone: nobody deleted the group": [STARTED, PLACED, ASSIGNED, *REMOVED, GONE],
    "gone: the creation of the group was taken back": [
        STARTED, PLACED, ASSIGNED, *REMOVED, group("Dead", reason="reverted"), GONE],
    "gone: a group of the other protocol has replaced it": [
        STARTED, PLACED, ASSIGNED, *REMOVED, group("Dead", reason="joined"), GONE],
    "gone: the group was deleted before its member joined": [
        STARTED, group("Empty"), DELETED, PLACED, ASSIGNED, GONE],
    "gone: the group was deleted, and its member joined again": [
        STARTED, PLACED, ASSIGNED, *REMOVED, DELETED, PLACED, GONE],
    "gone: the group was deleted later": [STARTED, PLACED, ASSIGNED, *REMOVED, GONE, DELETED],
    "gone: another group was deleted": [
        STARTED, PLACED, ASSIGNED, *REMOVED,
        ("broker-1", facts.GroupState("other", "Dead", 1, (), "", "expired")), GONE],
    "gone: the group was deleted, but the consumer was never told of its member": [
        STARTED, PLACED, *REMOVED, DELETED, GONE],
    "gone: it was told of its member before its host started": [
        PLACED, ASSIGNED, STARTED, *REMOVED, DELETED, GONE],
    "gone: another consumer's member was in the group": [
        STARTED, PLACED, ("consumer-2", facts.ConsumerAssigned("billing", "m2", 2, ())), *REMOVED,
        DELETED, GONE],
    "another error, though the group was deleted": [
        STARTED, PLACED, ASSIGNED, *REMOVED, DELETED, failed("ILLEGAL_GENERATION: group billing")],
    "fenced, though the group was deleted": [STARTED, PLACED, ASSIGNED, *REMOVED, DELETED, FENCED],
    "not converted: it has an assignor": [
        group("PreparingRebalance", "m1", protocol="range"), SECOND, STARTED, NOT_CONVERTED],
    "not converted: it had no assignor before the host started": [
        JOINING, SECOND, group("CompletingRebalance", "m1", protocol="range"), SECOND, STARTED,
        NOT_CONVERTED],
    "fenced: a coordinator has loaded the group with the member": [
        group("PreparingRebalance", "i-1"),
        group("Stable", "i-1", "i-2", protocol="range", node="broker-2", reason="loaded"), FENCED],
    "fenced: the last coordinator to load the group has taken the member in": [
        group("Stable", "i-1", protocol="range", reason="loaded"),
        group("PreparingRebalance", "i-1", "i-2"), FENCED],
    "fenced: the member has left another coordinator before the first one loads the group": [
        group("PreparingRebalance", "i-1", "i-2"),
        group("Stable", "i-1", "i-2", protocol="range", node="broker-2", reason="loaded"),
        ("broker-2", LEAVES[1]), group("Stable", "i-1", protocol="range", node="broker-2"),
        group("Stable", "i-1", protocol="range", reason="loaded"), FENCED],
    "fenced: the group lost the member without a load": [
        group("Stable", "i-1", "i-2", protocol="range"), LEAVES,
        group("Stable", "i-1", protocol="range"), FENCED],
    "fenced: nobody else joined": [STARTED, joins(), placed("i-1"), told("i-1"), FENCED],
    "fenced: nobody else joined, and it was not placed": [STARTED, joins(), FENCED],
    "fenced: it is the one that joined last": [
        STARTED, joins(), joins(), placed("i-2"), told("i-2"), FENCED],
    "fenced: it joined again under its own id": [
        STARTED, joins(), placed("i-1"), told("i-1"), joins("i-1"), FENCED],
    "fenced: another id has two processes": [
        STARTED, joins(), placed("i-1"), told("i-1"), joins("", "j"), joins("", "j"), FENCED],
    "fenced: another group has two processes": [
        STARTED, joins("", "i", "other"), joins("", "i", "other"), FENCED],
    "fenced: another process joined before its host started": [joins(), STARTED, joins(), FENCED],
    "fenced: another process joined later": [STARTED, joins(), FENCED, joins()],
    "fenced: it was told of its member before its host started": [
        joins(), placed("i-1"), told("i-1"), STARTED, joins(), FENCED],
    "fenced: the old id of another member is back": [
        STARTED, *FORMER, joins(), told("i-2"), back("i-0", "i-1"), FENCED],
    "fenced: an old id is back that was given up before the host started": [
        *FORMER, joins(), STARTED, back("i-0", "i-1"), FENCED],
    "fenced: an old id is back in another group": [
        STARTED, *FORMER, ("broker-1", facts.GroupState("other", "Stable", 1, ("i-0",), "", "")),
        joins("", "i", "other"), joins(), told("i-1"), back("i-0", "i-1", "other"), FENCED],
    "fenced: an old id is back later": [
        STARTED, *FORMER, joins(), told("i-1"), FENCED, back("i-0", "i-1")],
    "loading: it was asked for something else": [
        STARTED, SECOND, loads("JoinGroup"), LOADING],
    "loading: it was asked before the host started": [
        loads("SyncGroup"), SECOND, STARTED, SECOND, LOADING],
    "loading: it was asked later, and of another group": [
        STARTED, SECOND, loads("SyncGroup", "other"), LOADING, loads("SyncGroup")],
    "no plan: no topic has changed": [created(1), grown(0), owns("orders-0"), NO_PLAN],
    "no plan: a topic grew later": [created(1), owns("orders-1"), NO_PLAN, grown(1)],
    "no plan: nobody owns what a topic grew by": [
        created(1), grown(1), owns("orders-0"), NO_PLAN],
    "no plan: a member of another group owns it": [
        created(1), grown(1), owns("orders-0", host="consumer-1"), owns("orders-1", "other"),
        NO_PLAN],
    "no plan: another topic grew": [created(1), grown(1), owns("payments-1"), NO_PLAN],
    "another error, though a topic grew": [
        created(1), grown(1), owns("orders-1"), failed("", "KafkaError")],
    "not assigned: the same coordinator goes on": [
        GROUPS, created(1), takes_over(), reads("orders"), owns("orders-0"), grown(1),
        NOT_CONVERTED],
    "not assigned: a coordinator of other groups was loaded": [
        GROUPS, created(1), reads("orders"), grown(1), takes_over(7), NOT_CONVERTED],
    "not assigned: the coordinator was loaded later": [
        GROUPS, created(1), reads("orders"), grown(1), NOT_CONVERTED, takes_over()],
    "not assigned: the leader of the classic group gave nobody the partition": [
        GROUPS, takes_over(), created(1), grown(1), group("CompletingRebalance", "m1"),
        owns("orders-0"), NOT_CONVERTED],
    "not assigned: the group was a classic one before": [
        GROUPS, takes_over(), created(1), group("CompletingRebalance", "m1"), grown(1),
        owns("orders-1"), NOT_CONVERTED],
    "not assigned: a topic grew that the group does not read": [
        GROUPS, created(1), reads("payments"), reads("orders", "other"), grown(1), takes_over(),
        NOT_CONVERTED],
    "not assigned: a topic grew that an expression does not match": [
        GROUPS, created(1), reads("/orde/"), grown(1), takes_over(), NOT_CONVERTED],
    "not assigned: a topic grew that the share group does not read": [
        created(1), shares("payments-0"), shares("orders-0", "other"), grown(1), NOT_CONVERTED],
    "not assigned: a topic of the share group grew later": [
        created(1), shares("orders-0"), NOT_CONVERTED, grown(1)],
}  # fmt: skip

RETURNED: Row = ("consumer-1", facts.HostStopped("application-returned"))
_AT_ZERO: Row = ("consumer-1", positioned(0))
_LOG: list[Row] = [
    ("producer-1", acked(0, (100, 101))),
    ("broker-1", final([batch(0, [100], pid=7, seq=0), batch(1, [101], pid=7, seq=1)])),
]
_ENDS: list[Row] = [STARTED, PLACED, ASSIGNED, *REMOVED, DELETED, GONE]
_READS_ONE: list[Row] = [_AT_ZERO, ("consumer-1", polled((0,), (100,)))]
_ENDED: dict[str, tuple[list[Row], dict[str, int]]] = {
    "the only consumer had ended": ([*_READS_ONE, *_ENDS, *_LOG], {}),
    "the only consumer had ended before it got a record": ([_AT_ZERO, *_ENDS, *_LOG], {}),
    "the only consumer's application had returned": (
        [STARTED, ASSIGNED, *_READS_ONE, RETURNED, *_LOG], {}),
    "the only consumer's process had been killed": (
        [STARTED, ASSIGNED, *_READS_ONE, ("consumer-1", facts.HostStopped("crash")), *_LOG],
        {"unseen": 1}),
    "another consumer goes on": (
        [("consumer-2", facts.ConsumerAssigned("billing", "m3", 2, ())), *_READS_ONE, *_ENDS,
         *_LOG], {"unseen": 1}),
    "the host has started again": ([*_READS_ONE, *_ENDS, STARTED, *_LOG], {"unseen": 1}),
    "one of the application's tasks has ended": (
        [*_READS_ONE, *_ENDS[:-1], ("consumer-1", replace(GONE[1], ended=False)), *_LOG],
        {"unseen": 1}),
    "another group waits before the record": (
        [*_READS_ONE, *_ENDS, ("consumer-2", replace(positioned(0), group="audit")), *_LOG],
        {"unseen": 1}),
    "the consumer had read on behind the record": (
        [_AT_ZERO, ("consumer-1", positioned(1)), ("consumer-1", polled((1,), (101,))), *_ENDS,
         *_LOG], {"unseen": 1}),
}  # fmt: skip

FAILURES: dict[str, tuple[list[Row], dict[str, int]]] = {
    **{f"unseen, {name}": story for name, story in _ENDED.items()},
    **{f"failed, {name}": (rows, {}) for name, rows in _ALLOWED.items()},
    **{f"failed, {name}": (rows, {"application-failed": 1}) for name, rows in _BAD.items()},
}
"""What happened, in which a number in the place of a fact lets time pass, and what it shows."""
