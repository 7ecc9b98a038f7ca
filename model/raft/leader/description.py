"""What a leader says of its quorum (DescribeQuorum; LeaderState.describeQuorum)."""

from __future__ import annotations

from kafkasim.model.errors import Errors
from kafkasim.model.messages import DescribeQuorumResponse, QuorumReplica
from kafkasim.model.raft.quorum.states import Leader
from kafkasim.model.raft.quorum.voters import Voter

OBSERVER_SESSION_US = 300_000_000


def describe(
    role: Leader, node_id: int, voters: tuple[Voter, ...], log_end_offset: int, now: int
) -> DescribeQuorumResponse:
    """Return the voters and observers, and how far each log reaches.

    An observer that has not fetched for 300 s is left out.
    """
    described = []
    for voter in voters:
        if voter.id == node_id:
            end_offset, fetched, caught_up = log_end_offset, now, now
        else:
            end_offset = role.end_offsets[voter.id]
            fetched, caught_up = role.fetch_times.get(voter.id, (-1, -1))
        described.append(
            QuorumReplica(voter.id, voter.directory_id, end_offset, fetched, caught_up)
        )
    observers = [
        state for state in role.observers.values()
        if now - state.last_fetch_us < OBSERVER_SESSION_US
    ]  # fmt: skip
    return DescribeQuorumResponse(
        Errors.NONE, node_id, role.epoch, role.high_watermark, tuple(described), tuple(observers)
    )
