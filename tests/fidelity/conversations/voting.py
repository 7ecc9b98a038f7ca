"""What replicas of the metadata log ask its leader: votes, news of epochs, records, snapshots.

Node 101, which is in no voter set, asks them. Only ``resigning`` makes the leader of an
epoch resign. It comes first, since epochs before the first one have no answers of their own.
"""

from __future__ import annotations

from collections.abc import Callable

from kafkasim.model import messages as m
from tests.fidelity.conversations.talk import NOBODY, Talk
from tests.fidelity.real_kafka import CONTROLLER

STRANGER = 101
DIRECTORY = "DAAAAAAAAAAAAAAAAAAAAw"
"""The directory of node 101."""

FAR = 1 << 40
"""An offset that no log here reaches."""


def _epoch(talk: Talk) -> int:
    return int(talk.side.ask(CONTROLLER, m.DescribeQuorumRequest()).leader_epoch)


def voting(talk: Talk) -> None:
    now = _epoch(talk)

    def vote(
        epoch: int, candidate: int = STRANGER, last: int = 0, end: int = FAR, *,
        pre: bool = False, voter: str = "",
    ) -> m.VoteRequest:  # fmt: skip
        return m.VoteRequest(epoch, candidate, last, end, pre, DIRECTORY, voter)

    def ask(what: str, message: m.Message) -> None:
        talk.ask(what, message, CONTROLLER)

    ask("in an old epoch", vote(now - 1, last=now - 2))
    ask("in an old epoch with last records of it", vote(now - 1, last=now - 1))
    ask("in its epoch", vote(now))
    ask("in its epoch, behind it", vote(now, end=0))
    ask("in its epoch with last records of it", vote(now, last=now))
    ask("with last records of epoch -1", vote(now, last=-1))
    ask("with a log that ends at -1", vote(now, end=-1))
    ask("of a negative candidate", vote(now, -1))
    ask("of itself", vote(now, CONTROLLER))
    ask("of another directory", vote(now, voter=NOBODY))
    ask("of another directory in an old epoch", vote(now - 1, last=now - 2, voter=NOBODY))
    ask("before a vote", vote(now, last=now, pre=True))
    ask("before a vote, in an old epoch", vote(now - 1, last=now - 1, pre=True))
    ask("before a vote, with last records to come", vote(now, last=now + 1, pre=True))
    ask("before a vote of another directory", vote(now, last=now, pre=True, voter=NOBODY))
    begin = m.BeginQuorumEpochRequest
    ask("an old epoch begins", begin(STRANGER, now - 1))
    ask("its epoch begins with nobody", begin(-1, now))
    ask("an old epoch begins with nobody", begin(-1, now - 1))
    ask("an old epoch begins, another directory", begin(STRANGER, now - 1, "", NOBODY))
    ask("its epoch begins with itself", begin(CONTROLLER, now))
    ask("its epoch begins with itself, another directory", begin(CONTROLLER, now, "", NOBODY))
    end = m.EndQuorumEpochRequest
    ask("an old epoch ends", end(STRANGER, now - 1, (CONTROLLER,)))
    ask("its epoch ends with nobody", end(-1, now, (CONTROLLER,)))
    ask("its epoch ends with itself", end(CONTROLLER, now, (CONTROLLER,)))


def replicating(talk: Talk) -> None:
    now = _epoch(talk)

    def fetch(
        epoch: int, offset: int = 0, last: int = 0, replica: int = STRANGER, wait: int = 0
    ) -> m.RaftFetchRequest:
        return m.RaftFetchRequest(
            replica, epoch, offset, last, wait, replica_directory_id=DIRECTORY
        )

    def ask(what: str, message: m.Message) -> None:
        talk.ask(what, message, CONTROLLER)

    for _ in range(60):
        found = talk.side.ask(CONTROLLER, fetch(now, 1, 0))
        if found.snapshot_id is not None:
            break
        talk.side.settle(0.5)
    ask("records", fetch(now))
    ask("records of an old epoch's leader", fetch(now - 1))
    ask("records of a coming epoch's leader", fetch(now + 1))
    ask("records beyond the end", fetch(now, FAR, now))
    ask("records of a coming epoch", fetch(now, 1, now + 1))
    ask("records for nobody", fetch(now, replica=-1))
    ask("records after an epoch before the snapshot", fetch(now, 1, 0))
    snapshot = found.snapshot_id or (0, 0)

    def chunk(
        epoch: int, position: int = 0, of: tuple[int, int] = snapshot, size: int = 1 << 20
    ) -> m.FetchSnapshotRequest:
        return m.FetchSnapshotRequest(STRANGER, epoch, of, position, size, DIRECTORY)

    ask("a snapshot", chunk(now))
    ask("a snapshot of an old epoch's leader", chunk(now - 1))
    ask("a snapshot of a coming epoch's leader", chunk(now + 1))
    ask("a snapshot that is none", chunk(now, of=(FAR, now)))
    ask("a snapshot of another epoch", chunk(now, of=(snapshot[0], now + 1)))
    ask("the snapshot that formatting makes", chunk(now, of=(0, 0)))
    ask("a snapshot beyond its end", chunk(now, FAR))
    ask("a snapshot before its start", chunk(now, -1))
    ask("a snapshot that is none, beyond its end", chunk(now, FAR, (FAR, now)))


def versions(talk: Talk) -> None:
    talk.ask("of a broker", m.ApiVersionsRequest())
    talk.ask("of the controller", m.ApiVersionsRequest(), CONTROLLER)


def resigning(talk: Talk) -> None:
    """Tell the leader of higher epochs, in which it is elected again."""

    def ask(what: str, message: m.Message) -> None:
        talk.ask(what, message, CONTROLLER)

    def settle() -> int:
        for _ in range(60):
            talk.side.settle(0.5)
            told = talk.side.ask(CONTROLLER, m.DescribeQuorumRequest())
            if told.leader_id == CONTROLLER:
                return int(told.leader_epoch)
        raise AssertionError("the only voter is not elected")

    now = settle()
    behind = m.VoteRequest(now + 1, STRANGER, 0, 0, False, DIRECTORY)
    ask("a vote in a coming epoch, behind it", behind)
    now = settle()
    meant = m.VoteRequest(now + 1, STRANGER, 0, FAR, False, DIRECTORY, NOBODY)
    ask("a vote of another directory in a coming epoch", meant)
    now = settle()
    pre = m.VoteRequest(now + 1, STRANGER, now, FAR, True, DIRECTORY)
    ask("before a vote in a coming epoch", pre)
    now = settle()
    ask("a vote in a coming epoch", m.VoteRequest(now + 1, STRANGER, now, FAR, False, DIRECTORY))
    settle()


CONVERSATIONS: dict[str, Callable[[Talk], None]] = {
    "api versions": versions,
    "resigning": resigning,
    "voting": voting,
    "replicating": replicating,
}
