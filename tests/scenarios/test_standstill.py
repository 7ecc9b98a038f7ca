"""A healed cluster may wait for ever for a transaction that a legal loss has cut in two."""

from __future__ import annotations

from typing import Any

import pytest

from kafkasim.analysis.judging.copies.missed_markers import MISSED_END, MissedEnds
from kafkasim.analysis.judging.copies.uncopied import Uncopied
from kafkasim.analysis.judging.history.contents import Contents
from kafkasim.analysis.judging.progress import Progress
from kafkasim.analysis.judging.source import Loss
from kafkasim.analysis.judging.transactions.known.skipped_markers import SKIPPED_MARKER
from kafkasim.analysis.judging.transactions.known.unverified import UNVERIFIED
from kafkasim.analysis.judging.transactions.liveness.coordinators.uncommitted_loads import (
    UNCOMMITTED_LOAD,
)
from kafkasim.analysis.judging.transactions.liveness.coordinators.unwritten_markers import (
    UnwrittenMarkers,
)
from kafkasim.analysis.judging.transactions.liveness.exhausted_epochs import EXHAUSTED
from kafkasim.analysis.judging.transactions.liveness.standstill import Standstill
from kafkasim.model import facts
from tests.scenarios.fact_makers import FakeTrace
from tests.scenarios.transaction_cases import (
    COORDINATORS,
    LIVE,
    OFFSETS,
    OPEN,
    READER,
    STANDING,
    STATE,
    TID,
    TOPICS,
    UNTOLD,
    Rows,
    T,
    added,
    appended,
    begun,
    completed,
    control,
    copied,
    ended,
    ending,
    final,
    loss,
    marker,
    offsets,
    polled,
    removed,
    skipping,
)
from tests.scenarios.unverified_cases import COMES, hanging, late, skipped

PRODUCER = "producer-1 has records that are neither acknowledged nor failed"
BUSY = "producer-1 handles what it was given"
LAG = "group g is at 1 of 2 in orders-0 (last read by consumer-1)"
GIVEN = "group g was given records below 2 of orders-0 and has committed 1"
REFUSED = facts.MarkerGivenUp(TID, "orders", 0, 7, 1, 1, "INVALID_PRODUCER_EPOCH")
GIVEN_UP: Rows = [*COORDINATORS, *begun(), ("broker-2", REFUSED)]
HUNG: Rows = [*COORDINATORS, *OPEN, *polled(0, 100), *final((0, (100,), -1), (1, (101,), 7))]


def held(rows: Rows, stable: int) -> Rows:
    """The rows with the last stable offset of the final leaders moved back."""
    told = []
    for node, fact in rows:
        if isinstance(fact, facts.FinalReplica):
            columns = {name: getattr(fact, name) for name in fact.__slots__}
            fact = facts.FinalReplica(**columns | {"last_stable_offset": stable})
        told.append((node, fact))
    return told


def excuse(rows: Rows, line: str, *lost: tuple[tuple[str, int], Loss]) -> str:
    trace = FakeTrace()
    progress = Progress(trace)
    uncopied = Uncopied(trace, lambda _: True)
    uncopied.follow()
    judged = Standstill(
        trace,
        lambda key: [loss for of, loss in lost if of == key],
        progress.positions,
        MissedEnds(trace, Contents(trace), uncopied),
        UnwrittenMarkers(trace, ()),
    )
    trace.record(rows)
    return progress.stall_excuse([line], lambda _: "", judged.excuse)


def test_a_marker_that_was_given_up_stops_its_producer() -> None:
    for line in (PRODUCER, BUSY):
        assert excuse(GIVEN_UP, line, (STATE, loss())) == STANDING
        assert excuse(GIVEN_UP, line) == ""
        assert excuse(GIVEN_UP, line, ((T, 0), loss())) == ""
    assert excuse(GIVEN_UP, "producer-2 handles what it was given", (STATE, loss())) == ""


def test_a_transaction_that_went_on_stops_nobody() -> None:
    assert excuse([*GIVEN_UP, *completed()], PRODUCER, (STATE, loss())) == ""


def test_a_marker_of_a_deposed_coordinator_stops_nobody() -> None:
    fenced = facts.MarkerGivenUp(TID, "orders", 0, 7, 1, 1, "TRANSACTION_COORDINATOR_FENCED")
    assert excuse([*GIVEN_UP[:-1], ("broker-2", fenced)], PRODUCER, (STATE, loss())) == ""


def test_a_reader_waits_at_the_last_stable_offset() -> None:
    rows = held(HUNG, 1)
    for line in (LAG, GIVEN):
        assert excuse(rows, line, (STATE, loss())) == STANDING
        assert excuse(rows, line, ((T, 0), loss(1, 3))) == STANDING
        assert excuse(rows, line, ((T, 0), loss(0, 1))) == ""
        assert excuse(rows, line, (OFFSETS, loss())) == ""
        assert excuse(rows, line) == ""


def test_a_partition_keeps_a_transaction_that_nobody_ends() -> None:
    line = "orders-0 has an open transaction of producer id 7 from offset 1 on"
    assert excuse(HUNG, line, (STATE, loss())) == STANDING
    assert excuse(HUNG, line, ((T, 0), loss(1, 3))) == STANDING
    assert excuse(HUNG, line, ((T, 0), loss(0, 1))) == ""
    assert excuse(HUNG, line) == ""
    other = line.replace("id 7", "id 8")
    assert excuse(HUNG, other, (STATE, loss())) == ""


def test_a_reader_that_has_not_come_so_far_must_read_on() -> None:
    assert excuse(held(HUNG, 2), LAG, (STATE, loss())) == ""


CLEANED: Rows = [*HUNG[:-1], *final((0, (100,), -1), (3, (103,), 7))]
"""A cleaner has removed what stood at offsets 1 and 2."""


def test_a_reader_waits_in_front_of_a_gap_below_the_last_stable_offset() -> None:
    behind = [*HUNG[:-1], *final((0, (100,), -1), (2, (102,), -1), (3, (103,), 7))]
    for line, first in ((LAG, []), (SHARES, COMMITTED_ONLY)):
        rows = held([*first, *CLEANED], 3)
        assert excuse(rows, line, (STATE, loss())) == STANDING
        assert excuse(rows, line) == ""
        assert excuse(held([*first, *behind], 3), line, (STATE, loss())) == ""  # 2 is left


def level(value: str, group: str = "g", config: str = "share.isolation.level") -> Rows:
    return [("controller-1", facts.ConfigChanged(9, f"group:{group}", config, value))]


SHARES = "share group g is at 1 of 2 in orders-0"
COMMITTED_ONLY = level("read_committed")


def test_a_share_group_of_committed_records_waits_at_the_last_stable_offset() -> None:
    rows = held([*COMMITTED_ONLY, *HUNG], 1)
    assert excuse(rows, SHARES, (STATE, loss())) == STANDING
    assert excuse(rows, SHARES, ((T, 0), loss(1, 3))) == STANDING
    assert excuse(rows, SHARES, ((T, 0), loss(0, 1))) == ""
    assert excuse(rows, SHARES, (OFFSETS, loss())) == ""
    assert excuse(rows, SHARES) == ""
    assert excuse(rows, SHARES.replace("orders", "others"), (STATE, loss())) == ""
    behind = held([*COMMITTED_ONLY, *HUNG], 2)  # it has not done all below
    assert excuse(behind, SHARES, (STATE, loss())) == ""


@pytest.mark.parametrize(
    "settings",
    [
        [],
        level("read_uncommitted"),
        [*COMMITTED_ONLY, *level("read_uncommitted")],
        level("read_committed", "h"),
        level("read_committed", config="another"),
    ],
)
def test_a_share_group_of_all_records_passes_the_last_stable_offset(settings: Rows) -> None:
    assert excuse(held([*settings, *HUNG], 1), SHARES, (STATE, loss())) == ""


def test_a_group_cannot_begin_while_its_offsets_are_unstable() -> None:
    home = held([*final((0, (), -1), (1, (), 7), topic=OFFSETS[0])], 1)
    rows = [*HUNG, *offsets(2), *home]
    assert excuse(rows, LAG, (STATE, loss())) == STANDING
    assert excuse(rows, "consumer-1 handles what it was given", (STATE, loss())) == STANDING
    assert excuse(rows, LAG) == ""
    others = [*HUNG, *home]  # of another group
    assert excuse(others, LAG, (STATE, loss())) == ""


def test_a_marker_that_was_skipped_leaves_a_transaction_open() -> None:
    rows = held(skipping(*UNTOLD), 0)
    line = "orders-0 has an open transaction of producer id 7 from offset 0 on"
    lag = "group g is at 0 of 1 in orders-0 (last read by consumer-1)"
    assert (excuse(rows, line), excuse(rows, lag)) == (SKIPPED_MARKER, SKIPPED_MARKER)
    known = held(skipping(*UNTOLD, *LIVE), 0)
    assert (excuse(known, line), excuse(known, lag)) == ("", "")
    assert excuse(rows, line.replace("id 7", "id 8")) == ""
    ended_later = [*rows, *marker(1, True)]
    assert (excuse(ended_later, line), excuse(ended_later, lag)) == ("", "")


def test_a_batch_that_nobody_verified_leaves_a_transaction_open() -> None:
    """Until a transaction of its producer adds the partition: that one has to end it."""
    line = "orders-0 has an open transaction of producer id 7 from offset 2 on"
    lag = "group g is at 2 of 3 in orders-0 (last read by consumer-1)"
    for comes, why in ((COMES, UNVERIFIED), (COMES[1:], "")):
        rows = held([*hanging(late(comes=comes)), *polled(1, 99)], 2)
        assert (excuse(rows, line), excuse(rows, lag)) == (why, why)
    added_again = [*late(), *added(1)]
    assert excuse(held(hanging(added_again), 2), line) == ""


def unverified_offsets(*comes: tuple[str, Any], asks: bool = True) -> Rows:
    """A batch of a group's offsets stands behind the marker of a transaction that had some."""
    batch = facts.Appended(*OFFSETS, 0, 1, 2, 7, 0, -1, ())
    rows = [*COORDINATORS, *TOPICS, *READER, *begun(), *offsets(2)]
    rows += [*(ending(False) if asks else ()), *ended("aborted")]
    rows += [*marker(0, False, topic=OFFSETS[0]), *comes, ("broker-1", batch)]
    home = held([*final((0, (), 7), (1, (), 7), topic=OFFSETS[0])], 1)
    return [*rows, *home, *final((0, (100,), -1))]


def test_offsets_that_nobody_verified_stay_unstable() -> None:
    skips = skipped(topic=OFFSETS[0])
    lag = "group g is at 0 of 1 in orders-0 (last read by consumer-1)"
    line = "__consumer_offsets-0 has an open transaction of producer id 7 from offset 1 on"
    for rows, why in (
        (unverified_offsets(*skips), UNVERIFIED),
        (unverified_offsets(), ""),
        (unverified_offsets(*skips, asks=False), ""),
    ):
        assert (excuse(rows, line), excuse(rows, lag)) == (why, why)


def exhausted(reason: str, of: str = TID, producer_id: int = 7) -> Rows:
    return [("broker-2", facts.EpochsExhausted(of, producer_id, 32_767, reason))]


def ongoing(
    of: str = TID, producer_id: int = 7, node: str = "broker-2", epoch: int = 32_767
) -> Rows:
    change = ("CompleteAbort", "Ongoing", ("orders-0",), 60_000, 1, "add")
    return [(node, facts.TransactionState(of, producer_id, epoch, *change))]


OPEN_LINE = "orders-0 has an open transaction of producer id 7 from offset 1 on"


@pytest.mark.parametrize("reason", ["end", "fence", "timeout"])
def test_no_epoch_is_left_to_end_a_transaction(reason: str) -> None:
    """TransactionMetadata.prepareAbortOrCommit, prepareFenceProducerEpoch."""
    rows = held([*HUNG, *ongoing(), *exhausted(reason)], 1)
    for line in (OPEN_LINE, LAG, PRODUCER, BUSY):
        assert excuse(rows, line) == EXHAUSTED
        assert excuse(held([*HUNG, *ongoing()], 1), line) == ""
    assert excuse(rows, OPEN_LINE.replace("id 7", "id 8")) == ""
    assert excuse(rows, "producer-2 handles what it was given") == ""
    other = held([*HUNG, *ongoing(), *exhausted(reason, producer_id=6)], 1)
    assert excuse(other, OPEN_LINE) == ""


@pytest.mark.parametrize(("stored", "why"), [(32_766, EXHAUSTED), (32_765, ""), (1, "")])
def test_attempts_that_were_not_stored_use_up_no_epochs(stored: int, why: str) -> None:
    """What B52 does: every fence that cannot be written raises the epoch (KAFKA-9666)."""
    rows = held([*HUNG, *ongoing(epoch=stored), *exhausted("timeout")], 1)
    assert excuse(rows, OPEN_LINE) == why


def test_a_transaction_that_was_ended_after_all_waits_for_nothing() -> None:
    """4.0: another coordinator has the epoch of the log."""
    rows = held([*HUNG, *ongoing(), *exhausted("timeout"), *completed()], 1)
    for line in (OPEN_LINE, PRODUCER):
        assert excuse(rows, line) == ""


def test_the_search_for_what_timed_out_ends_at_such_a_transaction() -> None:
    """TransactionCoordinator.abortTimedOutTransactions."""
    mine = held([*HUNG, *ongoing(epoch=1), *ongoing("other", 9)], 1)
    assert excuse([*mine, *exhausted("timeout", "other", 9)], OPEN_LINE) == EXHAUSTED
    assert excuse([*mine, *exhausted("end", "other", 9)], OPEN_LINE) == ""
    elsewhere = held([*HUNG, *ongoing(node="broker-3"), *ongoing("other", 9)], 1)
    assert excuse([*elsewhere, *exhausted("timeout", "other", 9)], OPEN_LINE) == ""
    begun_again = [*exhausted("timeout", "other", 9), *ongoing("other", 9)]
    assert excuse([*mine, *begun_again], OPEN_LINE) == ""


def elsewhere(rows: Rows, node: str = "", topic_id: str = T) -> Rows:
    """The rows of another partition, and of one node if it is named."""
    told = []
    for by, fact in rows:
        columns = {name: getattr(fact, name) for name in fact.__slots__}
        told.append((node or by, type(fact)(**columns | {"topic_id": topic_id})))
    return told


def missed(
    *more: Rows, commit: bool = True, first: int = 1, topic_id: str = T, by: str = "broker-2"
) -> Rows:
    """Broker-2 leads in the end. ``by`` copies up to ``first`` before the cleaner of broker-1
    removes the marker at 1, and then the rest."""
    log = [*appended(0, 100), *elsewhere(copied(0, first), by), *control(1, commit)]
    log += [*appended(2, 102, pid=-1), *removed(1, 5), *elsewhere(copied(2, 3), by)]
    end = final((0, (100,), 7), (2, (102,), -1))
    told = [*log, *(row for rows in more for row in rows), *held(elsewhere(end, "broker-2"), 0)]
    return [*COORDINATORS, *TOPICS, *READER, *begun(), *elsewhere(told, topic_id=topic_id)]


AT_FIRST = "group g is at 0 of 3 in orders-0 (last read by consumer-1)"


@pytest.mark.parametrize("commit", [True, False])
def test_a_leader_that_has_missed_a_marker_holds_its_readers_back(commit: bool) -> None:
    assert excuse(missed(commit=commit), AT_FIRST) == MISSED_END
    assert excuse(missed(commit=commit), AT_FIRST.replace("group g ", "group h ")) == ""
    assert excuse(missed(commit=commit, first=2), AT_FIRST) == ""  # it has copied the marker
    assert excuse(missed(commit=commit, by="broker-3"), AT_FIRST) == ""


def test_the_next_marker_ends_what_a_leader_has_missed_the_marker_of() -> None:
    later: Rows = [*control(3, True), *copied(3, 4)]
    assert excuse(missed(later), AT_FIRST) == ""


def test_a_missed_marker_keeps_the_offsets_of_a_group_unstable() -> None:
    rows = [*offsets(2), *missed(topic_id=OFFSETS[0])]
    for line in (AT_FIRST, "consumer-1 handles what it was given"):
        assert excuse(rows, line) == MISSED_END
        assert excuse(rows[1:], line) == ""  # those of another group
        assert excuse([*offsets(2), *missed(first=2, topic_id=OFFSETS[0])], line) == ""


def leads(epoch: int, start: int, high_watermark: int) -> Rows:
    """A broker becomes leader of the partition of the id, and has all below ``start``."""
    return [("broker-2", facts.BecameLeader(*STATE, epoch, 0, start, high_watermark, (1, 2)))]


def loads(epoch: int) -> Rows:
    return [("broker-2", facts.TransactionsLoaded(0, epoch, True))]


def commits(high_watermark: int) -> Rows:
    return [("broker-2", facts.HighWatermark(*STATE, 1, high_watermark, (1, 2), 1))]


def rests_on(before: Rows, after: Rows) -> Rows:
    """An open transaction, with rows before its first batch and rows behind that."""
    log = final((0, (100,), -1), (1, (101,), 7))
    return held([*COORDINATORS, *before, *OPEN, *polled(0, 100), *after, *log], 1)


TAIL: Rows = [*begun(), *leads(1, 5, 4), *loads(1)]


def test_a_transaction_that_only_an_uncommitted_record_told_is_ended_by_nobody() -> None:
    """TransactionStateManager.loadTransactionMetadata reads to the log end."""
    rows = rests_on(TAIL, leads(2, 4, 4))
    for line in (OPEN_LINE, LAG):
        assert excuse(rows, line) == UNCOMMITTED_LOAD
    assert excuse(rows, OPEN_LINE.replace("id 7", "id 8")) == ""
    part = rests_on([*begun(), *leads(1, 6, 4), *loads(1), *commits(5)], leads(2, 5, 5))
    assert excuse(part, OPEN_LINE) == UNCOMMITTED_LOAD


@pytest.mark.parametrize(
    ("before", "after"),
    [
        pytest.param(TAIL, leads(2, 5, 4), id="the next leader has the record"),
        pytest.param(TAIL, [], id="there is no next leader"),
        pytest.param(TAIL, [*commits(5), *leads(2, 4, 4)], id="it was committed"),
        pytest.param(TAIL, leads(2, 3, 3), id="committed records are lost with it"),
        pytest.param([*TAIL, *commits(5)], leads(2, 4, 4), id="it was committed before"),
        pytest.param([*TAIL, *ongoing()], leads(2, 4, 4), id="a committed one told, too"),
        pytest.param([*begun(), *leads(1, 5, 5), *loads(1)], leads(2, 4, 4), id="all is committed"),
        pytest.param([*begun(), *leads(1, 5, 4)], leads(2, 4, 4), id="it was not loaded"),
        pytest.param(TAIL, [*leads(2, 4, 4), *marker(2, False)], id="a marker has come"),
    ],
)
def test_what_another_record_tells_has_to_end(before: Rows, after: Rows) -> None:
    assert excuse(rests_on(before, after), OPEN_LINE) == ""
