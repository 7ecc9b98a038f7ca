"""Pure arithmetic of a quorum: majorities, the high watermark, who is up to date, backoffs.

Models the stateless halves of KafkaRaftClient, LeaderState.maybeUpdateHighWatermark and
EpochElection. Voters are a plain count: joint configurations (KIP-853) are not modelled.
"""

from __future__ import annotations

from collections.abc import Iterable

BACKOFF_BASE_MS = 100  # KafkaRaftClient.RETRY_BACKOFF_BASE_MS
MAX_DOUBLINGS = 21

PENDING = "pending"
WON = "won"
LOST = "lost"


def majority(voters: int) -> int:
    """Return how many of ``voters`` are a majority."""
    return voters // 2 + 1


def election_result(voters: int, granted: int, rejected: int) -> str:
    """Return WON, LOST or PENDING; LOST once the votes still open cannot make a majority."""
    assert granted + rejected <= voters, (voters, granted, rejected)
    if granted >= majority(voters):
        return WON
    if voters - rejected < majority(voters):
        return LOST
    return PENDING


def majority_offset(end_offsets: Iterable[int]) -> int:
    """Return the largest offset that a majority of the voters has reached."""
    descending = sorted(end_offsets, reverse=True)
    return descending[len(descending) // 2]


def is_up_to_date(last_epoch: int, last_offset: int, my_epoch: int, my_offset: int) -> bool:
    """Return whether a candidate's log reaches as far as mine: epoch first, then offset."""
    return (last_epoch, last_offset) >= (my_epoch, my_offset)


def election_backoff_ms(retries: int, draw: float, max_ms: int) -> int:
    """Return the wait after a lost election; ``draw`` is uniform in [0, 1)."""
    assert retries >= 1, retries
    span: int = 2 ** min(MAX_DOUBLINGS, retries)
    return min(max_ms, BACKOFF_BASE_MS * int(draw * span))


def successor_backoff_ms(successors: tuple[int, ...], voter: int, max_ms: int) -> int:
    """Return how long a voter waits after EndQuorumEpoch before it starts an election.

    The first of the preferred successors, and a voter they do not name, starts at once.
    """
    position = successors.index(voter) if voter in successors else 0
    if position == 0:
        return 0
    return min(max_ms, (max_ms >> (len(successors) - 1)) << (position - 1))


def preferred_successors(end_offsets: dict[int, int]) -> tuple[int, ...]:
    """Return the voters, the longest log first; at equal offsets the lower id first."""
    return tuple(sorted(end_offsets, key=lambda voter: (-end_offsets[voter], voter)))
