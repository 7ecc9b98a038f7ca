"""The parts of a Raft client alone: transitions, votes, timers, check quorum, appends."""

import random

import pytest

from kafkasim.model.config import BrokerConfig, TopicConfig
from kafkasim.model.effects import Barrier, Exit, Flush, Process
from kafkasim.model.facts import RaftRole
from kafkasim.model.raft.context import RaftContext
from kafkasim.model.raft.leader.appends import Appends
from kafkasim.model.raft.leader.check_quorum import CHECK_QUORUM_TIMER, CheckQuorum
from kafkasim.model.raft.log.replicated_log import ReplicatedLog
from kafkasim.model.raft.log.snapshot_store import SnapshotStore
from kafkasim.model.raft.quorum.election_state import NONE, ElectionState, QuorumStateStore
from kafkasim.model.raft.quorum.election_timer import ElectionTimer
from kafkasim.model.raft.quorum.majority import ElectionResult
from kafkasim.model.raft.quorum.peers import Peers
from kafkasim.model.raft.quorum.quorum_state import QuorumState
from kafkasim.model.raft.quorum.states import (
    TRANSITIONS,
    Candidate,
    Follower,
    Leader,
    Prospective,
    Resigned,
    Unattached,
    VoteTally,
)
from kafkasim.model.raft.quorum.voters import Voter, VoterSets
from kafkasim.model.raft.rules import RaftRules, RoleName
from kafkasim.model.records import TopicPartition
from kafkasim.model.storage.files import DiskFull, MemoryFiles
from kafkasim.model.storage.log.unified_log import UnifiedLog
from kafkasim.model.storage.rules import StorageRules
from kafkasim.model.zookeeper.rules import EnsembleRaftRules

EPOCH = 3
ROLES = {
    RoleName.UNATTACHED: lambda: Unattached(EPOCH),
    RoleName.PROSPECTIVE: lambda: Prospective(EPOCH, NONE, NONE, 1, 1),
    RoleName.CANDIDATE: lambda: Candidate(EPOCH, 1, 1),
    RoleName.FOLLOWER: lambda: Follower(EPOCH, 2, NONE),
    RoleName.LEADER: lambda: Leader(EPOCH, 1, [2, 3], 0),
    RoleName.RESIGNED: lambda: Resigned(EPOCH, 1, (2, 3)),
}


def ignore(now):
    """A callback that nothing follows from."""


class Full(MemoryFiles):
    """A disk without room."""

    def append(self, path, item, size):
        raise DiskFull(path, "No space left on device")


def context(files=None, node_id=1, rules=None):
    process = Process(f"node-{node_id}", files or MemoryFiles(), random.Random(1), 0)
    return RaftContext(process, node_id, "", BrokerConfig(), rules or RaftRules())


def quorum_of(raft):
    return QuorumState(raft, QuorumStateStore(raft.process.files, "quorum-state"))


def voters_of(raft, *ids):
    return VoterSets(raft, {i: f"node-{i}" for i in ids}, False, ignore)


@pytest.mark.parametrize("old", RoleName)
@pytest.mark.parametrize("new", RoleName)
def test_only_the_transitions_of_the_table_are_possible(old, new):
    quorum = quorum_of(context())
    quorum.transition(ROLES[old](), voter=True)
    if new in TRANSITIONS[old]:
        quorum.transition(ROLES[new](), voter=True)
        assert quorum.role.name is new
    else:
        with pytest.raises(AssertionError):
            quorum.transition(ROLES[new](), voter=True)


def test_no_transition_lowers_the_epoch():
    quorum = quorum_of(context())
    quorum.transition(Unattached(EPOCH), voter=True)
    with pytest.raises(AssertionError):
        quorum.transition(Unattached(EPOCH - 1), voter=True)


def test_a_role_is_durable_before_the_trace_shows_it_and_a_resigned_one_changes_no_file():
    raft = context()
    quorum = quorum_of(raft)
    quorum.transition(Leader(EPOCH, 1, [2, 3], 0), voter=True)
    quorum.transition(Resigned(EPOCH, 1, (2, 3)), voter=True)
    assert raft.out == [
        Barrier(("quorum-state",)),
        RaftRole("leader", EPOCH, 1),
        RaftRole("resigned", EPOCH, NONE),
    ]
    assert QuorumStateStore(raft.process.files, "quorum-state").state == ElectionState(EPOCH, 1, 1)


def test_the_trace_shows_of_no_voter_but_that_it_ceases_to_lead():
    raft = context()
    quorum = quorum_of(raft)
    quorum.transition(Leader(EPOCH, 1, [2, 3], 0), voter=True)
    quorum.transition(Unattached(EPOCH + 1), voter=False)
    quorum.transition(Unattached(EPOCH + 2), voter=False)
    assert [effect for effect in raft.out if isinstance(effect, RaftRole)] == [
        RaftRole("leader", EPOCH, 1),
        RaftRole("unattached", EPOCH + 1, NONE),
    ]


def test_a_full_disk_halts_a_voter_that_changes_its_role():
    raft = context(Full())
    quorum = quorum_of(raft)
    quorum.transition(Leader(EPOCH, 1, [2, 3], 0), voter=False)
    assert (quorum.halted, quorum.is_leader) == (True, False)
    assert raft.out == [Exit("raft: No space left on device: quorum-state", False)]


def test_a_later_answer_of_a_voter_replaces_its_earlier_one():
    votes = VoteTally(2)
    votes.record(3, False)
    votes.record(1, False)
    assert votes.result(3) is ElectionResult.LOST
    votes.record(1, True)
    assert (votes.result(3), votes.granting()) == (ElectionResult.WON, (1, 2))


def test_shortening_never_lengthens_the_fetch_timeout():
    raft = context()
    timer = ElectionTimer(raft, voters_of(raft, 1, 2, 3), ignore)
    timer.shorten(0, 500)
    assert timer.deadline == 500
    timer.shorten(100, 900)
    assert timer.deadline == 500
    timer.shorten(100, 200)
    assert timer.deadline == 300


def test_an_observer_has_no_election_timer_unless_it_resigns():
    raft = context(node_id=4)
    timer = ElectionTimer(raft, voters_of(raft, 1, 2, 3), ignore)
    timer.await_fetch(0)
    timer.await_election(0)
    assert timer.deadline is None
    timer.await_election(0, resigned=True)
    assert timer.deadline is not None


@pytest.mark.parametrize(("node_id", "needed"), [(1, 2), (9, 3)])
def test_check_quorum_counts_the_leader_only_if_it_is_a_voter(node_id, needed):
    """Of five voters: two others and the leader; three if a change removed the leader."""
    raft = context(node_id=node_id)
    voters = voters_of(raft, 1, 2, 3, 4, 5)
    role = Leader(EPOCH, node_id, voters.others, 0)
    check = CheckQuorum(raft, voters, ignore)
    check.restart(0)
    first = raft.timers.deadline(CHECK_QUORUM_TIMER)
    for now, voter in enumerate((2, 3, 4), 1):
        assert not check.fetched(role, (7, "disk"), now)  # an observer
        assert check.fetched(role, (voter, "disk"), now)
        moved = raft.timers.deadline(CHECK_QUORUM_TIMER) != first
        assert moved is (now >= needed)


def test_a_voter_with_another_disk_does_not_count_for_check_quorum():
    """LeaderState.updateCheckQuorumForFollowingVoter; also while it loads a snapshot."""
    raft = context()
    voters = voters_of(raft, 1, 2)
    voters.loaded(5, (Voter(1, "", "node-1"), Voter(2, "former", "node-2")), 0)
    role = Leader(EPOCH, 1, [2], 0)
    check = CheckQuorum(raft, voters, ignore)
    check.restart(0)
    first = raft.timers.deadline(CHECK_QUORUM_TIMER)
    assert not check.fetched(role, (2, "new"), 1)
    assert raft.timers.deadline(CHECK_QUORUM_TIMER) == first
    assert check.fetched(role, (2, "former"), 1)
    assert raft.timers.deadline(CHECK_QUORUM_TIMER) == first + 1


def test_a_controller_that_lost_its_disk_does_not_ask_itself():
    raft = context()
    voters = voters_of(raft, 1, 2)
    former = Voter(1, "former", "node-1")
    voters.loaded(5, (former, Voter(2, "own", "node-2")), 0)
    peers = Peers(raft, voters, False)
    assert (voters.is_voter, [peer.id for peer in peers.voters()]) == (False, [2])


class Progress:
    """Writes down what the leader's log causes."""

    def __init__(self):
        self.told = []

    def log_grew(self, now):
        self.told.append("grew")

    def high_watermark_rose(self, role, now):
        self.told.append(role.high_watermark)


@pytest.mark.parametrize(
    ("rules", "voters", "appended", "flushed"),
    [
        (RaftRules(), (1, 2, 3), ["grew", "grew"], [1, 2]),
        (RaftRules(), (1,), [1, "grew", 2, "grew"], []),
        (EnsembleRaftRules(), (1,), ["grew", "grew"], [1, 2]),
    ],
    ids=["quorum", "single voter", "single server"],
)
def test_a_single_voter_counts_its_log_before_the_flush(rules, voters, appended, flushed):
    """KafkaRaftClient.flushLeaderLog; the own epoch's first record decides (KAFKA-12619)."""
    raft, progress = context(rules=rules), Progress()
    quorum, voters = quorum_of(raft), voters_of(raft, *voters)
    tp, files = TopicPartition("__cluster_metadata", 0), raft.process.files
    unified = UnifiedLog(files, raft.out, "m", tp, "id", TopicConfig(), StorageRules())
    log = ReplicatedLog(unified, SnapshotStore(files, "m"), voters)
    appends = Appends(raft, quorum, voters, log, progress)
    role = Leader(EPOCH, 1, voters.others, 0)
    quorum.transition(role, voter=True)
    raft.out.clear()
    appends.open_epoch(role, (1, 2), 0)
    assert appends.append_control(role, "x", 0) == 1
    assert progress.told == appended
    flushes = [effect for effect in raft.out if isinstance(effect, Flush)]
    if role.end_offsets:
        role.end_offsets[2] = 2
    appends.update_high_watermark(role, 0)
    assert progress.told == appended
    for flush in flushes:
        flush.handler(None, 0)
    assert progress.told == [*appended, *flushed]


def test_a_replica_has_caught_up_with_what_the_log_was_at_its_last_fetch():
    """LeaderState.updateReplicaState: a log that grows all the time is caught up with, too."""
    role = Leader(EPOCH, 1, [2], 0)
    observer = (4, "disk-4")
    for now, offset, end in ((10, 3, 9), (20, 9, 12), (30, 10, 15), (40, 15, 15)):
        role.replica_fetched(observer, False, offset, end, now)
        role.replica_fetched((2, ""), True, offset, end, now)
        expected = {10: -1, 20: 10, 30: 10, 40: 40}[now]
        assert role.observers[observer].last_caught_up_us == expected
        assert role.fetch_times[2] == (now, expected)
