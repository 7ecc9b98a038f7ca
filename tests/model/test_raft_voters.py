"""Changing the voters of a Raft log (KIP-853)."""

import pytest

from kafkasim.model.effects import Request
from kafkasim.model.errors import Errors
from kafkasim.model.messages import (
    AddRaftVoterRequest,
    RaftFetchRequest,
    RemoveRaftVoterRequest,
    UpdateRaftVoterRequest,
)
from kafkasim.model.raft.quorum.election_state import NONE
from kafkasim.model.raft.rules import RaftRules
from tests.model.raft_cluster import World

SECOND = 1_000_000
OPERATOR = -1
"""A connection that no node opens"""


def cluster(**kwargs):
    world = World(observers=1, **kwargs)
    world.run_until(lambda: world.leader() and world.nodes[world.leader()].raft.high_watermark > 0)
    world.run(2 * SECOND)
    return world


class Answers:
    """An operator on no host: requests go in directly, answers are picked out of the outbox."""

    def __init__(self, world):
        self.world = world
        self.given = []
        perform = world.perform

        def spy(i, effect):
            if getattr(effect, "connection", None) == OPERATOR:
                self.given.append(effect.message.error)
            else:
                perform(i, effect)

        world.perform = spy

    def ask(self, i, message, run_us=SECOND):
        world = self.world
        world.nodes[i].raft.on_request(Request(OPERATOR, 1, message, world.now), world.now)
        world.drain(i)
        world.run(run_us)
        return self.given[-1] if self.given else None


def voters(world):
    return [sorted(world.nodes[i].raft.voters) for i in world.ids if world.nodes[i]]


ADD = AddRaftVoterRequest(4, "disk-4", "node-4")


def test_an_observer_becomes_a_voter_and_counts():
    world = cluster()
    leader = world.leader()
    assert Answers(world).ask(leader, ADD) is Errors.NONE
    assert voters(world) == [[1, 2, 3, 4]] * 4
    assert world.nodes[4].raft.voter_sets.is_voter
    # Now 3 of 4 are a majority: with two cut off nothing commits.
    cut = [i for i in world.ids if i != leader][:2]
    for i in cut:
        world.crash(i)
    world.append(["x"])
    world.run(SECOND)
    assert world.nodes[leader].committed[-1][2] != "x"


def test_the_record_that_adds_a_voter_brings_it_what_its_vote_commits():
    """The voter set counts before parked Fetches are answered (LeaderState.updateLocalState)."""
    world = World(voters=2, observers=1)
    world.run_until(lambda: world.leader() and world.nodes[world.leader()].raft.high_watermark > 0)
    world.run(2 * SECOND)
    leader = world.leader()
    world.isolate(3 - leader)
    world.append(["x"])
    world.run(SECOND // 10)
    assert world.nodes[3].committed[-1][2] != "x"  # the other voter has not got it
    Answers(world).ask(leader, AddRaftVoterRequest(3, "disk-3", "node-3"), run_us=4000)
    assert world.nodes[3].committed[-1][2] == "x"


def test_a_replaced_controller():
    """One leaves for good, another comes: the quorum survives the loss of one more."""
    world = cluster()
    leader = world.leader()
    gone, left = [i for i in (1, 2, 3) if i != leader]
    world.crash(gone)
    answers = Answers(world)
    assert answers.ask(leader, ADD) is Errors.NONE
    assert answers.ask(leader, RemoveRaftVoterRequest(gone, f"disk-{gone}")) is Errors.NONE
    world.crash(left)
    world.append(["x"])
    world.run(SECOND)
    assert world.nodes[leader].committed[-1][2] == "x"
    assert world.nodes[4].raft.voters == {
        leader: f"node-{leader}",
        left: f"node-{left}",
        4: "node-4",
    }


def test_a_removed_leader_leads_until_the_change_commits_and_then_resigns():
    world = cluster()
    leader = world.leader()
    assert Answers(world).ask(leader, RemoveRaftVoterRequest(leader, f"disk-{leader}"), 0) is None
    assert world.nodes[leader].raft.is_leader
    world.run(5 * SECOND)
    others = [i for i in (1, 2, 3) if i != leader]
    assert world.leader() in others
    world.append(["x"])
    world.run(SECOND)
    assert {len(each) for each in voters(world)} == {2}
    assert world.nodes[leader].committed[-1][2] == "x"  # it follows as an observer
    assert world.halts == []


def test_a_removed_leader_whose_request_timed_out_leads_on():
    """The request waits for controller.quorum.request.timeout.ms; only its end lets it resign.

    RemoveVoterHandler.highWatermarkUpdated, LeaderState.maybeExpirePendingOperation.
    """
    world = cluster()
    leader = world.leader()
    others = [i for i in (1, 2, 3) if i != leader]
    world.isolate(others[0])  # both of them are needed: the leader does not count itself
    answers = Answers(world)
    assert answers.ask(leader, RemoveRaftVoterRequest(leader, f"disk-{leader}"), SECOND) is None
    world.run(1_500_000)
    assert answers.given == [Errors.REQUEST_TIMED_OUT]
    assert world.nodes[others[1]].raft.voters == {i: f"node-{i}" for i in others}
    world.heal()
    world.run(10 * SECOND)
    assert {len(each) for each in voters(world)} == {2}
    assert world.leader() == leader
    again = RemoveRaftVoterRequest(leader, f"disk-{leader}")
    assert answers.ask(leader, again) is Errors.VOTER_NOT_FOUND


def test_a_removed_leader_that_restarts_resigns_from_its_epoch():
    """The others still name it as the leader; it must raise the epoch before it fetches.

    QuorumState.initialize asks whether the stored leader is this replica, not whether it votes.
    """
    world = cluster()
    leader = world.leader()
    epoch = world.nodes[leader].raft.epoch
    assert Answers(world).ask(leader, RemoveRaftVoterRequest(leader, f"disk-{leader}"), 0) is None
    world.crash(leader)
    world.start(leader)
    assert not world.nodes[leader].raft.voter_sets.is_voter
    world.run(5 * SECOND)
    assert world.halts == []
    assert world.leader() in [i for i in (1, 2, 3) if i != leader]
    assert {node.raft.leader_id for node in world.nodes.values()} == {world.leader()}
    assert world.nodes[leader].raft.epoch > epoch


def test_a_removed_voter_that_voted_for_itself_in_the_epoch_does_not_start():
    """CandidateState's constructor throws; with a leader of that epoch: since a follower's
    election state keeps the vote (4.0)."""
    world = cluster()
    leader = world.leader()
    removed = next(i for i in (1, 2, 3) if i != leader)
    quorum = world.nodes[removed].raft.quorum
    quorum.role.voted = NONE  # as if it had voted for itself before it followed
    quorum.record_vote(removed)
    asked = RemoveRaftVoterRequest(removed, f"disk-{removed}")
    assert Answers(world).ask(leader, asked, 0) is None
    world.run(2 * SECOND)
    assert world.halts == []
    assert not world.nodes[removed].raft.voter_sets.is_voter
    world.crash(removed)
    world.start(removed)
    assert world.halts == [f"raft: {removed} must be in the set of voters to be a candidate"]


def test_an_observer_whose_log_diverges_has_not_caught_up():
    """Only a Fetch that needs no truncation and no snapshot counts (tryCompleteFetchRequest)."""
    world = cluster()
    leader = world.leader()
    raft = world.nodes[leader].raft
    fetch = RaftFetchRequest(9, raft.epoch, 50, raft.epoch, 0, replica_directory_id="disk-9")
    world.nodes[leader].raft.on_request(Request(OPERATOR, 1, fetch, world.now), world.now)
    assert world.nodes[leader].out[-1].message.diverging_epoch is not None
    assert (9, "disk-9") not in raft.role.observers


def test_refusals():
    world = cluster()
    leader = world.leader()
    follower = next(i for i in (1, 2, 3) if i != leader)
    answers = Answers(world)
    assert answers.ask(follower, ADD) is Errors.NOT_LEADER_OR_FOLLOWER
    twice = AddRaftVoterRequest(follower, "disk-9", "node-9")
    assert answers.ask(leader, twice) is Errors.DUPLICATE_VOTER
    assert answers.ask(leader, RemoveRaftVoterRequest(9, "disk-9")) is Errors.VOTER_NOT_FOUND
    epoch = world.nodes[leader].raft.epoch
    update = UpdateRaftVoterRequest(9, "disk-9", "x", epoch)
    assert answers.ask(leader, update) is Errors.VOTER_NOT_FOUND
    old = UpdateRaftVoterRequest(leader, f"disk-{leader}", "x", epoch - 1)
    assert answers.ask(leader, old) is Errors.FENCED_LEADER_EPOCH
    lost_disk = RemoveRaftVoterRequest(follower, "a-new-disk")
    assert answers.ask(leader, lost_disk) is Errors.VOTER_NOT_FOUND
    assert answers.ask(leader, RemoveRaftVoterRequest(follower, "")) is Errors.INVALID_REQUEST
    behind = AddRaftVoterRequest(5, "disk-5", "node-5")
    assert answers.ask(leader, behind) is Errors.REQUEST_TIMED_OUT
    assert voters(world) == [[1, 2, 3]] * 4


@pytest.mark.parametrize(("directory_id", "elects"), [("old", True), ("new", False)])
def test_a_voter_that_has_lost_its_disk_gives_no_vote(directory_id, elects):
    """It has the voter's id and another directory id: INVALID_VOTER_KEY (isValidVoterKey)."""
    world = cluster()
    world.crash(4)
    world.replace_disk(4, "old")
    world.start(4)
    world.run(2 * SECOND)
    leader = world.leader()
    assert Answers(world).ask(leader, AddRaftVoterRequest(4, "old", "node-4")) is Errors.NONE
    world.crash(4)
    if directory_id == "new":
        world.replace_disk(4, "new")
    world.crash(leader)  # 3 of 4 are needed, and 2 are left besides node 4
    world.start(4)
    world.run(60 * SECOND)
    assert (max(world.leaders) > 1) is elects
    world.start(leader)
    world.run(10 * SECOND)
    assert world.leader() is not None


def test_a_voter_that_does_not_answer_is_not_added():
    """AddVoterHandler.handleApiVersionsResponse; it was caught up a moment ago."""
    world = cluster()
    leader = world.leader()
    world.crash(4)
    assert Answers(world).ask(leader, ADD) is Errors.REQUEST_TIMED_OUT
    assert voters(world) == [[1, 2, 3]] * 3
    world.start(4)
    world.run(SECOND)
    world.isolate(4)
    answers = Answers(world)
    assert answers.ask(leader, ADD) is None  # it is asked, for controller.quorum.request.timeout.ms
    other = next(i for i in (1, 2, 3) if i != leader)
    assert (
        answers.ask(leader, RemoveRaftVoterRequest(other, f"disk-{other}"), 0)
        is Errors.REQUEST_TIMED_OUT
    )
    world.run(2 * SECOND)
    assert answers.given == [Errors.REQUEST_TIMED_OUT] * 2
    assert voters(world) == [[1, 2, 3]] * 4


def test_one_change_at_a_time():
    world = cluster()
    leader = world.leader()
    others = [i for i in (1, 2, 3) if i != leader]
    answers = Answers(world)
    answers.ask(leader, ADD, 0)
    assert (
        answers.ask(leader, RemoveRaftVoterRequest(others[0], f"disk-{others[0]}"), 0)
        is Errors.REQUEST_TIMED_OUT
    )


@pytest.mark.parametrize(("rules", "expected"), [(RaftRules, [1, 2, 3]), (None, [1, 2, 3, 4])])
def test_a_change_needs_a_committed_record_of_the_leaders_epoch(rules, expected):
    class Thesis(RaftRules):
        def may_change_voters(self, own_epoch_committed):
            return True

    world = cluster(rules=(rules or Thesis)())
    old = world.leader()
    raft = world.nodes[old].raft
    raft.resign(raft.epoch, world.now)
    world.drain(old)
    world.run_until(lambda: world.leader() not in (None, old))
    leader = world.leader()
    raft = world.nodes[leader].raft
    # The observer is known although nothing of this epoch is committed.
    from kafkasim.model.messages import QuorumReplica

    raft.role.observers[4, "disk-4"] = QuorumReplica(4, "disk-4", 0, world.now, world.now)
    assert raft.role.high_watermark == -1
    Answers(world).ask(leader, ADD, 5_000)
    assert sorted(raft.voters) == expected


def test_a_set_is_undone_when_its_record_is_truncated():
    world = cluster()
    old = world.leader()
    world.isolate(old)
    world.cut -= {(old, 4), (4, old)}  # the new voter answers, but two of four are no majority
    Answers(world).ask(old, ADD, 5_000)
    assert sorted(world.nodes[old].raft.voters) == [1, 2, 3, 4]
    world.run(15 * SECOND)
    world.append(["x"])
    world.heal()
    world.run(10 * SECOND)
    assert voters(world) == [[1, 2, 3]] * 4
    assert world.halts == []


def test_the_set_survives_a_restart_in_the_log_and_in_a_snapshot():
    world = cluster()
    leader = world.leader()
    assert Answers(world).ask(leader, ADD) is Errors.NONE
    world.snapshot(4)
    for i in world.ids:
        world.crash(i, power=True)
    for i in world.ids:
        world.start(i)
    assert voters(world) == [[1, 2, 3, 4]] * 4
    world.run(10 * SECOND)
    assert world.leader() is not None


def test_describe_quorum_forgets_an_observer_after_300_seconds():
    world = cluster()
    leader = world.leader()
    raft = world.nodes[leader].raft
    info = raft.describe_quorum(world.now)
    assert [each.id for each in info.voters] == [1, 2, 3]
    assert [(each.id, each.log_end_offset) for each in info.observers] == [(4, 1)]
    world.crash(4)
    world.run(299 * SECOND)
    assert raft.describe_quorum(world.now).observers != ()
    world.run(2 * SECOND)
    assert raft.describe_quorum(world.now).observers == ()
    follower = next(i for i in (1, 2, 3) if i != leader)
    assert world.nodes[follower].raft.describe_quorum(world.now) is None
