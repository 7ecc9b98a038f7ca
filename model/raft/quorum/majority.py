"""The arithmetic of a quorum: majorities, the high watermark, log comparison, backoffs.

Pure functions. They model the stateless halves of KafkaRaftClient, of EpochElection and of
LeaderState.maybeUpdateHighWatermark. A voter set is a count here: one voter changes at a time
(KIP-853), so there are no joint configurations.
"""

from __future__ import annotations

from collections.abc import Iterable
from enum import Enum

BACKOFF_BASE_MS = 100  # KafkaRaftClient.RETRY_BACKOFF_BASE_MS
MAX_DOUBLINGS = 21


class ElectionResult(Enum):
    """How an election stands."""

    PENDING = "pending"
    WON = "won"
    LOST = "lost"


def majority(voters: int) -> int:
    """Return how many of ``voters`` are a majority."""
    return voters // 2 + 1


def election_result(voters: int, granted: int, rejected: int) -> ElectionResult:
    """Return how an election stands; it is lost once the open votes cannot make a majority."""
    assert granted + rejected <= voters, (voters, granted, rejected)
    if granted >= majority(voters):
        return ElectionResult.WON
    if voters - rejected < majority(voters):
        return ElectionResult.LOST
    return ElectionResult.PENDING


def majority_offset(end_offsets: Iterable[int]) -> int:
    """Return the largest offset that a majority of the voters has reached.

    ``end_offsets`` has one entry for each voter.
    """
    descending = sorted(end_offsets, reverse=True)
    return descending[len(descending) // 2]


def is_up_to_date(last_epoch: int, last_offset: int, my_epoch: int, my_offset: int) -> bool:
    """Return whether a candidate's log is at least as up to date as mine: epoch, then offset."""
    return (last_epoch, last_offset) >= (my_epoch, my_offset)


def election_backoff_ms(retries: int, draw: float, max_ms: int) -> int:
    """Return the wait after a lost election; ``draw`` is uniform in [0, 1), ``retries`` ≥ 1."""
    assert retries >= 1, retries
    span: int = 2 ** min(MAX_DOUBLINGS, retries)
    return min(max_ms, BACKOFF_BASE_MS * int(draw * span))


def successor_backoff_ms(successors: tuple[int, ...], voter: int, max_ms: int) -> int:
    """Return how long a voter waits after EndQuorumEpoch before it starts an election.

    The first of the preferred successors starts at once; a voter that is not among them waits for
    as long as any may. A leader that has resigned with its restart prefers nobody, and all start.
    """
    if not successors or voter == successors[0]:
        return 0
    if voter not in successors:
        return max_ms
    position = successors.index(voter)
    return min(max_ms, (max_ms >> (len(successors) - 1)) << (position - 1))


def preferred_successors(end_offsets: dict[int, int]) -> tuple[int, ...]:
    """Return the voters in the order in which a resigning leader prefers them: the longest log
    first, at equal offsets the lower id first."""
    return tuple(sorted(end_offsets, key=lambda voter: (-end_offsets[voter], voter)))
