"""Offsets without a record for a reader: markers, aborted records, and what only looks like them.

Both judges of delivery are held to these cases: the one in memory and the checks from the trace.
"""

from __future__ import annotations

from dataclasses import replace
from typing import Any

from kafkasim.model import facts
from tests.analysis.analysis_rows import (
    READ_COMMITTED,
    Case,
    T,
    acked,
    appended,
    committed,
    final,
    led,
    marker,
    polled,
    positioned,
    processed,
    topic,
)


def beside(row: tuple[str, Any]) -> tuple[str, Any]:
    """The row on the host of another member of the group, which reads uncommitted records."""
    return "consumer-2", row[1]


def of_broker(broker: int, *rows: tuple[str, Any]) -> list[tuple[str, Any]]:
    """The rows on the host of another leader."""
    return [(f"broker-{broker}", fact) for _, fact in rows]


TWO_LEADERS = [
    ("producer-1", facts.TransactionBegun("writer", 0, 7, 0)), READ_COMMITTED, positioned(0),
    appended(0, 2), led(2, 2, 1), *of_broker(2, appended(1, 2, producer=-1, epoch=2)),
    *marker(2, False),
]  # fmt: skip
"""The first leader writes the marker of its records when it does not know yet of the second one."""

OLD = ("consumer-1", facts.PartitionOwner("g", "m1", "orders", 0, "claimed", ""))
RESET = [
    positioned(0, "committed"), polled([0], [100]),
    ("broker-1", facts.LogStart(T, 0, 9, "delete-records", 9, 9)), positioned(9),
]  # fmt: skip
"""A member at offset 1 was sent on to offset 9, where the log begins now."""

FETCHED_BEFORE: dict[str, tuple[Case, dict[str, int]]] = {
    "after a reset: the last record of a chunk, a chunk behind it, and the new offset": (
        [OLD, *RESET, polled([4], [104]), polled([5], [105]), polled([9], [109])], {}),
    "after a reset: no record is left of a chunk": (
        [OLD, *RESET, polled([9], [109]), polled([10], [110])], {}),
    "after a reset: a record that is left, and no chunk behind it": (
        [OLD, *RESET, polled([1], [101]), polled([9], [109])], {}),
    "after a reset: another kind of consumer is given nothing of before": (
        [*RESET, polled([4], [104])], {"nonmonotonic-poll": 1}),
    "no reset: a position that was committed": (
        [OLD, *RESET[:2], positioned(9, "committed"), polled([4], [104])],
        {"nonmonotonic-poll": 1}),
    "a reset that is over: the partition is assigned again": (
        [OLD, *RESET, positioned(9, "committed"), polled([4], [104])], {"nonmonotonic-poll": 1}),
}  # fmt: skip
"""An old consumer is given what it had fetched before a reset, but for the rest of a chunk."""


def wrote(base: int, *ids: int, epoch: int = 1) -> tuple[str, Any]:
    """A leader appends one batch, which belongs to no transaction."""
    return "broker-1", facts.Appended(T, 0, epoch, base, base + len(ids), -1, -1, -1, ids)


READ = [positioned(0), wrote(0, 100), *marker(1, True), wrote(2, 102)]
LOST = [wrote(0, 200, epoch=2), wrote(1, 201, epoch=2)]
CAME_BACK = [
    ("producer-1", facts.TransactionBegun("writer", 0, 7, 0)), positioned(1), wrote(0, 100),
    wrote(1, 101), *of_broker(2, wrote(0, 150, epoch=2)), *marker(2, False),
]  # fmt: skip
"""Broker 2 leads, and broker 1, which does not know it yet, writes on behind its own records."""

CUT_OFF: dict[str, tuple[Case, dict[str, int]]] = {
    "not skipped: a marker that was passed before a record took its place": (
        [*READ, polled([0], [100], position=2), wrote(1, 201, epoch=2), wrote(2, 202, epoch=2),
         polled([2], [202])], {}),
    "skipped: a record at the end of a poll": (
        [positioned(0), wrote(0, 100, 101), *marker(2, True), polled([0], [100], position=3)],
        {"poll-skip": 1}),
    "skipped: a record by a poll that returns none": (
        [positioned(0), *marker(0, True), wrote(1, 101), polled([], [], position=2)],
        {"poll-skip": 1}),
    "not skipped: a marker by a poll that returns none": (
        [positioned(0), *marker(0, True), wrote(1, 101), polled([], [], position=1),
         polled([1], [101])], {}),
    "not skipped: fetched before another leader replaced the marker": (
        [*READ, *LOST, wrote(2, 202, epoch=2), polled([0, 2], [100, 102])], {}),
    "not skipped: fetched before, and its record is not replaced yet": (
        [*READ, *LOST, polled([0, 2], [100, 102])], {}),
    "not skipped: fetched before, behind the last record": (
        [*READ[:-1], *LOST, polled([0], [100], position=2)], {}),
    "not skipped: fetched before, in a poll without a record behind the last one": (
        [*READ[:-1], polled([0], [100]), *LOST, polled([], [], position=2)], {}),
    "not skipped: aborted when it was fetched": (
        [READ_COMMITTED, positioned(0), appended(0, 1), *marker(1, False), wrote(2, 102), *LOST,
         wrote(2, 202, epoch=2), polled([2], [102])], {}),
    "not skipped: fetched since, by a poll without a record, where a record was": (
        [positioned(0), wrote(0, 100, 101), polled([0], [100]), wrote(0, 200, epoch=2),
         *marker(1, True, epoch=2), polled([], [], position=2)], {}),
    "not skipped: a deposed leader writes below what was read": (
        [positioned(1), wrote(0, 100), wrote(1, 101, epoch=2), wrote(0, 150),
         *marker(2, True, epoch=2), polled([1], [101], position=3)], {}),
    "not skipped: behind what a leader that comes back has kept": (
        [*CAME_BACK, led(1, 3, 3), polled([1], [101], position=3)], {}),
    "not skipped by commit: a marker that was passed before a record took its place": (
        [topic(), *READ[:-1], polled([0], [100], position=2), processed(0, 1), committed(2),
         wrote(1, 201, epoch=2), committed(2), final(1, 100, 201, leading=True)], {}),
}  # fmt: skip
"""A leader has cut off what a member has read, and appends something else."""

NEXT = "topic-again"


def of_next(*rows: tuple[str, Any]) -> list[tuple[str, Any]]:
    """The rows of the topic that has the name now."""
    return [(node, replace(fact, topic_id=NEXT)) for node, fact in rows]


BOTH = [
    topic(), *of_next(topic()), positioned(0), polled([0, 1], [100, 101]),
    *of_next(positioned(0), polled([0, 1, 2, 3], [200, 201, 202, 203])),
]  # fmt: skip
"""A member read the old topic up to offset 2, and the new one up to 4."""
BACK = polled([4], [104])

CREATED_AGAIN: dict[str, tuple[Case, dict[str, int]]] = {
    "created again: stale metadata leads back to the old topic": ([*BOTH, BACK], {}),
    "created again: and forward, where the old topic was left": (
        [*BOTH, BACK, *of_next(polled([5], [205]))], {}),
    "created again: no position was set in the new topic": (
        [topic(), *of_next(topic()), positioned(0), polled([0], [100]),
         *of_next(polled([1], [201]))], {}),
    "created again: a record of the old topic is skipped": (
        [*BOTH, BACK, polled([6], [106])], {"poll-skip": 1}),
    "created again: a record of the new topic is skipped": (
        [*BOTH, *of_next(polled([5], [205]))], {"poll-skip": 1}),
    "created again: the new topic goes on elsewhere than the old one": (
        [*BOTH, BACK, *of_next(polled([6], [206]))], {"poll-skip": 1}),
    "created again: the new topic goes on where it was left itself": (
        [*BOTH, polled([4, 5], [104, 105]), *of_next(polled([4], [204]))],
        {"nonmonotonic-poll": 1}),
    "created again: a marker of the new topic": (
        [*BOTH[:4], *of_next(*marker(2, True), polled([3], [203]))], {}),
    "created again: a marker of the old topic, where the new one has a record": (
        [*BOTH[:4], *marker(2, True), *of_next(polled([3], [203]))], {"poll-skip": 1}),
    "created again: another name is another position": (
        [topic(), ("controller-1", facts.TopicCreated(2, NEXT, "invoices", 1, 3, 2)),
         *BOTH[2:], BACK], {"poll-skip": 1}),
}  # fmt: skip
"""A consumer keeps its position by the topic's name."""

CUT_OFF |= {
    "created again: a marker of the new topic at the end of a poll": (
        [*BOTH[:4], *of_next(*marker(2, True), polled([], [], position=3))], {}),
    "created again: a record of the new topic at the end of a poll": (
        [*BOTH[:4], *of_next(wrote(2, 202), *marker(3, True), polled([], [], position=3))],
        {"poll-skip": 1}),
}  # fmt: skip

OLD_TOPIC = [topic(), positioned(0), polled([0, 1, 2], [100, 101, 102]), processed(0, 3)]
NEW_TOPIC = of_next(topic(), positioned(0), acked(0, 200, 201, 202, 203))
NEW_LOG = of_next(final(1, 200, 201, 202, 203, leading=True))
REST = of_next(polled([3], [203]), processed(3, 4))

CARRIED_OVER: dict[str, tuple[Case, dict[str, int]]] = {
    "carried over: less is committed in the new topic than in the old one": (
        [*OLD_TOPIC, committed(3), *NEW_TOPIC[:2], *of_next(polled([0], [200])), committed(1)], {}),
    "carried over: a commit of the old topic is stored late": (
        [*OLD_TOPIC, *NEW_TOPIC[:2], *of_next(polled([0], [200])), committed(3), committed(1)], {}),
    "carried over: the position of the old topic": (
        [*OLD_TOPIC[:1], *NEW_TOPIC, *OLD_TOPIC[2:], *REST, committed(4), *NEW_LOG], {}),
    "carried over: a commit of the old topic": (
        [*OLD_TOPIC[:1], *NEW_TOPIC, *of_next(polled([0], [200]), processed(0, 1)),
         polled([1, 2], [101, 102]), committed(3), *of_next(positioned(3, "committed")),
         *REST, committed(4), *NEW_LOG], {}),
}  # fmt: skip
"""What a group has of another topic of the name: its position, and what it has committed."""

GAP_CASES: dict[str, tuple[Case, dict[str, int]]] = {
    **CARRIED_OVER,
    **FETCHED_BEFORE,
    **CUT_OFF,
    **CREATED_AGAIN,
    "not skipped: a marker": (
        [positioned(0), appended(0, 1), *marker(1, True), appended(2, 3, producer=-1),
         polled([0, 2], [100, 102])], {}),
    "skipped behind a marker": (
        [positioned(0), appended(0, 1), *marker(1, True), appended(2, 4, producer=-1),
         polled([0, 3], [100, 103])], {"poll-skip": 1}),
    "not skipped: aborted": (
        [READ_COMMITTED, positioned(0), appended(0, 2), *marker(2, False),
         appended(3, 4, producer=-1), polled([3], [103])], {}),
    "skipped: committed": (
        [READ_COMMITTED, positioned(0), appended(0, 2), *marker(2, True),
         appended(3, 4, producer=-1), polled([3], [103])], {"poll-skip": 1}),
    "skipped: aborted, but of a reader of all records": (
        [positioned(0), appended(0, 2), *marker(2, False), appended(3, 4, producer=-1),
         polled([3], [103])], {"poll-skip": 1}),
    "skipped: aborted, but of a member beside one that reads committed records": (
        [READ_COMMITTED, beside(positioned(0, member="m2")), appended(0, 2), *marker(2, False),
         appended(3, 4, producer=-1), beside(polled([3], [103], member="m2"))], {"poll-skip": 1}),
    "unseen, skipped by commit: aborted, where no member that had it reads committed records": (
        [topic(), READ_COMMITTED, beside(positioned(0, member="m2")), appended(0, 1),
         acked(0, 100), *marker(1, False), committed(2), final(1, 100, leading=True)],
        {"unseen": 1, "skipped-by-commit": 1}),
    "not unseen, not skipped by commit: aborted": (
        [topic(), READ_COMMITTED, positioned(0), appended(0, 1), acked(0, 100),
         *marker(1, False), committed(2), final(1, 100, leading=True)], {}),
    "unseen, skipped by commit: aborted, but of a reader of all records": (
        [topic(), positioned(0), appended(0, 1), acked(0, 100), *marker(1, False), committed(2),
         final(1, 100, leading=True)], {"unseen": 1, "skipped-by-commit": 1}),
    "not skipped by commit: aborted, and truncated later": (
        [topic(), READ_COMMITTED, positioned(0), appended(0, 2), *marker(2, False), committed(3),
         *marker(0, True, epoch=2), final(1, -1, leading=True)], {}),
    "not skipped by commit: a marker, truncated later, and then a record": (
        [topic(), READ_COMMITTED, positioned(0), *marker(0, True), committed(1),
         appended(0, 1, producer=-1, epoch=2), *marker(1, True, epoch=2),
         final(1, 100, -1, leading=True)], {}),
    "not skipped: aborted in the log of a leader that led again": (
        [*TWO_LEADERS, led(1, 3, 3), appended(3, 4, producer=-1, epoch=3), polled([3], [103])],
        {}),
    "not unseen: above the last stable offset": (
        [READ_COMMITTED, positioned(0), acked(0, 100), final(1, 100, leading=True, stable=0)], {}),
    "not a duplicate: sent again after an abort": (
        [appended(0, 1), *marker(1, False), appended(2, 3), *marker(3, True),
         final(1, 100, -1, 100, leading=True)], {}),
    "a duplicate: sent again after a commit": (
        [appended(0, 1), *marker(1, True), appended(2, 3), *marker(3, True),
         final(1, 100, -1, 100, leading=True)], {"duplicate": 1, "idempotent-duplicate": 1}),
}  # fmt: skip
