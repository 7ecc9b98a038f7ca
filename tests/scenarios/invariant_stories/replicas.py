"""What a replica has: its log, what is exposed of it, and its caches."""

from __future__ import annotations

from dataclasses import replace

from kafkasim.model import facts
from tests.scenarios.fact_makers import (
    P,
    Row,
    T,
    appended,
    batch,
    changed,
    created,
    final,
    high_watermark,
    led,
    registration,
)
from tests.scenarios.invariant_stories.common import (
    ALIVE,
    EXPOSED,
    REPLICATED,
    SEQUENCED,
    START,
    Stories,
    later,
)

DELETED: list[Row] = [  # broker-2 was down, and continues at the leader's log start
    *START, ("controller-1", changed(3, (1,))), *EXPOSED[2:],
    ("broker-1", appended(1, (11,))), ("broker-1", high_watermark(2)),
    ("broker-1", facts.LogStart(T, P, 2, "delete-records", 2, 2)),
    ("broker-1", appended(2, (12,))),
    ("broker-2", facts.LogStart(T, P, 2, "reset", 2, 2)),
    ("broker-2", facts.Truncated(T, P, 0, 1, 2)),
]  # fmt: skip
LOST = [row for row in DELETED if getattr(row[1], "reason", "") != "delete-records"]
"""The same, though nobody has deleted the records that broker-2 skips."""
DIVERGED: list[Row] = [  # broker-2 has other records than the next leader had and deleted
    *START, ("broker-2", appended(0, (90,))), ("broker-1", led(1)),
    ("broker-1", appended(0, (10,), 1)), ("broker-1", appended(1, (11,), 1)),
    ("broker-1", high_watermark(2, epoch=1)),
    ("broker-1", facts.LogStart(T, P, 2, "delete-records", 2, 2)),
    ("broker-1", appended(2, (12,), 1)),
]  # fmt: skip


def reassigned(
    offset: int, partition_epoch: int, isr: tuple[int, ...], replicas: tuple[int, ...],
    reason: str = "reassignment",
) -> facts.PartitionChanged:  # fmt: skip
    return facts.PartitionChanged(offset, T, P, 1, 0, partition_epoch, isr, replicas, reason, False)


STRANGER: list[Row] = [  # broker-4 is in the ISR, and the replicas are 1, 2 and 3
    ("broker-3", facts.ZkControllerWrite(2, 1, "/controller_epoch", 1)),
    ("controller-1", created(min_isr=2)), ("broker-3", changed(4, (1, 4))),
    ("broker-1", facts.BecameLeader(T, P, 0, 4, 0, 0, (1, 4))), ("broker-1", appended(0, (10,))),
]  # fmt: skip
KEYS: Row = ("broker-1", facts.KeysAppended(T, P, 0, 0, ("a", "a"), ()))


def removed(offset: int) -> facts.Cleaned:
    """A cleaner removes a record of two."""
    return facts.Cleaned(T, P, 0, 2, 0, 2, 0, 1000, (offset, offset + 1))


TOMBSTONE: Row = ("broker-1", facts.KeysAppended(T, P, 0, 0, ("a",), (0,)))


def kept(began_ms: int) -> Row:
    """A cleaner keeps a record; delete.retention.ms is 1000."""
    return "broker-1", facts.Cleaned(T, P, 0, 1, 0, 1, began_ms, 1000, ())


STORIES: Stories = {  # name: what happened before, how it goes on well, and badly
    "ACKED a leader without what was exposed": (
        EXPOSED,
        [("broker-2", REPLICATED), ("broker-2", led(1, 1))],
        [("broker-2", led(1))],
    ),
    "ACKED a leader with another prefix": (
        EXPOSED,
        [("broker-2", appended(0, (10,))), ("broker-2", led(1, 1))],
        [("broker-2", appended(0, (99,), epoch=1)), ("broker-2", led(1, 1))],
    ),
    "MATCH one offset and epoch, two batches": (
        [*START, ("broker-1", appended(0, (10,)))],
        [("broker-2", REPLICATED)],
        [("broker-2", appended(0, (99,)))],
    ),
    "LATEST the last value of a key": (
        [*START, KEYS, ("broker-1", appended(0, (10, 11))), ("broker-1", high_watermark(2))],
        [("broker-1", removed(0))],
        [("broker-1", removed(1))],
    ),
    "HORIZON a deletion behind its delete horizon": (
        [*START, TOMBSTONE, ("broker-1", appended(0, (10,))), ("broker-1", high_watermark(1)),
         kept(0)],
        [kept(999)],
        [kept(1000)],
    ),
    "ISRDATA a member without what is exposed": (
        [*ALIVE, *START, ("controller-1", changed(3, (1, 2))), ("broker-1", appended(0, (10,)))],
        [("broker-2", REPLICATED), ("broker-1", high_watermark(1))],
        [("broker-1", high_watermark(1))],
    ),
    "ISRDATA a joiner that lags": (
        [*ALIVE, *START, ("controller-1", changed(3, (1,))), *EXPOSED[2:]],
        [("broker-2", REPLICATED), ("controller-1", changed(4, (1, 2)))],
        [("controller-1", changed(4, (1, 2)))],
    ),
    "ISRDATA a joiner whose disk is replaced on the way": (
        [*ALIVE, *START, ("controller-1", changed(3, (1,))), *EXPOSED[2:],
         ("broker-2", REPLICATED), ("broker-2", facts.DiskReplaced())],
        [("controller-1", changed(4, (1, 2)))],
        [("controller-1", registration(4, 2, "registered", True)),
         ("controller-1", registration(5, 2)),
         ("controller-1", changed(6, (1, 2)))],
    ),
    "ISRDATA a joiner whose disk was replaced before the last change": (
        [*ALIVE, *START, ("controller-1", changed(3, (1,))), *EXPOSED[2:],
         ("broker-2", REPLICATED), ("broker-2", facts.DiskReplaced()),
         ("controller-1", changed(4, (1,)))],
        [("broker-2", REPLICATED), ("controller-1", changed(5, (1, 2)))],
        [("controller-1", changed(5, (1, 2)))],
    ),
    "ISRDATA a member whose disk is replaced is elected out of the ELR": (
        [*ALIVE, *START, ("controller-1", changed(3, (1, 2))), *EXPOSED[2:3],
         ("broker-2", REPLICATED), ("broker-1", high_watermark(1)),
         ("broker-2", facts.DiskReplaced())],
        [("controller-1", replace(changed(4, (1,)), elr=(2,))),
         ("controller-1", changed(5, (2,), leader=2, epoch=1))],
        [("controller-1", changed(4, (1,))),
         ("controller-1", changed(5, (2,), leader=2, epoch=1))],
    ),
    "ISRDATA a member whose disk is replaced is elected out of the ELR after it has registered": (
        [*ALIVE, *START, ("controller-1", changed(3, (1, 2))), *EXPOSED[2:3],
         ("broker-2", REPLICATED), ("broker-1", high_watermark(1)),
         ("broker-2", facts.DiskReplaced()),
         ("controller-1", replace(changed(4, (1,)), elr=(2,)))],
        [("controller-1", changed(5, (2,), leader=2, epoch=1))],
        [("controller-1", registration(5, 2, "registered", True)),
         ("controller-1", registration(6, 2)),
         ("controller-1", changed(7, (2,), leader=2, epoch=1))],
    ),
    "ISRDATA a member whose log is deleted": (
        [*ALIVE, *START, ("controller-1", changed(3, (1, 2))), ("broker-1", appended(0, (10,))),
         ("broker-2", REPLICATED), ("broker-1", high_watermark(1))],
        [("controller-1", changed(4, (1,))), ("broker-2", facts.LogDeleted(T, P, 1))],
        [("broker-2", facts.LogDeleted(T, P, 1))],
    ),
    "ISRDATA a member of a topic that is deleted": (
        [*ALIVE, *START, ("controller-1", changed(3, (1, 2))), ("broker-1", appended(0, (10,))),
         ("broker-2", REPLICATED), ("broker-1", high_watermark(1))],
        [("controller-1", facts.TopicDeleted(4, T, "orders")),
         ("broker-2", facts.LogDeleted(T, P, 1))],
        [("broker-2", facts.LogDeleted(T, P, 1)),
         ("controller-1", facts.TopicDeleted(4, T, "orders"))],
    ),
    "ISRDATA a high watermark that a leader advances while its topic is deleted": (
        [*ALIVE, *START, ("controller-1", changed(3, (1, 2))), ("broker-1", appended(0, (10,)))],
        [("controller-1", facts.TopicDeleted(4, T, "orders")), ("broker-1", high_watermark(1))],
        [("controller-1", facts.TopicDeleted(4, "another-id", "orders")),
         ("broker-1", high_watermark(1))],
    ),
    "ISRDATA a high watermark of a leader that ZooKeeper's controller has removed with the topic": (
        [*ALIVE, *START, ("broker-3", facts.ZkControllerWrite(2, 1, "/controller_epoch", 1)),
         ("broker-3", changed(3, (1, 2))), ("broker-1", appended(0, (10,))),
         ("broker-2", REPLICATED)],
        [("broker-3", changed(4, (1, 2), leader=-1, epoch=1)),
         ("broker-2", facts.LogDeleted(T, P, 1)), ("broker-1", high_watermark(1))],
        [("broker-3", changed(4, (1, 2), leader=-1, epoch=1)), ("broker-1", high_watermark(1)),
         ("broker-3", changed(5, (1, 2), epoch=2)), ("broker-2", facts.LogDeleted(T, P, 1))],
    ),
    "ISRDATA a replica that a ZooKeeper controller removes while its leader adds it": (
        [*ALIVE, *START, ("broker-3", facts.ZkControllerWrite(2, 1, "/controller_epoch", 1)),
         ("broker-3", changed(3, (1, 2))), ("broker-1", appended(0, (10,))),
         ("broker-2", REPLICATED), ("broker-1", high_watermark(1)),
         ("broker-1", reassigned(5, 5, (1, 2), (1, 2, 3), "caught-up"))],
        [("broker-3", reassigned(4, 3, (1, 2), (1, 3))),
         ("broker-2", facts.LogDeleted(T, P, 1))],
        [("broker-3", reassigned(4, 3, (1, 2), (1, 2))),
         ("broker-2", facts.LogDeleted(T, P, 1))],
    ),
    "ISRDATA a KRaft controller tells of an earlier assignment": (
        [*ALIVE, *START, ("controller-1", changed(3, (1, 2))), ("broker-1", appended(0, (10,))),
         ("broker-2", REPLICATED), ("broker-1", high_watermark(1))],
        [],
        [("controller-1", reassigned(2, 2, (1,), (1, 3))),
         ("broker-2", facts.LogDeleted(T, P, 1))],
    ),
    "MATCH a replica that was reset to the leader's log start": (
        [*ALIVE, *DELETED],
        [("broker-2", appended(2, (12,)))],
        [("broker-2", appended(2, (99,)))],
    ),
    "MATCH a replica that was truncated within a batch below the leader's log start": (
        [*DIVERGED, ("broker-2", appended(1, (91, 92))),
         ("broker-2", facts.Truncated(T, P, 1, 3, 2))],
        [("broker-2", appended(2, (12,), 1))],
        [("broker-2", appended(2, (99,), 1))],
    ),
    "MATCH a replica whose log ended at the leader's log start": (
        [*DIVERGED, ("broker-2", appended(1, (91,)))],
        [("broker-2", appended(2, (12,), 1))],
        [("broker-2", appended(2, (99,), 1))],
    ),
    "MATCH a leader that came back with the records it had deleted": (
        [*START, ("broker-1", appended(0, (10,))), ("broker-2", appended(0, (10,))),
         ("broker-1", appended(1, (11,))), ("broker-1", high_watermark(2)),
         ("broker-1", facts.LogStart(T, P, 2, "delete-records", 2, 2)),
         ("broker-1", facts.LogLoaded(T, P, 0, 2, 0, False)), ("broker-1", led(1, 2)),
         ("broker-2", appended(1, (11,))), ("broker-1", appended(2, (12,), 1))],
        [("broker-2", appended(2, (12,), 1))],
        [("broker-2", appended(2, (99,), 1))],
    ),
    "ISRDATA a joiner whose log ends where the leader's starts": (
        [*ALIVE, ("controller-1", changed(3, (1,))), *DIVERGED[:-1]],
        [("broker-2", appended(1, (91,))), ("controller-1", changed(4, (1, 2), epoch=1))],
        [("controller-1", changed(4, (1, 2), epoch=1))],
    ),
    "ISRDATA a joiner that was reset to the leader's log start": (
        [*ALIVE, *DELETED, ("broker-1", high_watermark(3))],
        [("broker-2", appended(2, (12,))), ("controller-1", changed(4, (1, 2)))],
        [("controller-1", changed(4, (1, 2)))],
    ),
    "ISRDATA a joiner that was reset above the leader's log start": (
        ALIVE,
        [*DELETED, ("controller-1", changed(4, (1, 2)))],
        [*LOST, ("controller-1", changed(4, (1, 2)))],
    ),
    "ISRDATA a member that had deleted what it is truncated below": (
        [*ALIVE, *START, ("controller-1", changed(3, (1, 2))), ("broker-1", appended(0, (10,))),
         ("broker-2", REPLICATED), ("broker-1", high_watermark(1))],
        [("broker-2", facts.LogStart(T, P, 1, "leader", 1, 1)),
         ("broker-2", facts.LogLoaded(T, P, 0, 1, 0, False)),
         ("broker-2", facts.Truncated(T, P, 1, 1, 0))],
        [("broker-2", facts.LogLoaded(T, P, 0, 1, 0, False)),
         ("broker-2", facts.Truncated(T, P, 1, 1, 0))],
    ),
    "ACKED a leader that was reset to the log start": (
        [*ALIVE, *DELETED, ("broker-1", high_watermark(3))],
        [("broker-2", appended(2, (12,))), ("broker-2", led(3, 1))],
        [("broker-2", led(2, 1))],
    ),
    "HWMONO backwards within an epoch": (
        [*EXPOSED, ("broker-1", appended(1, (11,))), ("broker-1", high_watermark(2))],
        [("broker-1", high_watermark(2))],
        [("broker-1", high_watermark(1))],
    ),
    "MINISR exposed by too few": (
        [("controller-1", created(min_isr=2)), ("broker-1", appended(0, (10,)))],
        [("broker-1", high_watermark(1, (1, 3), min_isr=2))],
        [("broker-1", high_watermark(1, (1,), min_isr=2))],
    ),
    "MINISR a member of a ZooKeeper leader's ISR is no replica": (
        STRANGER,
        [("broker-1", high_watermark(1, (1,), min_isr=2))],
        [("broker-1", high_watermark(1, (), min_isr=2))],
    ),
    "MINISR the leader has removed it": (
        STRANGER,
        [("broker-1", facts.IsrChanged(T, P, 0, 5, "expand", (2,), (1, 4, 2))),
         ("broker-1", high_watermark(1, (1,), min_isr=2))],
        [("broker-1", facts.IsrChanged(T, P, 0, 5, "shrink", (4,), (1,))),
         ("broker-1", high_watermark(1, (1,), min_isr=2))],
    ),
    "NODUP one sequence at two offsets": (
        [*START, ("broker-3", appended(0, (10,), pid=5, seq=0))],
        [("broker-3", appended(1, (11,), pid=5, seq=1))],
        [("broker-3", appended(1, (10,), pid=5, seq=0))],
    ),
    "NODUP a leader that has forgotten the producer": (
        [*START, ("broker-3", appended(0, (10,), pid=5, seq=0))],
        [later(86_400), ("broker-3", appended(1, (10,), pid=5, seq=0))],
        [later(86_399), ("broker-3", appended(1, (10,), pid=5, seq=0))],
    ),
    "ORDER a gap in the sequence": (
        [],
        [("broker-9", final(SEQUENCED))],
        [("broker-9", final([SEQUENCED[0], batch(1, [12], pid=5, seq=2)]))],
    ),
    "ORDER a leader that has forgotten the producer": (
        [("broker-9", appended(0, (10,), pid=5, seq=0))],
        [later(86_400), ("broker-9", appended(1, (12,), pid=5, seq=2)),
         ("broker-9", final([SEQUENCED[0], batch(1, [12], pid=5, seq=2)]))],
        [later(86_399), ("broker-9", appended(1, (12,), pid=5, seq=2)),
         ("broker-9", final([SEQUENCED[0], batch(1, [12], pid=5, seq=2)]))],
    ),
    "LOGORDER high watermark above the end": (
        [],
        [("broker-9", final([batch(0, [10])]))],
        [("broker-9", final([batch(0, [10])], hw=2))],
    ),
    "EPOCHCACHE a batch of another epoch": (
        [],
        [("broker-9", final([batch(0, [10]), batch(1, [11], 2)], epochs=(0, 0, 2, 1)))],
        [("broker-9", final([batch(0, [10]), batch(1, [11], 2)]))],
    ),
    "EPOCHCACHE nothing is asked of batches that wait below the log start to be deleted": (
        [],
        [("broker-9", final([batch(0, [10]), batch(1, [11])], log_start=1, epochs=(0, 1)))],
        [("broker-9", final([batch(0, [10]), batch(1, [11])], log_start=1, epochs=(0, 2)))],
    ),
    "EPOCHCACHE a crash lowers the log start again, and the cache stays as short as it was": (
        [],
        [("broker-9", facts.LogStart(T, P, 1, "leader", 2, 2)),
         ("broker-9", final([batch(0, [10]), batch(1, [11])], epochs=(0, 1)))],
        [("broker-9", final([batch(0, [10]), batch(1, [11])], epochs=(0, 1)))],
    ),
    "EPOCHCACHE a shorter cache gives no other epoch": (
        [],
        [("broker-9", facts.LogStart(T, P, 1, "leader", 2, 2)),
         ("broker-9", final([batch(0, [10]), batch(1, [11])], epochs=(0, 1)))],
        [("broker-9", facts.LogStart(T, P, 1, "leader", 2, 2)),
         ("broker-9", final([batch(0, [10]), batch(1, [11], 1)], epochs=(1, 0)))],
    ),
    "EPOCHCACHE an answer to a fetch of an older epoch cut the batch's epoch off": (
        [("broker-9", facts.StaleReplyUsed(T, P, 4, 1, 0))],
        [("broker-9", final([batch(0, [10]), batch(1, [11])], epochs=(0, 1)))],
        [("broker-9", final([batch(0, [10], 1), batch(1, [11], 1)], epochs=(1, 1)))],
    ),
    "EPOCHCACHE an answer to a fetch of an older epoch cuts off what is below it": (
        [("broker-9", facts.StaleReplyUsed(T, P, 4, 1, 0))],
        [("broker-9", final([batch(0, [10]), batch(1, [11])], epochs=(0, 1)))],
        [("broker-9", final([batch(0, [10]), batch(1, [11])], epochs=(0, 2)))],
    ),
}  # fmt: skip
