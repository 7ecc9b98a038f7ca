"""What a cleaner may remove, and what readers and replicas may lack because of it.

Both judges are held to these cases: the one in memory and the checks from the trace.
"""

from __future__ import annotations

from typing import Any

from kafkasim.model import facts
from tests.analysis.analysis_rows import (
    Case,
    T,
    acked,
    committed,
    led,
    mark,
    marker,
    polled,
    positioned,
    processed,
    topic,
)

Row = tuple[str, Any]


def keyed(
    base: int, *keys: str, gone: tuple[int, ...] = (), epoch: int = 1, producer: int = 7
) -> list[Row]:
    """A leader appends one batch; the id of a record is its offset and 100."""
    end = base + len(keys)
    ids = tuple(range(100 + base, 100 + end))
    told = facts.KeysAppended(T, 0, epoch, base, keys, gone)
    batch = facts.Appended(T, 0, epoch, base, end, producer, 0, base, ids)
    return [("broker-1", told), ("broker-1", batch)]


def cleaned(
    *removed: int,
    end: int,
    mapped: int = -1,
    began: int = 0,
    broker: int = 1,
    retention: int = 1000,
) -> tuple[str, facts.Cleaned]:
    """A cleaner replaces all below ``end``; ``retention`` is delete.retention.ms."""
    return f"broker-{broker}", facts.Cleaned(
        T, 0, 0, end, 0, end if mapped < 0 else mapped, began, retention, removed
    )


def deleted_to(offset: int) -> tuple[str, facts.LogStart]:
    """The leader of three records, all of them committed, deletes those below an offset."""
    return "broker-1", facts.LogStart(T, 0, offset, "delete-records", 3, 3)


def where(*offsets: int) -> tuple[str, facts.FinalCleaned]:
    """Where the records of the leader's final log stand."""
    return "broker-1", facts.FinalCleaned(T, 0, True, 1, offsets)


def left(*offsets: int, end: int) -> list[Row]:
    """The final log of a leader: one batch of the records that are left."""
    ids = tuple(100 + offset for offset in offsets)
    fact = facts.FinalReplica(
        T, 0, True, 1, 0, end, end, end, (1, 0), (0,), (end,), (1,), (7,), (0,), (len(ids),), ids
    )
    return [where(*offsets), ("broker-1", fact)]


A_B_A = [topic(), *keyed(0, "a", "b", "a"), mark(3)]
DELETED = [topic(), *keyed(0, "a", "b", gone=(0,)), mark(2)]

TWO_LEADERS = [
    topic(), *keyed(0, "a"), led(2, 2, 1),
    *[("broker-2", fact) for _, fact in keyed(1, "b", epoch=2)], *keyed(1, "a"),
]  # fmt: skip
"""The first leader appends a later value when it does not know yet of the second one."""


def copied(base: int, end: int) -> Row:
    """Broker-2 appends what it has fetched."""
    return "broker-2", facts.Replicated(T, 0, 1, 1, base, end)


def behind(*first: Row, commits: bool = True, cleaner: int = 2) -> list[Row]:
    """A cleaner has an aborted value for a later one; ``first`` is what broker-2 copies first.

    Then broker-1 removes the aborted value and its marker, and broker-2 copies the rest.
    """
    return [
        topic(), *keyed(0, "a"), *keyed(1, "a", producer=8), *marker(2, False, producer=8),
        *keyed(3, "b", producer=8), *marker(4, commits, producer=8), mark(5), *first,
        cleaned(1, 2, end=5, began=5), cleaned(2, 3, end=5, began=1005), copied(3, 5),
        cleaned(0, 1, end=5, began=1006, broker=cleaner),
    ]  # fmt: skip


def hidden(*first: Row, commits: bool = False, cleaner: int = 2, at: int = 0) -> list[Row]:
    """A cleaner has a committed value as aborted; ``first`` is what broker-2 copies first.

    Broker-1 removes the committed value for a later one, and its marker, and broker-2 copies the
    rest. The cleaner removes what it has ``at`` an offset, and has seen no later key.
    """
    return [
        topic(), *keyed(0, "a", producer=8), *marker(1, True, producer=8), *keyed(2, "a"),
        *keyed(3, "b", producer=8), *marker(4, commits, producer=8), mark(5), *first,
        cleaned(0, 1, end=5, began=5), cleaned(1, 2, end=5, began=1005), copied(2, 5),
        cleaned(at, at + 1, end=5, mapped=2, began=1006, broker=cleaner),
    ]  # fmt: skip


MISSED_MARKERS: dict[str, tuple[Case, dict[str, int]]] = {
    "cleaned: for an aborted value whose marker the replica has missed": (
        behind(copied(0, 2)), {}),
    "cleaned: for an aborted value whose marker the replica has copied": (
        behind(copied(0, 3)), {"LATEST": 1}),
    "cleaned: for an aborted value that the replica has missed, too": (
        behind(copied(0, 1)), {"LATEST": 1}),
    "cleaned: for an aborted value, and the marker that the replica has ends a later abort": (
        behind(copied(0, 2), commits=False), {"LATEST": 1}),
    "cleaned: for an aborted value whose marker another replica has missed": (
        behind(copied(0, 2), cleaner=1), {"LATEST": 1}),
    "cleaned: a committed value whose marker the replica has missed": (
        hidden(copied(0, 1)), {}),
    "cleaned: a committed value whose marker the replica has copied": (
        hidden(copied(0, 2)), {"LATEST": 1}),
    "cleaned: a committed value, and the marker that the replica has ends a later commit": (
        hidden(copied(0, 1), commits=True), {"LATEST": 1}),
    "cleaned: a committed value whose marker another replica has missed": (
        hidden(copied(0, 1), cleaner=1), {"LATEST": 1}),
    "cleaned: a value of no transaction where the marker of another one was missed": (
        hidden(copied(0, 1), at=2), {"LATEST": 1}),
}  # fmt: skip
"""The marker of a value was removed before a replica copied it."""

LATEST_CASES: dict[str, tuple[Case, dict[str, int]]] = {
    **MISSED_MARKERS,
    "cleaned: an older value": ([*A_B_A, cleaned(0, 1, end=3)], {}),
    "cleaned: the last value": ([*A_B_A, cleaned(2, 3, end=3)], {"LATEST": 1}),
    "cleaned: the last value, which was deleted": (
        [*A_B_A, deleted_to(3), cleaned(2, 3, end=3)], {}),
    "cleaned: the last value, and the one before it was deleted": (
        [*A_B_A, deleted_to(2), cleaned(2, 3, end=3)], {"LATEST": 1}),
    "cleaned: two last values": ([*A_B_A, cleaned(1, 3, end=3)], {"LATEST": 1}),
    "cleaned: for a value above the high watermark": (
        [topic(), *keyed(0, "a", "b", "a"), mark(2), cleaned(0, 1, end=3)], {"LATEST": 1}),
    "cleaned: for a value beyond the map of keys": (
        [*A_B_A, cleaned(0, 1, end=3, mapped=2)], {"LATEST": 1}),
    "cleaned: for an aborted value": (
        [topic(), *keyed(0, "a"), *keyed(1, "a", producer=8), *marker(2, False, producer=8),
         mark(3), cleaned(0, 1, end=3)], {"LATEST": 1}),
    "cleaned: an aborted value": (
        [topic(), *keyed(0, "a"), *marker(1, False), mark(2), cleaned(0, 1, end=2)], {}),
    "cleaned: for a value that its leader kept, and led again": (
        [*TWO_LEADERS, led(1, 3, 2), mark(2, epoch=3), cleaned(0, 1, end=2)], {}),
    "cleaned: a deletion at once": ([*DELETED, cleaned(0, 1, end=2)], {"LATEST": 1}),
    "cleaned: a deletion that was met a moment ago": (
        [*DELETED, cleaned(end=2, began=5), cleaned(0, 1, end=2, began=1004)], {"LATEST": 1}),
    "cleaned: a deletion that was met long ago": (
        [*DELETED, cleaned(end=2, began=5), cleaned(0, 1, end=2, began=1005)], {}),
    "cleaned: a deletion that another replica met long ago": (
        [*DELETED, cleaned(end=2, began=5, broker=2), cleaned(0, 1, end=2, began=1005)], {}),
    "cleaned: a deletion that was met with a longer delete.retention.ms": (
        [*DELETED, cleaned(end=2, began=5, retention=2000), cleaned(0, 1, end=2, began=1005)],
        {"LATEST": 1}),
    "cleaned: a deletion, but the cleaning had met other segments": (
        [*DELETED, cleaned(end=0, began=5), cleaned(0, 1, end=2, began=1005)], {"LATEST": 1}),
    "cleaned: a marker at once": (
        [topic(), *keyed(0, "a"), *marker(1, False), mark(2), cleaned(0, 2, end=2)],
        {"LATEST": 1}),
    "cleaned: a marker that was met long ago": (
        [topic(), *keyed(0, "a"), *marker(1, False), mark(2), cleaned(0, 1, end=2, began=5),
         cleaned(1, 2, end=2, began=1005)], {}),
}  # fmt: skip

KEPT = [*DELETED, cleaned(end=2, began=5)]
"""A deletion whose delete horizon is 1005 ms."""

LOADED = ("broker-1", facts.LogLoaded(T, 0, 0, 2, 2, True))

HORIZON_CASES: dict[str, tuple[Case, dict[str, int]]] = {
    "kept: a deletion at its delete horizon": (
        [*KEPT, cleaned(end=2, began=1005)], {"HORIZON": 1}),
    "kept: a deletion, in three cleanings": (
        [*KEPT, cleaned(end=2, began=900), cleaned(end=2, began=1500)], {"HORIZON": 1}),
    "kept: a deletion until its delete horizon": ([*KEPT, cleaned(end=2, began=1004)], {}),
    "gone: a deletion at its delete horizon": (
        [*KEPT, cleaned(0, 1, end=2, began=1005), cleaned(end=2, began=3000)], {}),
    "kept: a deletion that another replica met": (
        [*DELETED, cleaned(end=2, began=5, broker=2), cleaned(end=2, began=1005)], {}),
    "kept: a deletion that another cleaner has removed": (
        [*KEPT, cleaned(0, 1, end=2, began=1005, broker=2), cleaned(end=2, began=1005)], {}),
    "kept: a deletion that was copied with a later delete horizon": (
        [*DELETED, cleaned(end=2, began=1000, broker=2), cleaned(end=2, began=5),
         cleaned(end=2, began=1999)], {}),
    "kept: a deletion that was copied, behind both delete horizons": (
        [*DELETED, cleaned(end=2, began=1000, broker=2), cleaned(end=2, began=5),
         cleaned(end=2, began=2000)], {"HORIZON": 1}),
    "kept: a deletion that another replica met later": (
        [*KEPT, cleaned(end=2, began=1000, broker=2), cleaned(end=2, began=1005)],
        {"HORIZON": 1}),
    "kept: a deletion beyond the map of keys": (
        [*KEPT, cleaned(end=2, mapped=0, began=1005)], {}),
    "kept: a deletion by the first cleaning, with a delete.retention.ms of 0": (
        [*DELETED, cleaned(end=2, began=5, retention=0)], {}),
    "kept: a deletion of a log that was loaded since": (
        [*KEPT, LOADED, cleaned(end=2, began=1005)], {}),
    "kept: a deletion that was appended again since": (
        [*KEPT, *keyed(0, "a", "b", gone=(0,)), cleaned(end=2, began=1005)], {}),
}  # fmt: skip

READ_VALUE = [topic(), *keyed(0, "a"), *keyed(1, "a", gone=(1,)), *keyed(2, "b"), mark(3),
              positioned(0), polled([0], [100]), cleaned(end=3, began=5)]  # fmt: skip
"""A group has the value; the delete horizon of its deletion is 1005 ms."""

EARLY = cleaned(1, 2, end=3, began=505)


def led_again(first: list[Row], between: list[Row]) -> list[Row]:
    """A group reads a value; a cleaner meets all that a leader has, which has led again.

    ``first`` is what it has at offset 1, ``between`` what another leader had there.
    """
    return [
        topic(), *keyed(0, "a"), *first, led(2, 2, 1),
        *[("broker-2", fact) for _, fact in between], led(1, 3, 2), *keyed(2, "b", epoch=3),
        mark(3, epoch=3), positioned(0), polled([0], [100]), cleaned(end=3, began=5),
    ]  # fmt: skip


def later(seconds: float) -> Row:
    """Let time pass."""
    return "", seconds


DELETION_CASES: dict[str, tuple[Case, dict[str, int]]] = {
    "a deletion was removed too early": (
        [*READ_VALUE, EARLY, later(0.499), polled([2], [102])],
        {"LATEST": 1, "lost-deletion": 1}),
    "a deletion was removed too early, and the reader was late": (
        [*READ_VALUE, EARLY, later(0.5), polled([2], [102])], {"LATEST": 1}),
    "a deletion was removed too early, and was read before": (
        [*READ_VALUE, polled([1], [101]), EARLY, polled([2], [102])], {"LATEST": 1}),
    "a deletion was removed too early, and nobody had the value": (
        [*READ_VALUE[:5], positioned(1), READ_VALUE[-1], EARLY, polled([2], [102])],
        {"LATEST": 1}),
    "a deletion was removed for a later value": (
        [topic(), *keyed(0, "a"), *keyed(1, "a", gone=(1,)), *keyed(2, "a"), mark(3),
         positioned(0), polled([0], [100]), cleaned(1, 2, end=3, began=5), polled([2], [102])],
        {}),
    "a deletion was removed too early, and a reader went back from an earlier one": (
        [topic(), *keyed(0, "a"), *keyed(1, "a", "a", gone=(1, 2)), *keyed(3, "b"), mark(4),
         positioned(0), polled([0, 1], [100, 101]), cleaned(end=4, began=5),
         cleaned(1, 3, end=4, began=505), positioned(0, "seek"), polled([0, 3], [100, 103])],
        {"LATEST": 1, "duplicate": 1, "lost-deletion": 1}),
    "a deletion was removed too early, and the reader came back from a later value": (
        [*READ_VALUE[:7], *keyed(3, "a"), mark(4), positioned(3), polled([3], [103]),
         cleaned(end=3, began=5), EARLY, positioned(1, "seek"), polled([2], [102])],
        {"LATEST": 1, "lost-deletion": 1}),
    "a deletion was removed too early, and a reader without a position passed it": (
        [*READ_VALUE[:-3], cleaned(end=3, began=5), EARLY, polled([0, 2], [100, 102])],
        {"LATEST": 1, "lost-deletion": 1}),
    "a deletion was removed too early, and a reader that had lost its position passed it": (
        [*READ_VALUE, EARLY, positioned(-1, "none"), polled([0, 2], [100, 102])],
        {"LATEST": 1, "duplicate": 1, "lost-deletion": 1}),
    "a value was removed where a leader in between had a deletion": (
        [*led_again(keyed(1, "b"), keyed(1, "a", gone=(1,), epoch=2)),
         cleaned(1, 2, end=3, began=505), polled([2], [102])], {}),
    "a deletion was removed behind its delete horizon": (
        [*READ_VALUE, cleaned(1, 2, end=3, began=1005), polled([2], [102])], {}),
}  # fmt: skip
"""Those of lost-deletion."""

CLEANED_READS: dict[str, tuple[Case, dict[str, int]]] = {
    "not skipped: cleaned before": (
        [positioned(0), *A_B_A, cleaned(0, 1, end=3), polled([1, 2], [101, 102])], {}),
    "skipped: cleaned afterwards": (
        [topic(), positioned(0), *A_B_A, polled([1, 2], [101, 102]), cleaned(0, 1, end=3)],
        {"poll-skip": 1}),
    "skipped: another offset was cleaned": (
        [topic(), positioned(0), *A_B_A, cleaned(0, 1, end=3), polled([2], [102])],
        {"poll-skip": 1}),
    "not skipped by commit: cleaned before": (
        [topic(), positioned(0), *A_B_A, cleaned(0, 1, end=3), polled([1, 2], [101, 102]),
         processed(1, 3), committed(3), *left(1, 2, end=3)], {}),
    "skipped by commit: cleaned afterwards": (
        [topic(), positioned(1), *A_B_A, positioned(0), processed(1, 3), committed(3),
         cleaned(0, 1, end=3), polled([1, 2], [101, 102]), *left(1, 2, end=3)],
        {"skipped-by-commit": 1}),
    "not lost: cleaned": (
        [topic(), *A_B_A, acked(0, 100, 101, 102), cleaned(0, 1, end=3), *left(1, 2, end=3)], {}),
    "not lost: cleaned, acknowledged without an offset": (
        [topic(), *A_B_A, acked(-1, 100, 101, 102), cleaned(0, 1, end=3), *left(1, 2, end=3)],
        {}),
    "lost: another record was cleaned": (
        [topic(), *A_B_A, acked(0, 100, 101, 102), cleaned(0, 1, end=3), *left(2, end=3)],
        {"lost-write": 1}),
    "not unseen, not a duplicate: records stand behind gaps": (
        [topic(), positioned(0), *A_B_A, acked(0, 100, 101, 102), cleaned(0, 1, end=3),
         polled([1, 2], [101, 102]), *left(1, 2, end=3)], {}),
    "unseen: what a cleaner has left": (
        [topic(), positioned(0), *A_B_A, acked(0, 100, 101, 102), cleaned(0, 1, end=3),
         polled([1], [101]), *left(1, 2, end=3)], {"unseen": 1}),
}  # fmt: skip
