"""The pure parts of Raft: majorities, votes, backoffs, restart roles, the quorum-state file."""

import itertools

import pytest

from kafkasim.model.effects import Barrier
from kafkasim.model.raft.quorum import majority as quorum
from kafkasim.model.raft.quorum.election_state import ElectionState, QuorumStateStore
from kafkasim.model.raft.rules import RaftRules, RoleName
from kafkasim.model.storage.files import MemoryFiles
from kafkasim.scenarios.variants.releases import Raft39

RULES = RaftRules()


def slow_majority_offset(offsets):
    """The largest offset that more than half of the voters have."""
    return max(o for o in offsets if 2 * sum(p >= o for p in offsets) > len(offsets))


@pytest.mark.parametrize("voters", [1, 2, 3, 4, 5])
def test_majority_offset_agrees_with_its_definition(voters):
    for offsets in itertools.product(range(4), repeat=voters):
        assert quorum.majority_offset(offsets) == slow_majority_offset(offsets), offsets


def test_an_election_is_lost_as_soon_as_it_cannot_be_won():
    results = {
        (g, r): quorum.election_result(3, g, r).value for g in range(4) for r in range(4 - g)
    }
    assert results == {
        (0, 0): "pending", (0, 1): "pending", (0, 2): "lost", (0, 3): "lost",
        (1, 0): "pending", (1, 1): "pending", (1, 2): "lost",
        (2, 0): "won", (2, 1): "won", (3, 0): "won",
    }  # fmt: skip


def test_epochs_count_before_offsets():
    assert quorum.is_up_to_date(2, 1, 1, 9)
    assert quorum.is_up_to_date(1, 9, 1, 9)
    assert not quorum.is_up_to_date(1, 8, 1, 9)


def test_high_watermark_needs_a_record_of_the_epoch_and_never_falls():
    """KAFKA-12619."""
    assert RULES.high_watermark([9, 5, 5], epoch_start=5, current=-1) == -1
    assert RULES.high_watermark([9, 6, 5], epoch_start=5, current=-1) == 6
    assert RULES.high_watermark([9, 6, 5], epoch_start=5, current=8) == 8


@pytest.mark.parametrize(
    ("role", "leader", "voted", "up_to_date", "granted"),
    [
        ("unattached", -1, -1, True, True),
        ("unattached", -1, -1, False, False),
        ("unattached", -1, 2, False, True),
        ("unattached", -1, 3, True, False),
        ("prospective", 1, -1, True, False),
        ("candidate", -1, 1, True, False),
        ("follower", 3, -1, True, False),
        ("leader", 1, 1, True, False),
        ("resigned", -1, -1, True, False),
    ],
)
def test_votes_for_candidate_2(role, leader, voted, up_to_date, granted):
    assert RULES.grants_vote(RoleName(role), leader, voted, 2, up_to_date) is granted


@pytest.mark.parametrize(
    ("role", "fetched", "granted"),
    [
        ("follower", False, True),
        ("follower", True, False),
        ("leader", False, False),
        ("prospective", False, True),
        ("candidate", False, True),
        ("resigned", False, True),
    ],
)
def test_pre_votes(role, fetched, granted):
    """KIP-996."""
    assert RULES.pre_vote_grant(RoleName(role), fetched, True) is granted
    assert RULES.pre_vote_grant(RoleName(role), fetched, False) is False


def test_backoffs():
    assert [quorum.election_backoff_ms(1, draw, 1000) for draw in (0.0, 0.49, 0.99)] == [0, 0, 100]
    assert quorum.election_backoff_ms(50, 0.9, 1000) == 1000
    waits = [quorum.successor_backoff_ms((4, 2, 3, 5), v, 1000) for v in (4, 2, 3, 5, 9)]
    assert waits == [0, 125, 250, 500, 1000]
    assert quorum.successor_backoff_ms((), 4, 1000) == 0
    assert quorum.preferred_successors({1: 5, 2: 9, 3: 9}) == (2, 3, 1)


@pytest.mark.parametrize(
    ("stored", "last_epoch", "role"),
    [
        (ElectionState(0, -1, -1), 0, "unattached"),
        (ElectionState(4, 1, 1), 4, "resigned"),
        (ElectionState(4, 2, 1), 4, "candidate"),
        (ElectionState(4, 2, 3), 4, "follower"),
        (ElectionState(4, -1, 1), 3, "candidate"),
        (ElectionState(4, -1, 2), 3, "unattached"),
        (ElectionState(4, 1, 1), 5, "unattached"),
    ],
)
def test_role_after_a_restart(stored, last_epoch, role):
    assert RULES.restart_role(stored, 1, last_epoch) is RoleName(role)


def test_up_to_3_9_a_lost_candidate_restarts_as_follower():
    """FollowerState.election has the leader only."""
    assert Raft39().restart_role(ElectionState(4, 2, 1), 1, 4) is RoleName.FOLLOWER


def test_a_vote_is_durable_before_what_follows():
    files, out = MemoryFiles(), []
    RULES.persist_vote_before_reply(QuorumStateStore(files, "q"), ElectionState(3, -1, 2), out)
    assert out == [Barrier(("q",))]
    assert QuorumStateStore(files, "q").state == ElectionState(3, -1, 2)
