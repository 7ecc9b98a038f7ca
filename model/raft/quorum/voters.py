"""The voter sets of a replica's log: who votes, and since which offset (KIP-853).

Models VoterSetHistory and the voter half of KRaftControlRecordStateMachine. A voter's key is
(id, directory id); a voter of a static configuration (kraft.version 0) has the directory id "". The
first voters of a quorum that may change are named by the snapshot that kafka-storage format writes
(--initial-controllers), with the ids of their directories; here they are given. A VotersRecord
counts as soon as it is in the log, committed or not, and no longer once it is truncated. How a
leader changes the set is in :mod:`kafkasim.model.raft.leader.voter_changes`.

Left out: a change of kraft.version; endpoints other than one address; supported versions.
"""

from __future__ import annotations

from collections.abc import Callable

from kafkasim.model.facts import VotersChanged
from kafkasim.model.raft.context import RaftContext
from kafkasim.model.raft.quorum.election_state import NONE
from kafkasim.model.records import RecordBatch
from kafkasim.model.values import value


@value
class Voter:
    """One voter: its key and its address."""

    id: int
    directory_id: str
    address: str


@value
class VotersRecord:
    """The whole voter set; it stands alone in a control batch."""

    voters: tuple[Voter, ...]


class VoterSets:
    """The history of voter sets in the log, and what the latest one means for this replica.

    ``voters`` is voter id to address and is changed in place: the controller shares it.
    ``observer`` makes the replica an observer even if its id is a voter's (a broker in one process
    with a controller). ``others`` are the voters that it may ask: not itself. A controller that has
    lost its disk is no voter, but finds its id in the set, with the directory id that it had.
    """

    def __init__(
        self,
        context: RaftContext,
        voters: dict[int, str],
        observer: bool,
        on_change: Callable[[int], None],
    ) -> None:
        self._context = context
        self._observer = observer
        self._on_change = on_change
        self.voters = voters
        directories = context.voter_directories
        static = tuple([Voter(each, directories.get(each, ""), voters[each]) for each in voters])
        self._history: list[tuple[int, tuple[Voter, ...]]] = [(-1, static)]  # (offset, set)
        self.directories: dict[int, str] = {}  # voter -> directory id
        self.is_voter = False
        self.replica_id = NONE  # the id to fetch with; −1: an observer that no leader lists
        self.others: list[int] = []
        self._use(static)

    @property
    def latest(self) -> tuple[Voter, ...]:
        """The latest set in the log."""
        return self._history[-1][1]

    @property
    def latest_offset(self) -> int:
        """The offset of the latest VotersRecord; −1 for the static set."""
        return self._history[-1][0]

    def kraft_version(self) -> int:
        """Return 1 if the latest voters have directory ids (KIP-853), else 0.

        Left out: the KRaftVersionRecord. A broker sees 1 once a VotersRecord is in the log, which
        Kafka's first leader writes, and here the first change of the voters.
        """
        return int(any(voter.directory_id for voter in self.latest))

    def at(self, end_offset: int) -> tuple[Voter, ...] | None:
        """Return the set in force below ``end_offset``; None stands for the static set."""
        known = [voters for offset, voters in self._history[1:] if offset < end_offset]
        return known[-1] if known else None

    def appended(self, batch: RecordBatch, now: int) -> None:
        """Use a voter set as soon as its record is in the log. Other batches are ignored."""
        if not batch.control or type(batch.records[0].value) is not VotersRecord:
            return
        record: VotersRecord = batch.records[0].value
        self._history.append((batch.base_offset, record.voters))
        self._report()
        self._change(now)

    def truncated(self, end_offset: int, now: int) -> None:
        """Go back to the latest set below ``end_offset``, the new end of the log."""
        before = self.latest
        while self.latest_offset >= end_offset:
            self._history.pop()
        if self.latest != before:
            self._report()
            self._change(now)

    def loaded(self, end_offset: int, voters: tuple[Voter, ...] | None, now: int) -> None:
        """Use the set of a snapshot that ends at ``end_offset``; None stands for the static set."""
        del self._history[1:]
        if voters is not None:
            self._history.append((end_offset - 1, voters))
            self._report()
        self._change(now)

    def _report(self) -> None:
        """Put the set into the trace; nobody asks about that of a broker's observer."""
        if not self._observer:
            ids = tuple([voter.id for voter in self.latest])
            directory_ids = tuple([voter.directory_id for voter in self.latest])
            self._context.out.append(VotersChanged(self.latest_offset, ids, directory_ids))

    def _change(self, now: int) -> None:
        self._use(self.latest)
        self._on_change(now)

    def _use(self, voters: tuple[Voter, ...]) -> None:
        node_id = self._context.node_id
        self.voters.clear()
        self.voters.update({voter.id: voter.address for voter in voters})
        self.directories = {voter.id: voter.directory_id for voter in voters}
        own = self.directories.get(node_id)
        self.is_voter = not self._observer and own in ("", self._context.directory_id)
        self.replica_id = NONE if self._observer and node_id in self.voters else node_id
        self.others = [each for each in self.voters if self._observer or each != node_id]
