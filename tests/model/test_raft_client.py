"""RaftClient in a small world: elections, replication, divergence, resignation."""

from dataclasses import replace

from kafkasim.model.effects import Close, Open
from kafkasim.model.errors import Errors
from kafkasim.model.messages import BeginQuorumEpochRequest, VoteResponse
from kafkasim.model.raft.context import LANE
from kafkasim.model.raft.quorum.election_state import NONE
from kafkasim.model.raft.quorum.states import LeaderChange
from kafkasim.model.raft.rules import RaftRules, RoleName
from tests.model.raft_cluster import World

SECOND = 1_000_000


def values(world, i):
    return [v for _, _, v in world.nodes[i].committed if not isinstance(v, LeaderChange)]


def elected(world):
    world.run_until(lambda: world.leader() and world.nodes[world.leader()].raft.high_watermark > 0)
    world.run(SECOND)
    return world.leader()


def test_three_voters_elect_one_leader_and_all_follow_it():
    world = World()
    leader = elected(world)
    epoch = world.nodes[leader].raft.epoch
    assert [(n.raft.leader_id, n.raft.epoch) for n in world.nodes.values()] == [(leader, epoch)] * 3


def test_the_leader_is_announced_to_itself_once_its_own_record_is_committed():
    world = World()
    leader = elected(world)
    assert world.nodes[leader].leaders[-1] == (leader, 1)
    assert world.nodes[leader].committed[0][2].leader_id == leader


def test_appended_records_are_committed_in_order_on_voters_and_observers():
    world = World(observers=1)
    elected(world)
    assert world.append(["a", "b"]) == 2
    assert world.append(["c"]) == 3
    world.run(600_000)
    assert [values(world, i) for i in world.ids] == [["a", "b", "c"]] * 4


def test_followers_learn_of_a_commit_with_the_next_answer():
    """Before KIP-1166 a parked Fetch waits for records or its 500 ms."""

    class Kip1166(RaftRules):
        def high_watermark_completes_fetch(self):
            return True

    def told(rules):
        world = World(rules=rules)
        leader = elected(world)
        world.append(["a"])
        world.run(200_000)
        return [values(world, i) for i in world.ids if i != leader]

    assert told(Kip1166()) == [["a"], ["a"]]
    assert told(RaftRules()) == [[], []]


def test_a_single_voter_leads_at_once():
    world = World(voters=1)
    assert world.nodes[1].raft.is_leader
    world.run(1000)
    assert world.nodes[1].raft.high_watermark == 1


def test_the_others_elect_when_the_leader_crashes_and_it_follows_later():
    world = World(observers=1)
    old = elected(world)
    world.append(["a"])
    world.run(SECOND)
    world.crash(old)
    world.run(10 * SECOND)
    new = world.leader()
    assert new not in (None, old)
    world.append(["b"])
    world.start(old)
    world.run(5 * SECOND)
    assert [values(world, i) for i in world.ids] == [["a", "b"]] * 4
    assert world.leader() == new


def test_a_cut_off_leader_resigns_and_its_tail_is_truncated():
    """KAFKA-15489."""
    world = World()
    old = elected(world)
    world.isolate(old)
    world.append(["lost"])
    world.run(15 * SECOND)
    assert not world.nodes[old].raft.is_leader
    new = world.leader()
    assert new not in (None, old)
    world.append(["kept"])
    world.run(SECOND)
    world.heal()
    world.run(10 * SECOND)
    assert [values(world, i) for i in world.ids] == [["kept"]] * 3
    assert world.log(old) == world.log(new)
    assert world.halts == []


def test_a_follower_commits_nothing_before_it_has_left_all_that_diverges():
    """A log may diverge in two epochs. The answer that names the higher one says nothing of the
    lower one, and its high watermark covers both (KafkaRaftClient.handleFetchResponse)."""
    world = World(observers=1)
    one = elected(world)
    other, third = [i for i in (1, 2, 3) if i != one]
    observer = world.nodes[4].raft

    def apart(*groups):
        together = {(a, b) for group in groups for a in group for b in group}
        world.cut = {(a, b) for a in world.ids for b in world.ids if (a, b) not in together}

    def lead(*wanted):
        epoch = observer.epoch
        world.run_until(
            lambda: world.leader() in wanted and world.nodes[world.leader()].raft.epoch > epoch
        )
        return world.leader()

    apart((one, 4), (other, third))  # the observer gets what the first leader cannot commit
    world.append(["lost"])
    second = lead(other, third)
    third = other + third - second
    apart((one, third), (one, 4))  # nobody gets the record of the second leader
    assert lead(one) == one
    apart((one, 4))  # the observer gets a record of yet another epoch
    world.run(200_000)
    assert [epoch for _, epoch, _ in world.log(4)] == [1, 1, observer.epoch]
    apart((second, third, 4))
    assert lead(second) == second
    world.append(["kept", "too"])
    world.run(10 * SECOND)
    assert (values(world, 4), world.log(4)) == (["kept", "too"], world.log(second))
    assert world.halts == []


def test_a_restarted_leader_does_not_lead_its_old_epoch_again():
    """KAFKA-10527."""
    world = World()
    old = elected(world)
    world.crash(old, power=True)
    world.start(old)
    assert world.nodes[old].raft.role.name is RoleName.RESIGNED
    world.run(15 * SECOND)
    assert world.nodes[world.leader()].raft.epoch > 1


def test_a_lost_candidate_that_restarts_asks_for_votes_in_its_old_epoch():
    """QuorumState.initialize looks at the vote before the leader; the others name the leader."""
    world = World()
    leader = elected(world)
    other = next(i for i in world.ids if i != leader)
    quorum = world.nodes[other].raft.quorum
    quorum.role.voted = NONE  # as if it had voted for itself before it followed
    quorum.record_vote(other)
    world.run(1000)
    world.crash(other)
    world.start(other)
    assert world.nodes[other].raft.role.name is RoleName.CANDIDATE
    world.run(100_000)
    roles = [(node.raft.leader_id, node.raft.epoch) for node in world.nodes.values()]
    assert roles == [(leader, 1)] * 3


def test_a_leader_tells_every_voter_that_it_leads_twice_per_fetch_timeout():
    """KafkaRaftClient.maybeSendBeginQuorumEpochRequests does not ask who knows it already."""
    world = World()
    leader = elected(world)
    told = []
    send = world.send

    def count(i, connection, kind, effect):
        if type(effect.message) is BeginQuorumEpochRequest:
            told.append(i)
        send(i, connection, kind, effect)

    world.send = count
    world.run(10 * SECOND)
    assert told == [leader] * 20


def test_a_cut_off_voter_comes_back_without_an_election():
    """KIP-996: its epoch has not grown."""
    world = World()
    leader = elected(world)
    other = next(i for i in world.ids if i != leader)
    world.isolate(other)
    world.run(30 * SECOND)
    world.heal()
    world.run(10 * SECOND)
    assert (world.leader(), world.nodes[leader].raft.epoch) == (leader, 1)
    assert world.nodes[other].raft.leader_id == leader


def test_a_prospective_voter_whose_timeout_ends_asks_again_at_once():
    """QuorumState.transitionToUnattached: what remains of the election timeout counts, nothing."""
    world = World()
    leader = elected(world)
    world.isolate(leader)
    world.run(4 * SECOND)  # check quorum; the others elect another leader
    others = [i for i in world.ids if i != leader]
    for i in others:
        world.crash(i)
    world.run(10 * SECOND)
    for _ in range(40):
        world.run(250_000)
        assert world.nodes[leader].raft.role.name is RoleName.PROSPECTIVE


def test_a_candidate_that_backs_off_keeps_its_election_timeout_in_a_higher_epoch():
    world = World(voters=3)
    node = world.nodes[elected(world)]
    raft = node.raft
    raft.become_unattached(raft.epoch + 1, world.now)
    raft.become_candidate(1, world.now)
    deadline = raft.role.deadline
    raft.role.backing_off = True
    node.timers.arm((LANE, "election"), world.now + 1, LANE, raft.shutdown)
    raft.become_unattached(raft.epoch + 1, world.now)
    assert node.timers.deadline((LANE, "election")) == deadline


def test_an_answer_to_a_request_of_an_earlier_role_is_ignored():
    """RequestManager.isResponseExpected: a role begins with KafkaRaftClient.resetConnections."""

    class Late(World):
        held = None

        def send(self, i, connection, kind, effect):
            message = effect.message
            if type(message) is VoteResponse and self.held is None:
                later = replace(message, error=Errors.FENCED_LEADER_EPOCH, leader_epoch=9)
                self.held = (i, connection, kind, replace(effect, message=later))
            else:
                super().send(i, connection, kind, effect)

    world = Late()
    leader = elected(world)
    epoch = world.nodes[leader].raft.epoch
    world.send(*world.held)
    world.run(SECOND)
    assert (world.leader(), world.nodes[leader].raft.epoch) == (leader, epoch)


def test_an_attempt_to_connect_outlives_the_requests_that_wait_for_it():
    """InterBrokerSendThread.failExpiredRequests: an unsent request fails alone after its 2 s."""
    ended = []

    class Watched(World):
        def perform(self, i, effect):
            if isinstance(effect, Open | Close):
                ended.append((self.now, i, type(effect)))
            super().perform(i, effect)

    world = Watched(observers=1)
    elected(world)
    world.run(SECOND)
    world.isolate(4)
    world.append(["a"])
    world.run(7 * SECOND)  # the requests that were sent end their connections
    ended.clear()
    world.run(4 * SECOND)
    assert ended == []
    world.heal()
    world.run(4 * SECOND)  # until the next packets of the attempts
    assert values(world, 4) == ["a"]


def test_without_pre_vote_a_cut_off_voter_deposes_the_leader():
    """B43."""

    class NoPreVote(RaftRules):
        def pre_vote(self):
            return False

    world = World(rules=NoPreVote())
    leader = elected(world)
    other = next(i for i in world.ids if i != leader)
    world.isolate(other)
    world.run(30 * SECOND)
    world.heal()
    world.run(20 * SECOND)
    assert world.nodes[world.leader()].raft.epoch > 5


def test_a_leader_that_resigns_hands_over():
    world = World()
    old = elected(world)
    raft = world.nodes[old].raft
    raft.resign(raft.epoch, world.now)
    world.drain(old)
    world.run(SECOND // 2)
    assert world.leader() not in (None, old)


def test_records_are_refused_where_there_is_no_leadership():
    world = World()
    leader = elected(world)
    follower = next(i for i in world.ids if i != leader)
    assert world.nodes[follower].raft.schedule_append(1, ["x"], world.now) is None
    assert world.nodes[leader].raft.schedule_append(7, ["x"], world.now) is None


def test_shutdown_of_the_leader_hands_over_and_says_when():
    world = World()
    old = elected(world)
    done = []
    world.nodes[old].raft.shutdown(world.now, done.append)
    world.drain(old)
    world.run(6 * SECOND)
    assert len(done) == 1
    assert done[0] < world.now - 4 * SECOND
    assert world.leader() not in (None, old)


def test_a_cut_off_leader_without_check_quorum_stays():
    """B39."""

    class NoCheckQuorum(RaftRules):
        def check_quorum_us(self, fetch_timeout_us):
            return None

    world = World(rules=NoCheckQuorum())
    old = elected(world)
    world.isolate(old)
    world.run(30 * SECOND)
    assert world.nodes[old].raft.is_leader


def test_without_flush_before_fetch_a_committed_record_is_lost():
    """B42: the record is on the leader and, unflushed, on one follower, which loses power."""

    class NoFlush(RaftRules):
        def must_flush_before_fetch(self, voter):
            return False

    def run(rules):
        world = World(rules=rules)
        old = elected(world)
        holder, behind = [i for i in world.ids if i != old]
        world.isolate(behind)
        world.append(["r"])
        world.run(200_000)
        assert values(world, old) == ["r"]
        world.crash(holder, power=True)
        world.crash(old)
        world.heal()
        world.start(holder)
        world.run(20 * SECOND)
        world.append(["s"])
        world.run(SECOND)
        return values(world, behind)

    assert run(RaftRules()) == ["r", "s"]
    assert run(NoFlush()) == ["s"]


def test_a_leader_that_continues_its_epoch_after_a_restart_diverges():
    """B41: two different records at one (offset, epoch)."""

    class SameEpoch(RaftRules):
        def restart_role(self, stored, node_id, last_log_epoch):
            role = super().restart_role(stored, node_id, last_log_epoch)
            return RoleName.LEADER if role is RoleName.RESIGNED else role

        def leader_end_offset(self, log_end_offset, flushed_offset, alone):
            return log_end_offset

    world = World(rules=SameEpoch())
    leader = elected(world)
    one, other = [i for i in world.ids if i != leader]
    durable = {path: list(items) for path, items in world.disks[leader].durable.items()}
    world.isolate(other)
    world.append(["r"])
    world.run(200_000)
    world.disks[leader].durable = durable  # the leader's own flush never reached the disk
    world.crash(leader, power=True)
    world.heal()
    world.cut = {(one, leader), (leader, one)}
    world.start(leader)
    world.append(["s"])
    world.run(200_000)
    at = {i: {(o, e): str(v) for o, e, v in world.log(i)} for i in (one, other)}
    assert at[one][1, 1] != at[other][1, 1]
