"""The anomalies of transactions, as read_committed readers and processors see them.

What an application was told decides: a transaction that ended ``aborted``, or whose commit nobody
asked for, must not be seen; one that ended ``committed`` must be seen whole. After a fencing or a
crash both is right, but all its records have the same fate (Jepsen's G1a, G1c). README.md of
``judging`` has the list.
"""

from __future__ import annotations

from collections.abc import Container, Iterable
from dataclasses import dataclass, field

from kafkasim.analysis.judging.copies.missed_markers import (
    MISSED_MARKER,
    MissedMarkers,
)
from kafkasim.analysis.judging.finding import Finding
from kafkasim.analysis.judging.promise import FactSource
from kafkasim.analysis.judging.source import Losses, PartitionKey
from kafkasim.analysis.judging.transactions.footing import END, Footing, Spot
from kafkasim.analysis.judging.transactions.holes import Holes
from kafkasim.analysis.judging.transactions.known.given_again import GivenBack
from kafkasim.analysis.judging.transactions.known.late_batches import LATE_BATCH, LateBatches
from kafkasim.analysis.judging.transactions.known.late_ends import LateEnds
from kafkasim.analysis.judging.transactions.known.left_open import LeftOpen
from kafkasim.analysis.judging.transactions.known.skipped_markers import SkippedMarkers
from kafkasim.analysis.judging.transactions.known.unlisted import UnlistedIds
from kafkasim.analysis.judging.transactions.known.unverified import UNVERIFIED, UnverifiedBatches
from kafkasim.analysis.judging.transactions.ledger import NEVER, Ledger, Transaction
from kafkasim.analysis.judging.transactions.outputs import Outputs
from kafkasim.analysis.judging.transactions.placed import ABORTED, COMMITTED, OPEN, Placed
from kafkasim.model import facts

DECIDED = ("PrepareCommit", "CompleteCommit")
"""States of a coordinator in which a transaction is committed for good."""


RISES = {"init": 1, "end": 1, "fence": 2, "timeout": 2}
"""By how much the reason of a record may raise the epoch of its producer id, at most.

InitProducerId gives the next epoch. The end of a transaction takes one under transaction.version 2
(KIP-890). A fence takes one more, however often its record failed before (KAFKA-9666).
"""


@dataclass(slots=True)
class _Read:
    """A record of a transaction that a read_committed member got."""

    seq: int
    key: PartitionKey
    offset: int
    record_id: int
    group: str
    transaction: Transaction
    decided: int  # the last row in which the coordinator had decided to commit for this id
    missed: str  # why a replica may have had it as committed, though it was aborted


@dataclass(slots=True)
class _Found:
    """The occurrences of one anomaly in one partition."""

    detail: str
    offset: int
    record_id: int
    group: str
    seq: int
    count: int = field(default=0)


class Transactions:
    """Follows one run; :meth:`finish` returns its anomalies."""

    def __init__(
        self,
        trace: FactSource,
        holes: Holes,
        losses: Losses,
        given_back: GivenBack,
        retention_us: int,
    ) -> None:
        self._trace = trace
        self._holes = holes
        self._footing = Footing(trace, losses)
        self._given_back = given_back
        self._late_ends = LateEnds(trace)
        self._late_batches = LateBatches(trace)
        self._unverified = UnverifiedBatches(trace)
        self._missed_markers = MissedMarkers(trace, holes)
        self._skipped_markers = SkippedMarkers(trace)
        self.left_open = LeftOpen()
        self._unlisted = UnlistedIds(trace, lambda id_: self._footing.of_id(id_, -1).key)
        self._ledger = Ledger(trace)
        self._placed = Placed(trace, self._ledger, holes)
        self._outputs = Outputs(
            trace, self._ledger, self._footing, given_back, self._unverified, retention_us
        )
        self._committed_readers: dict[tuple[str, str], None] = {}  # by node and group
        self._decided: dict[str, int] = {}  # transactional id -> the row of its last commit
        self._told: dict[str, list[tuple[int, str]]] = {}  # id -> its states, with their rows
        self._epochs: dict[tuple[str, int, int], int] = {}  # (id, producer id, epoch) -> first row
        # By coordinator, and then by id: its epoch as coordinator, the producer id and epoch told.
        self._held: dict[str, dict[str, tuple[int, int, int]]] = {}
        self._needless: list[tuple[int, str]] = []  # rows with an epoch too high, and what it was
        self._loaded = -1  # the last row in which a coordinator began with the log of another
        self._reads: list[_Read] = []
        self._committed: dict[tuple[str, str, int], int] = {}  # the highest offset of a group
        self._found: dict[tuple[str, PartitionKey, str], _Found] = {}
        trace.subscribe(facts.ReadsCommitted, self._on_reader)
        trace.subscribe(facts.TransactionState, self._on_state)
        trace.subscribe(facts.TransactionsLoaded, self._on_loaded)
        trace.subscribe(facts.OffsetCommitted, self._on_committed)
        trace.subscribe(facts.FinalOffset, self._on_final_offset)

    def finish(self) -> list[Finding]:
        """Return the anomalies, sorted by name and partition."""
        if not (self._ledger.transactions or self._outputs.processors or self._needless):
            return []
        for row, what in self._needless:
            self._note("needless-epoch", ("", -1), what, -1, -1, seq=row)
        self._judge_reads()
        self._judge_owners()
        visible = self._judge_logs()
        for name, key, detail, offset, record_id, group, spots, why in self._outputs.judge(visible):
            self._note(name, key, detail, offset, record_id, group, spots=spots, why=why)
        return [
            Finding(
                name,
                *key,
                found.detail,
                found.count,
                excuse,
                found.offset,
                found.record_id,
                found.group,
                found.seq,
            )
            for (name, key, excuse), found in sorted(self._found.items(), key=lambda item: item[0])
        ]

    # Following.

    def _on_reader(self, _seq: int, _t: int, node: str, fact: facts.ReadsCommitted) -> None:
        if not self._committed_readers:
            self._trace.subscribe(facts.Polled, self._on_polled)
        self._committed_readers[node, fact.group] = None

    def _on_state(self, seq: int, _t: int, node: str, fact: facts.TransactionState) -> None:
        self._check_epoch(seq, node, fact)
        if fact.state in DECIDED:
            self._decided[fact.transactional_id] = seq
        self._told.setdefault(fact.transactional_id, []).append((seq, fact.state))
        producer = (fact.transactional_id, fact.producer_id, fact.producer_epoch)
        self._epochs.setdefault(producer, seq)

    def _check_epoch(self, seq: int, node: str, fact: facts.TransactionState) -> None:
        """An epoch rises no faster than Kafka raises it: a producer id has 32767 of them."""
        held = self._held.setdefault(node, {})
        known = (fact.coordinator_epoch, fact.producer_id, fact.producer_epoch)
        before = held.get(fact.transactional_id, known)
        held[fact.transactional_id] = known
        rise = fact.producer_epoch - before[2]
        if before[:2] == known[:2] and rise > RISES.get(fact.reason, 0):
            what = f"{node} raised the epoch of {fact.transactional_id} from {before[2]} to"
            self._needless.append((seq, f"{what} {fact.producer_epoch} ({fact.reason})"))

    def _on_loaded(self, seq: int, _t: int, node: str, fact: facts.TransactionsLoaded) -> None:
        """Reckon with what a coordinator finds in the log, and does not tell again."""
        self._held.pop(node, None)
        if fact.loaded:
            self._loaded = seq

    def _on_polled(self, seq: int, _t: int, node: str, fact: facts.Polled) -> None:
        if (node, fact.group) not in self._committed_readers:
            return
        key = (fact.topic_id, fact.partition)
        for offset, record_id in zip(fact.offsets, fact.record_ids):
            transaction = self._placed.transaction_at(key, offset, record_id)
            if transaction is not None:
                decided = max(self._loaded, self._decided.get(transaction.transactional_id, -1))
                missed = self._missed_markers.excuse(key, offset)
                self._reads.append(
                    _Read(seq, key, offset, record_id, fact.group, transaction, decided, missed)
                )

    def _on_committed(self, _seq: int, _t: int, _node: str, fact: facts.OffsetCommitted) -> None:
        place = (fact.group, fact.topic, fact.partition)
        self._committed[place] = max(fact.offset, self._committed.get(place, -1))

    def _on_final_offset(self, _seq: int, _t: int, _node: str, fact: facts.FinalOffset) -> None:
        """Reckon with commits that a coordinator has found in its log and does not tell again."""
        place = (fact.group, fact.topic, fact.partition)
        self._committed[place] = max(fact.offset, self._committed.get(place, -1))

    # Judging.

    def _judge_reads(self) -> None:
        for read in self._reads:
            transaction = read.transaction
            if transaction.outcome == "aborted" or transaction.commit_asked == NEVER:
                name, what = "aborted-read", "did not commit"
            elif not transaction.commit_asked < read.decided:
                name, what = "precommitted-read", "had not committed"
            else:
                continue
            begun = transaction.begun
            self._note(
                name,
                read.key,
                f"group {read.group} got record {read.record_id} at offset {read.offset}, but"
                f" {transaction.name} {what}",
                read.offset,
                read.record_id,
                read.group,
                read.seq,
                self._behind(transaction, [(read.key, read.offset, read.record_id)], read.seq),
                self._late_ends.excuse(begun, read.seq)
                or self._late(begun, read.key, read.offset, read.seq)
                or read.missed,
            )

    def _late(self, begun: int, key: PartitionKey, offset: int, seq: int = END) -> str:
        """Return why a leader appended a record behind its transaction, before ``seq``, or ""."""
        known = self._late_batches.excuse(begun, key, offset, seq)
        return known or self._unverified.excuse(begun, key, offset, seq)

    def _judge_owners(self) -> None:
        """Find two producers of one transactional id that work under one epoch, or both commit."""
        owners: dict[tuple[int, int], Transaction] = {}
        newest: dict[str, Transaction] = {}
        for transaction in self._ledger.transactions:
            producer = (transaction.producer_id, transaction.producer_epoch)
            other = owners.setdefault(producer, transaction)
            if not _same_owner(other, transaction):
                self._note_owner(other, transaction)
            before = newest.get(transaction.transactional_id)
            newest[transaction.transactional_id] = transaction
            if before is not None and not _same_owner(before, transaction):
                if before.outcome == "committed" and transaction.begun < before.commit_asked:
                    self._note_owner(transaction, before)

    def _note_owner(self, owner: Transaction, zombie: Transaction) -> None:
        detail = (
            f"{zombie.name} and {owner.name} have producer id {zombie.producer_id}, epochs"
            f" {zombie.producer_epoch} and {owner.producer_epoch}"
        )
        spots = [self._epoch_given(owner, zombie)]
        self._note("zombie-producer", ("", -1), detail, -1, -1, "", zombie.begun, spots)

    def _epoch_given(self, one: Transaction, other: Transaction) -> Spot:
        """Return what the coordinator knew of two epochs: one that it forgets is given again.

        A broker may then take the records of the second producer for those of the first.
        """
        id_ = one.transactional_id
        since = min(self._epochs.get((id_, *each.producer), -1) for each in (one, other))
        return self._footing.of_id(id_, since, other.ended)

    def _judge_logs(self) -> dict[PartitionKey, dict[int, int]]:
        """Judge what the final logs hold; return their readable records, ids by offset."""
        fates: dict[int, dict[str, tuple[PartitionKey, int, int]]] = {}  # by row of the begin
        held: dict[int, dict[tuple[PartitionKey, int], None]] = {}
        visible: dict[PartitionKey, dict[int, int]] = {}
        for key in sorted(self._placed.leaders):
            seen = visible.setdefault(key, {})
            for offset, record_id, state in self._placed.states(key):
                if state == COMMITTED:
                    seen[offset] = record_id
                transaction = self._placed.transaction_at(key, offset, record_id)
                if transaction is None:
                    continue
                if state == COMMITTED:
                    why = self._late(transaction.begun, key, offset)
                    state = why or self._missed_markers.excuse(key, offset) or state
                fate = fates.setdefault(transaction.begun, {})
                fate[state] = min(
                    fate.get(state, (key, offset, record_id)), (key, offset, record_id)
                )
                held.setdefault(transaction.begun, {})[(key, record_id)] = None
                if state == OPEN:
                    self._note(
                        "hanging-transaction",
                        key,
                        f"{transaction.name} is open at offset {offset}",
                        offset,
                        record_id,
                        spots=self._behind(transaction, [(key, offset, record_id)]),
                        why=self._skipped_markers.excuse(transaction.begun, key)
                        or self._unverified.excuse(transaction.begun, key, offset)
                        or self.left_open.excuse(key, offset),
                    )
        for transaction in self._ledger.transactions:
            fate = fates.get(transaction.begun, {})
            self._judge_fate(transaction, fate, held.get(transaction.begun, {}))
        return visible

    def _judge_fate(
        self,
        transaction: Transaction,
        fate: dict[str, tuple[PartitionKey, int, int]],
        held: dict[tuple[PartitionKey, int], None],
    ) -> None:
        """Find a transaction of which a part is readable and a part is not."""
        late = self._late_ends.excuse(transaction.begun)
        if transaction.outcome == "committed":
            for key, record_id in transaction.records:
                leader = self._placed.leaders.get(key)
                if leader is None or leader.log_start_offset or (key, record_id) in held:
                    continue
                detail = f"{transaction.name} committed without record {record_id}"
                places = self._placed.appended(transaction, key, record_id)
                if any(self._holes.was_removed_at(key, at) for at, _ in places):
                    continue
                spots = [Spot(key, at, at + 1, row) for at, row in places]
                spots.append(self._epoch_given(transaction, transaction))
                why = self._given_back.excuse(key, record_id, transaction.begun) or late
                self._note("torn-transaction", key, detail, -1, record_id, spots=spots, why=why)
            completing = self._is_completing(transaction)
            for place, offset in transaction.offsets.items():
                if not completing and self._committed.get(place, -1) < offset:
                    group, topic, partition = place
                    detail = f"{transaction.name} committed without offset {offset} of {group} in"
                    detail += f" {topic}-{partition}"
                    spots = [
                        self._footing.of_group(group, transaction.begun),
                        self._footing.of_id(transaction.transactional_id, transaction.begun),
                    ]
                    self._note(
                        "torn-transaction", ("", -1), detail, -1, -1, group, spots=spots, why=late
                    )
        parts = [COMMITTED, ABORTED] if transaction.outcome != "committed" else [ABORTED]
        spots = self._behind(transaction, fate.values())
        if all(part in fate for part in parts):
            key, offset, record_id = fate[ABORTED]
            detail = f"{transaction.name}: record {record_id} at offset {offset} is aborted"
            others = "others are committed" if COMMITTED in fate else "it had committed"
            detail = f"{detail}, {others}"
            why = late or self._unlisted.excuse(transaction.producer_id, key, offset)
            self._note("torn-transaction", key, detail, offset, record_id, spots=spots, why=why)
        elif transaction.outcome == "aborted" and (shown := _shown(fate)):
            late = late if shown == COMMITTED else shown
            key, offset, record_id = fate[shown]
            detail = f"{transaction.name} aborted, but record {record_id} at offset {offset} is"
            detail += " committed"
            self._note("torn-transaction", key, detail, offset, record_id, spots=spots, why=late)

    def _behind(
        self,
        transaction: Transaction,
        places: Iterable[tuple[PartitionKey, int, int]],
        before: int = END,
    ) -> list[Spot]:
        """Return what decides the fate of records: the markers behind them, and the coordinator.

        A record whose marker is lost falls to the next marker of its producer.
        """
        begun = transaction.begun
        spots = [Spot(key, offset, after=begun, before=before) for key, offset, _ in places]
        return [*spots, self._footing.of_id(transaction.transactional_id, begun, before)]

    def _is_completing(self, transaction: Transaction) -> bool:
        """Return whether its commit is decided and its markers may be under way."""
        told = self._told.get(transaction.transactional_id, [])
        return [state for seq, state in told if seq > transaction.commit_asked] == ["PrepareCommit"]

    def _note(
        self,
        name: str,
        key: PartitionKey,
        detail: str,
        offset: int,
        record_id: int,
        group: str = "",
        seq: int = -1,
        spots: Iterable[Spot] = (),
        why: str = "",
    ) -> None:
        excuse = self._footing.lost(spots) or why
        found = self._found.setdefault(
            (name, key, excuse), _Found(detail, offset, record_id, group, seq)
        )
        found.count += 1


def _shown(fate: Container[str]) -> str:
    """Return how the final logs have a record of an aborted transaction as committed, or ""."""
    ways = (COMMITTED, LATE_BATCH, UNVERIFIED, MISSED_MARKER)
    return next((each for each in ways if each in fate), "")


def _same_owner(one: Transaction, other: Transaction) -> bool:
    return (one.node, one.owner) == (other.node, other.owner)
