"""PIDSTATE on real logs: what a replay finds wrong with producers and the last stable offset."""

from __future__ import annotations

from copy import deepcopy
from dataclasses import replace
from types import SimpleNamespace
from typing import Any

import pytest

from kafkasim.analysis.judging.copies.stale_replies import StaleReplies
from kafkasim.analysis.judging.invariants.final import (
    JumpingAppends,
    WallClocks,
    check_log,
    check_producer_state,
)
from kafkasim.analysis.judging.invariants.online import Invariants
from kafkasim.analysis.judging.invariants.traced import TracedCluster, TracedPartition
from kafkasim.model import facts
from kafkasim.model.facts.world import EPOCH_US
from kafkasim.model.storage.log.producers.entry import ProducerEntry
from kafkasim.model.storage.log.unified_log import UnifiedLog
from tests.model.cleaner_support import append, batches, clean, commit, compacted, keyed, marker
from tests.model.storage_support import batch, make_log
from tests.model.test_storage_transactions import end, send
from tests.scenarios.fact_makers import FakeLog, FakeTrace, P, T, appended, final
from tests.scenarios.fact_makers import batch as traced
from tests.scenarios.invariant_stories.judged import LIMITS


@pytest.fixture
def log() -> UnifiedLog:
    """Producer 1 has ended a transaction and raised its epoch, 2 has one open, 3 ended one whose
    marker is above the high watermark."""
    made = make_log()
    send(made, 1, 0)
    end(made, 1, committed=False, epoch=1)
    send(made, 3, 0)
    send(made, 2, 0)
    send(made, 2, 1)
    made.update_high_watermark(5)
    end(made, 3)
    return made


def found(
    log: Any,
    latest_ms: int = 1000,
    state: TracedPartition | None = None,
    missed: tuple[int, ...] = (),
) -> list[str]:
    violations: list[str] = []
    cluster: Any = SimpleNamespace(
        violated=lambda *row: violations.append(row[0]),
        partitions={("t", 0): state or TracedPartition(("t", 0))},
    )
    check_producer_state(cluster, 1, 1, "broker-1", ("t", 0), log, latest_ms, missed=missed)
    return violations


def test_state_that_the_log_gives(log: UnifiedLog) -> None:
    assert log.last_stable_offset == 2
    assert found(log) == []
    log.raise_log_start(4)
    assert found(log) == []


def test_epoch_of_a_marker_was_forgotten(log: UnifiedLog) -> None:
    log.producers.entries[1].epoch = 0
    assert found(log) == ["PIDSTATE"]


def test_a_marker_without_its_record_tells_a_later_reader_nothing(log: UnifiedLog) -> None:
    copy = make_log()
    data, marker, *rest = log.batches_from(0)
    assert (data.producer_id, marker.control) == (1, True)
    copy.append_as_follower([replace(marker, records=()), *rest], 0)
    copy.update_high_watermark(5)
    assert (1 in copy.producers.entries, found(copy)) == (False, [])
    known = copy.producers.entries[1] = ProducerEntry(1, 1, [], 1)  # as before the cleaning
    assert found(copy) == []
    known.epoch = 0
    assert found(copy) == ["PIDSTATE"]


def test_a_marker_that_came_without_its_record_leaves_its_transaction_open(
    log: UnifiedLog,
) -> None:
    """The replica had the data when the cleaner of another one emptied the marker at 1."""
    copy = make_log()
    data, marker, *rest = log.batches_from(0)
    copy.append_as_follower([data, replace(marker, records=()), *rest], 0)
    copy.update_high_watermark(5)
    assert (copy.last_stable_offset, found(copy, missed=(1,))) == (0, [])
    assert found(copy) == ["PIDSTATE"]  # it had copied the marker's record
    assert found(copy, missed=(5,)) == ["PIDSTATE"]  # it missed the marker of another producer
    copy.producers.transactions.first_unstable_offset = 2
    assert found(copy, missed=(1,)) == ["PIDSTATE"]


def test_a_snapshot_knows_a_batch_that_the_cleaner_has_removed(log: UnifiedLog) -> None:
    cleaned, entry = make_log(), log.producers.entries[2]
    kept = [one for one in log.batches_from(0) if one.base_offset != 4]  # the last one of 2
    cleaned.append_as_follower(kept, 0)
    cleaned.update_high_watermark(5)
    assert found(cleaned) == []
    cleaned.producers.entries[2].batches[:] = entry.batches
    assert found(cleaned) == []
    cleaned.producers.entries[2].batches[-1] = (1, 1, 3, 0, 1)  # a batch that is there
    assert found(cleaned) == ["PIDSTATE"]
    cleaned.producers.entries[2].batches[-1] = (1, 1, 9, 0, 1)  # beyond the log's end
    assert found(cleaned) == ["PIDSTATE"]


@pytest.mark.parametrize(
    ("place", "told", "broken"),
    [
        ((1, 2, 0), (1, 1, 0), []),
        ((1, 2, 0), (1, 0, 1), ["PIDSTATE"]),  # the batch had the old epoch
        ((1, 2, 0), (1, 1, 1), ["PIDSTATE"]),  # and another sequence
        ((1, 2, 0), (2, 1, 0), ["PIDSTATE"]),  # it was another producer's
        ((0, 1, 0), (1, 1, 0), ["PIDSTATE"]),  # it stood elsewhere
    ],
)
def test_a_snapshot_knows_the_epoch_of_a_batch_that_the_cleaner_has_removed(
    place: tuple[int, int, int], told: tuple[int, int, int], broken: list[str]
) -> None:
    """A later batch of the producer was the last one when the cleaner came, and was truncated."""
    made, cleaned = make_log(), make_log()
    for one in (batch(1, pid=1, sequence=0), batch(1, pid=1, sequence=0, epoch=1)):
        made.append_as_leader(one, 0, 0)
    made.append_as_leader(batch(1), 0, 0)
    made.update_high_watermark(3)
    first, _, last = made.batches_from(0)
    cleaned.append_as_follower([first, last], 0)
    cleaned.update_high_watermark(3)
    assert found(cleaned) == []
    cleaned.producers.entries[1] = made.producers.entries[1]
    state = TracedPartition(("t", 0), removed={1: (2, 0)})
    assert found(cleaned, state=state) == ["PIDSTATE"]
    state.originals[2, 0] = (*place, told)
    assert found(cleaned, state=state) == broken


@pytest.fixture
def reloaded() -> UnifiedLog:
    """A transaction's first record was removed; a truncation has then cut its marker off."""
    made, sent = make_log(settings=compacted()), {"producer_id": 7, "producer_epoch": 0}
    commit(made, keyed(("a", 0), base_sequence=0, transactional=True, **sent))
    append(made, ("b", 1))
    commit(made, keyed(("c", 2), base_sequence=1, transactional=True, **sent))
    append(made, ("a", 3))
    marker(made, 7, committed=True)
    append(made, ("d", 4))
    append(made, ("e", 5))
    clean(made)
    assert [base for base, *_ in batches(made)] == [1, 2, 3, 4, 5, 6]
    assert found(made, state=REMOVED) == []
    made.truncate_to(4)
    assert (made.producers.entries[7].txn_first_offset, made.last_stable_offset) == (0, 0)
    return made


REMOVED = TracedPartition(("t", 0), removed={0: (1, 0)}, originals={(1, 0): (0, 1, 0, (7, 0, 0))})


@pytest.mark.parametrize(
    ("base", "told", "broken"),
    [
        (0, (7, 0, 0), []),
        (0, (7, 1, 0), ["PIDSTATE"]),  # the batch had another epoch
        (0, (8, 0, 0), ["PIDSTATE"]),  # it was another producer's
        (-1, (7, 0, 0), ["PIDSTATE"]),  # the transaction did not begin with it
    ],
)
def test_a_snapshot_knows_where_a_transaction_began_that_the_cleaner_has_removed(
    reloaded: UnifiedLog, base: int, told: tuple[int, int, int], broken: list[str]
) -> None:
    originals = {(1, 0): (base, 1, 0, told)}
    assert found(reloaded, state=replace(REMOVED, originals=originals)) == broken
    assert found(reloaded) == ["PIDSTATE"]  # no cleaner has removed anything


def test_a_marker_ends_a_transaction_of_which_the_cleaner_has_removed_the_first_batch(
    reloaded: UnifiedLog,
) -> None:
    entry = reloaded.producers.entries[7]
    marker(reloaded, 7, committed=True)
    assert found(reloaded, state=REMOVED) == []
    entry.txn_first_offset = 0
    assert found(reloaded, state=REMOVED) == ["PIDSTATE"]


def test_a_transaction_that_began_below_the_log_start_holds_the_last_stable_offset() -> None:
    made = make_log()
    send(made, 1, 0)
    send(made, 2, 0)
    made.update_high_watermark(2)
    made.raise_log_start(1)
    end(made, 2)
    made.update_high_watermark(3)
    assert (made.last_stable_offset, found(made)) == (1, [])
    made.producers.entries[1].txn_first_offset = -1
    assert found(made) == ["PIDSTATE"]


def test_a_marker_that_is_not_replicated_may_end_what_began_below_the_log_start() -> None:
    made = make_log()
    send(made, 1, 0)
    send(made, 2, 0)
    made.update_high_watermark(2)
    made.raise_log_start(2)
    end(made, 2)
    end(made, 1)
    made.update_high_watermark(3)
    assert (made.last_stable_offset, found(made)) == (2, [])
    made.producers.transactions.first_unstable_offset = 1
    made.high_watermark = 4  # both markers are replicated
    assert (made.last_stable_offset, found(made)) == (2, ["PIDSTATE"])


def test_open_transaction_was_forgotten(log: UnifiedLog) -> None:
    log.producers.entries[2].txn_first_offset = -1
    assert found(log) == ["PIDSTATE"]


def test_a_log_may_forget_a_silent_producer_without_an_open_transaction(log: UnifiedLog) -> None:
    del log.producers.entries[1]
    assert found(log) == ["PIDSTATE"]
    heard_ms = 0  # its marker's timestamp
    log.producers.expiration_ms = 5000
    assert found(log, heard_ms + 4999) == ["PIDSTATE"]
    assert found(log, heard_ms + 5000) == []
    del log.producers.entries[2]
    assert found(log, 1 << 60) == ["PIDSTATE"]


def test_a_log_remembers_a_producer_until_its_last_batch_has_expired() -> None:
    made = make_log(producer_id_expiration_ms=5000)
    made.append_as_leader(batch(1, pid=1, sequence=0, timestamp=1000), 0, 0)
    made.append_as_leader(batch(2, pid=1, sequence=1, timestamp=9999), 0, 0)
    made.update_high_watermark(2)
    del made.producers.entries[1]
    assert found(made, 10_000) == ["PIDSTATE"]
    assert found(made, 14_999) == []


def test_the_latest_wall_clock_of_a_host_counts_steps_and_drift() -> None:
    trace = FakeTrace()
    clocks = WallClocks(trace)
    trace.record(
        [
            ("broker-1", facts.ClockStepped(7_000_000)),
            ("broker-1", facts.ClockStepped(-9_000_000)),
            ("broker-2", facts.ClockDrifted(500_000)),
        ]
    )
    start_ms = EPOCH_US // 1000
    shown = [clocks.latest_ms(f"broker-{each}", 2_000_000) - start_ms for each in (1, 2, 3)]
    assert shown == [9000, 3000, 2000]


@pytest.mark.parametrize("wrong", [1, 4, 5])
def test_last_stable_offset_is_wrong(log: UnifiedLog, wrong: int) -> None:
    log.transactions.first_unstable_offset = wrong
    assert found(log) == ["PIDSTATE"]


def sequence_gap(
    silent_s: float,
    *,
    expires_s: float = 2.0,
    epoch: int = 2,
    reopened: tuple[tuple[int, int], ...] = (),
    **between: Any,
) -> int:
    """Judge a log with a gap in the sequences of a producer; return how often ORDER is broken.

    The producer was silent for some seconds when its last batch came, with the leader epoch
    ``epoch``; epoch 0 is that of the batch before. ``between`` is a further batch in its place.
    In the ``reopened`` epochs a leader went on that had lost its log from the given offset.
    """
    trace = FakeTrace()
    jumps = JumpingAppends(trace, WallClocks(trace))
    batches = [traced(0, [10], 0, 5, 0)]
    batches += [traced(1, [11], 2, 5, **between)] if between else []
    batches.append(traced(len(batches), [12], epoch, 5, 7))
    rows = [appended(b.base_offset, (1,), b.leader_epoch, 5, b.base_sequence) for b in batches]
    trace.record([*(("broker-1", row) for row in rows[:-1])])
    trace.record([("broker-2", rows[-1])], t_us=int(silent_s * 1_000_000))
    log = FakeLog(batches)
    log.producers.expiration_ms = int(expires_s * 1000)
    cluster = TracedCluster(trace, lambda *_: log, lambda *_: "", lambda _: False)
    cluster.partition(T, P).reopened.extend(reopened)
    stale = StaleReplies(cluster.trace)
    check_log(cluster, 9, 9, "broker-1", final(batches, epochs=(0, 0, 2, 1)), jumps, stale)
    return [(found.name, found.expected_by) for found in cluster.violations].count(("ORDER", ""))


@pytest.mark.parametrize("leads", [{}, {"epoch": 0}, {"seq": 1}], ids=["new", "same", "successor"])
def test_a_leader_that_has_forgotten_a_producer_takes_any_sequence(leads: dict[str, Any]) -> None:
    assert sequence_gap(2.0, **leads) == 0


@pytest.mark.parametrize(
    "story",
    [
        pytest.param({"silent_s": 1.9}, id="the log has heard the producer since"),
        pytest.param({"silent_s": 3600, "expires_s": 86_400}, id="the default of a day"),
        pytest.param({"silent_s": 1.9, "epoch": 0}, id="the same leader has heard it since"),
        pytest.param({"silent_s": 1.9, "seq": 1}, id="its successor has heard it since"),
    ],
)
def test_a_gap_in_the_sequences_that_no_expiration_explains(story: dict[str, Any]) -> None:
    assert sequence_gap(**story) == 1


@pytest.mark.parametrize(
    ("reopened", "broken"), [((0, 0), 0), ((0, 1), 1), ((2, 0), 1)], ids=["its", "above", "another"]
)
def test_a_gap_behind_what_the_leader_lost_and_wrote_anew(
    reopened: tuple[int, int], broken: int
) -> None:
    """The follower keeps the old batches of the epoch, and the next one follows the new ones."""
    assert sequence_gap(1.9, reopened=(reopened,)) == broken


def test_a_marker_tells_a_log_of_its_producer() -> None:
    marker = {"transactional": True, "control": True}
    assert sequence_gap(1.9, **marker) == 1
    assert sequence_gap(2.0, **marker) == 0


REBUILT = (facts.Truncated("t", 0, 1, 9, 5), facts.LogLoaded("t", 0, 0, 5, 5, False))


@pytest.mark.parametrize("rebuilt", REBUILT, ids=lambda each: type(each).__name__)
@pytest.mark.parametrize("whole", [True, False])
def test_a_log_knows_its_producers_as_soon_as_it_is_truncated_or_loaded(
    log: UnifiedLog, rebuilt: Any, whole: bool
) -> None:
    """A retry may reach it long before the end of the run: a batch that was cut off is in its
    state, so it would answer as to a duplicate (KAFKA-6683)."""
    trace = FakeTrace()
    invariants = Invariants(trace, lambda *_: log, lambda *_: "", lambda _: False, LIMITS)
    if not whole:
        log.producers.entries[3].batches.append((1, 1, 7, 0, 0))
    trace.record([("broker-1", rebuilt)])
    assert [each.name for each in invariants.violations] == ([] if whole else ["PIDSTATE"])


@pytest.mark.parametrize(
    ("offset", "producer", "marked", "broken"),
    [
        (2, 3, True, []),
        (2, 1, True, ["PIDSTATE"]),  # the marker of this producer is replicated
        (1, 3, True, ["PIDSTATE"]),  # the transaction began elsewhere
        (2, 3, False, ["PIDSTATE"]),  # its marker is replicated
    ],
)
def test_a_cleaner_removed_the_record_of_a_transaction_that_a_snapshot_knows(
    log: UnifiedLog, offset: int, producer: int, marked: bool, broken: list[str]
) -> None:
    """The high watermark of the broker that crashed was above the marker, and its cleaner too."""
    cleaned = make_log()
    kept = [one for one in log.batches_from(0) if one.base_offset not in (2, 3, 4)]
    cleaned.append_as_follower(kept, 0)
    cleaned.update_high_watermark(5 if marked else 6)
    cleaned.transactions.first_unstable_offset = offset
    state = TracedPartition(("t", 0), removed={2: (3, 0)})
    state.originals[3, 0] = (2, 3, 0, (producer, 0, 0))
    assert found(cleaned, state=state) == broken


def test_a_log_that_knew_nobody_reads_no_producer_again_when_it_is_truncated(
    log: UnifiedLog,
) -> None:
    """Its producers had expired, and a marker was cut off: this producer's transaction is open
    again, and the last stable offset is behind it. What was written since, or a log that forgot
    too early, has no such reason."""

    def broken(latest_ms: int, forgotten: int) -> bool:
        rows: list[str] = []
        cluster: Any = SimpleNamespace(
            violated=lambda *row: rows.append(row[0]),
            partitions={("t", 0): TracedPartition(("t", 0))},
        )
        check_producer_state(cluster, 1, 1, "broker-1", ("t", 0), log, latest_ms, forgotten)
        return bool(rows)

    log.producers.expiration_ms = 5000
    log.producers.entries.clear()
    log.transactions.first_unstable_offset = 1 << 60
    end, last = log.log_end_offset, 4  # the last batch of producer 2
    told = [broken(4999, end), broken(1 << 60, end), broken(1 << 60, last), broken(1 << 60, 0)]
    assert told == [True, False, True, True]


@pytest.mark.parametrize(
    ("expires_ms", "opened", "broken"),
    [
        (5000, 0, False),
        (1 << 60, 0, True),  # the producer has not expired, so the log knew it
        (5000, 1, True),  # no snapshot has this
    ],
)
def test_a_log_that_knew_nobody_may_have_what_a_snapshot_has(
    expires_ms: int, opened: int, broken: bool
) -> None:
    """It loads the snapshot, but does not read the marker behind it again."""
    made = make_log(producer_id_expiration_ms=expires_ms)
    send(made, 1, 0)
    known = deepcopy(made.producers.entries)
    end(made, 1)
    made.update_high_watermark(2)
    trace = FakeTrace()
    invariants = Invariants(trace, lambda *_: made, lambda *_: "", lambda _: False, LIMITS)
    made.producers.entries.clear()
    made.producers.entries.update(known)
    made.producers.entries[1].txn_first_offset = opened
    trace.record([("broker-1", facts.Truncated("t", 0, 1, 3, 2))])
    assert [each.name for each in invariants.violations] == ["PIDSTATE"] * broken


@pytest.mark.parametrize(
    ("knows", "loaded", "broken"),
    [
        (False, 6, False),
        (True, 6, True),
        (False, 5, True),  # what was cut off was written since, and never replicated
    ],
)
def test_what_a_log_forgot_when_it_was_truncated_may_be_missing_later(
    log: UnifiedLog, knows: bool, loaded: int, broken: bool
) -> None:
    """Producers that write then are in its state again, and the others are not."""
    trace = FakeTrace()
    invariants = Invariants(trace, lambda *_: log, lambda *_: "", lambda _: False, LIMITS)
    trace.record([("broker-1", facts.LogLoaded("t", 0, 0, loaded, 5, False))])
    log.producers.expiration_ms = 5000
    kept = dict(log.producers.entries)
    assert len(kept) > 1
    later = {3: kept[3]}
    log.producers.entries.clear()
    log.producers.entries.update(later if knows else {})
    log.transactions.first_unstable_offset = 1 << 60
    trace.record([("broker-1", REBUILT[0])], t_us=10_000_000)
    before = len(invariants.violations)
    log.producers.entries.update(later)
    trace.record([("broker-1", REBUILT[1])], t_us=10_000_000)
    assert (len(invariants.violations) > before) == broken
