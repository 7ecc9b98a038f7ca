"""Transactions are seen whole or not at all, by committed readers and in the final logs (KIP-98).

What an application was told decides. A transaction that ended ``aborted``, or whose commit nobody
asked for, must not be seen (Jepsen's G1a); one that ended ``committed`` must be seen whole. After a
fencing or a crash both is right, but all its records have the same fate (G1c).
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass

from kafkasim.analysis.judging.finding import Finding
from kafkasim.analysis.judging.history.contents import ABORTED, COMMITTED, OPEN
from kafkasim.analysis.judging.history.footing import END, Spot
from kafkasim.analysis.judging.history.history import History
from kafkasim.analysis.judging.history.missed_markers import MISSED_MARKER, MissedMarkers
from kafkasim.analysis.judging.history.transactions import NEVER, Transaction
from kafkasim.analysis.judging.holes import Place
from kafkasim.analysis.judging.promise import FactSource, follow
from kafkasim.analysis.judging.source import PartitionKey
from kafkasim.model import facts
from kafkasim.model.facts import names

RISES = {"init": 1, "end": 1, "fence": 2, "timeout": 2}
"""By how much the reason of a record may raise the epoch of its producer id, at most.

InitProducerId gives the next epoch. The end of a transaction takes one under transaction.version 2
(KIP-890). A fence takes one more, however often its record failed before (KAFKA-9666).
"""

UNVERIFIED = "unverified-batch"
"""The hole of a leader that takes a late batch, as no release before KIP-890 asks a coordinator."""

LATE_BATCH = "late-batch"
"""The hole of a leader that takes a late batch in the next transaction of its producer.

Its epoch and its sequence are the expected ones, and the partition is verified (KAFKA.md, 4.4).
Under transaction.version 2 each transaction has an epoch of its own (KIP-890, part 2).
"""

Record = tuple[PartitionKey, int, int]
"""Partition, offset, record id"""

NOWHERE: PartitionKey = ("", -1)


class NeedlessEpochs:
    """needless-epoch: an epoch rises no faster than Kafka raises it: a producer id has 32767."""

    def __init__(self, trace: FactSource) -> None:
        self._held: dict[str, dict[str, tuple[int, int, int]]] = {}
        """By coordinator and id: its epoch as coordinator, the producer id and epoch told"""
        self._found: list[Finding] = []
        follow(trace, self)

    def on_TransactionsLoaded(
        self, _seq: int, _t: int, node: str, _fact: facts.TransactionsLoaded
    ) -> None:
        """Forget what a coordinator told: it finds epochs in the log, and does not tell them."""
        self._held.pop(node, None)

    def on_TransactionState(
        self, seq: int, t: int, node: str, fact: facts.TransactionState
    ) -> None:
        """Compare an epoch with the one before."""
        held = self._held.setdefault(node, {})
        known = (fact.coordinator_epoch, fact.producer_id, fact.producer_epoch)
        before = held.get(fact.transactional_id, known)
        held[fact.transactional_id] = known
        if before[:2] == known[:2] and known[2] - before[2] > RISES.get(fact.reason, 0):
            text = f"{node} raised the epoch of {fact.transactional_id} from {before[2]} to"
            text = f"{text} {known[2]} ({fact.reason})"
            self._found.append(Finding("needless-epoch", *NOWHERE, text, seq=seq, t_us=t))

    def finish(self) -> list[Finding]:
        """Return a finding for each epoch."""
        return self._found


@dataclass(slots=True)
class _Read:
    """A record of a transaction that a read_committed member got."""

    seq: int
    t_us: int
    record: Record
    group: str
    transaction: Transaction
    decided: int  # the last row in which the coordinator had decided to commit for this id
    missed: str  # why a replica may have had it as committed, though it was aborted


class Atomicity:
    """aborted-read, precommitted-read, zombie-producer, hanging-transaction, torn-transaction."""

    def __init__(self, trace: FactSource, history: History) -> None:
        self._contents = history.contents
        self._history = history.transactions
        self._footing = history.footing
        self._holes = history.holes
        self._missed = MissedMarkers(trace, history.contents)
        self._reads: list[_Read] = []
        self._committed: dict[tuple[str, str, int], int] = {}  # the highest offset of a group
        self._left_open: Mapping[PartitionKey, int] = {}
        self._stall = ""
        self._found: list[Finding] = []
        follow(trace, self)

    def learn_stall(self, left_open: Mapping[PartitionKey, int], reason: str) -> None:
        """Take from where on partitions have an open transaction in a stalled run, and why."""
        self._left_open, self._stall = left_open, reason

    # Following.

    def on_Polled(self, seq: int, t: int, node: str, fact: facts.Polled) -> None:
        """Take the records that a reader of committed records got."""
        history = self._history
        if not history.ids or not self._contents.reads_committed(node, fact.group):
            return
        key = (fact.topic_id, fact.partition)
        for offset, record_id in zip(fact.offsets, fact.record_ids):
            transaction = history.transaction_at(key, offset, record_id)
            if transaction is not None:
                decided = history.decided.get(transaction.transactional_id, -1)
                self._reads.append(
                    _Read(seq, t, (key, offset, record_id), fact.group, transaction,
                          max(history.loaded, decided), self._missed.excuse(key, offset))
                )  # fmt: skip

    def on_OffsetCommitted(
        self, _seq: int, _t: int, _node: str, fact: facts.OffsetCommitted
    ) -> None:
        """Take a commit."""
        self._commit(fact)

    def on_FinalOffset(self, _seq: int, _t: int, _node: str, fact: facts.FinalOffset) -> None:
        """Reckon with commits that a coordinator has found in its log and does not tell again."""
        self._commit(fact)

    def _commit(self, fact: facts.OffsetCommitted | facts.FinalOffset) -> None:
        place = (fact.group, fact.topic, fact.partition)
        self._committed[place] = max(fact.offset, self._committed.get(place, -1))

    # Judging.

    def finish(self) -> list[Finding]:
        """Return a finding for each record or transaction."""
        self._judge_reads()
        self._judge_owners()
        fates = self._judge_logs()
        for transaction in self._history.transactions:
            self._judge_fate(transaction, fates.get(transaction.begun, {}))
        return self._found

    def _judge_reads(self) -> None:
        for read in self._reads:
            transaction, (_, offset, record_id) = read.transaction, read.record
            if transaction.outcome == "aborted" or transaction.commit_asked == NEVER:
                name, what = "aborted-read", "did not commit"
            elif not transaction.commit_asked < read.decided:
                name, what = "precommitted-read", "had not committed"
            else:
                continue
            text = f"group {read.group} got {names.record(record_id)} at offset {offset}, but"
            self._note(
                name, read.record, f"{text} {transaction.name} {what}", transaction,
                self._behind(transaction, [read.record], read.seq), read.missed, read.group,
                read.seq, read.t_us,
            )  # fmt: skip

    def _judge_owners(self) -> None:
        """Find two producers of one transactional id that work under one epoch, or both commit."""
        owners: dict[tuple[int, int], Transaction] = {}
        newest: dict[str, Transaction] = {}
        for transaction in self._history.transactions:
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
        text = (
            f"{zombie.name} and {owner.name} have producer id {zombie.producer_id}, epochs"
            f" {zombie.producer_epoch} and {owner.producer_epoch}"
        )
        spots = [self._epoch_given(owner, zombie)]
        self._note("zombie-producer", (NOWHERE, -1, -1), text, zombie, spots, seq=zombie.begun)

    def _epoch_given(self, one: Transaction, other: Transaction) -> Spot:
        """Return what the coordinator knew of two epochs: one that it forgets is given again.

        A broker may then take the records of the second producer for those of the first.
        """
        id_ = one.transactional_id
        since = [
            self._history.epoch_since(id_, each.producer_id, each.producer_epoch)
            for each in (one, other)
        ]
        return self._footing.of_id(id_, min(since), other.ended)

    def _judge_logs(self) -> dict[int, dict[str, list[Record]]]:
        """Judge what final logs hold; return by begin and state the records of transactions."""
        fates: dict[int, dict[str, list[Record]]] = {}
        for key in sorted(self._contents.leaders):
            start = self._contents.leaders[key].log_start_offset
            for offset, record_id, state in self._contents.states(key):
                transaction = self._history.transaction_at(key, offset, record_id)
                if transaction is None or offset < start:
                    continue
                record = (key, offset, record_id)
                if state == COMMITTED and self._missed.excuse(key, offset):
                    state = MISSED_MARKER
                fates.setdefault(transaction.begun, {}).setdefault(state, []).append(record)
                if state == OPEN:
                    text = f"{transaction.name} is open at offset {offset}"
                    spots = self._behind(transaction, [record])
                    why = self._stall if self._left_open.get(key, END) <= offset else ""
                    self._note("hanging-transaction", record, text, transaction, spots, why)
        return fates

    def _judge_fate(self, transaction: Transaction, fate: dict[str, list[Record]]) -> None:
        """Find a transaction of which a part is readable and a part is not."""
        committed = transaction.outcome == "committed"
        if committed:
            held = {(key, record_id) for each in fate.values() for key, _, record_id in each}
            self._judge_records(transaction, held)
            self._judge_offsets(transaction)
        first = {state: min(records) for state, records in fate.items()}
        spots = self._behind(transaction, first.values())
        shown = next((each for each in (COMMITTED, MISSED_MARKER) if each in first), "")
        if ABORTED in first and (committed or COMMITTED in first):
            record = first[ABORTED]
            others = "others are committed" if COMMITTED in first else "it had committed"
            text = f"{names.record(record[2])} at offset {record[1]} is aborted, {others}"
        elif transaction.outcome == "aborted" and shown:
            record = first[shown]
            text = f"it aborted, but {names.record(record[2])} at offset {record[1]} is committed"
        else:
            return
        why = MISSED_MARKER if shown == MISSED_MARKER else ""
        for each in (*fate.get(COMMITTED, ()), *fate.get(ABORTED, ())):
            why = why or self._late(each, transaction)
        told = f"{transaction.name}: {text}"
        self._note("torn-transaction", record, told, transaction, spots, why)

    def _judge_records(self, transaction: Transaction, held: set[tuple[PartitionKey, int]]) -> None:
        """Find records of a committed transaction that the logs have not."""
        for key, record_id in transaction.records:
            leader = self._contents.leaders.get(key)
            if leader is None or leader.log_start_offset or (key, record_id) in held:
                continue
            places = self._history.appended(transaction, key, record_id)
            if any(self._contents.was_removed_at(key, at) for at, _ in places):
                continue
            text = f"{transaction.name} committed without {names.record(record_id)}"
            spots = [Spot(key, at, at + 1, row) for at, row in places]
            spots.append(self._epoch_given(transaction, transaction))
            self._note("torn-transaction", (key, -1, record_id), text, transaction, spots)

    def _judge_offsets(self, transaction: Transaction) -> None:
        """Find offsets of a committed transaction that the group has not."""
        told = self._history.told.get(transaction.transactional_id, [])
        states = [state for seq, state in told if seq > transaction.commit_asked]
        if states == ["PrepareCommit"]:
            return  # its markers may be under way
        for (group, topic, partition), offset in transaction.offsets.items():
            if self._committed.get((group, topic, partition), -1) >= offset:
                continue
            text = f"{transaction.name} committed without offset {offset} of {group} in"
            spots = [
                self._footing.of_group(group, transaction.begun),
                self._footing.of_id(transaction.transactional_id, transaction.begun),
            ]
            self._note(
                "torn-transaction", (NOWHERE, -1, -1), f"{text} {topic}-{partition}", transaction,
                spots, group=group,
            )  # fmt: skip

    # What a finding rests on.

    def _behind(
        self, transaction: Transaction, records: Iterable[Record], before: int = END
    ) -> list[Spot]:
        """Return what decides the fate of records: the markers behind them, and the coordinator.

        A record whose marker is lost falls to the next marker of its producer.
        """
        begun = transaction.begun
        spots = [Spot(key, offset, after=begun, before=before) for key, offset, _ in records]
        return [*spots, self._footing.of_id(transaction.transactional_id, begun, before)]

    def _late(self, record: Record, transaction: Transaction) -> str:
        """Return why a leader may have appended a record behind its transaction, or "".

        Its batch failed with an unknown outcome, and was under way when its transaction ended.
        """
        key, offset, record_id = record
        if (key, record_id) not in self._history.unanswered:
            return ""
        if (key, offset) in self._history.late:
            return LATE_BATCH
        skipped = (key, transaction.producer_id) in self._history.unverified
        return UNVERIFIED if skipped else ""

    def _note(
        self,
        name: str,
        record: Record,
        text: str,
        transaction: Transaction,
        spots: Iterable[Spot],
        why: str = "",
        group: str = "",
        seq: int = -1,
        t_us: int = -1,
    ) -> None:
        key, offset, record_id = record
        place = Place(*key, producer_id=transaction.producer_id)
        excuse = (
            self._footing.lost(spots)
            or why
            or self._late(record, transaction)
            or self._holes.covering(name, place, seq)
        )
        self._found.append(
            Finding(name, *key, text, 1, excuse, offset, record_id, group, seq, t_us)
        )


def _same_owner(one: Transaction, other: Transaction) -> bool:
    return (one.node, one.owner) == (other.node, other.owner)
