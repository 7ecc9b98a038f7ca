"""A leader's duties: epochs, followers' progress, high watermark, ISR (KAFKA.md, 1.3, 1.5, 1.6)."""

from __future__ import annotations

from kafkasim.model.controller.common.image import BrokerImage
from kafkasim.model.effects import Request
from kafkasim.model.errors import Errors
from kafkasim.model.facts import (
    BecameLeader,
    ExpansionForgotten,
    HighWatermark,
    IsrProposed,
    IsrUpdateFailed,
)
from kafkasim.model.messages import (
    AlterPartitionResponse,
    AlterPartitionResult,
    FetchPartition,
    FetchRequest,
)
from kafkasim.model.replication.rules import ReplicationRules
from kafkasim.scenarios.variants.releases import Replication28
from tests.model.replica_harness import TOPIC_ID, TP, Trio, registration

NONE = Errors.NONE


def fetch(
    trio: Trio,
    node: int,
    *,
    replica: int = 2,
    epoch: int = 1,
    offset: int = 0,
    last: int = -1,
    broker_epoch: int = -1,
) -> Errors | tuple[int, int] | int | None:
    """Fetch at once; return the error, the divergence, or the number of batches."""
    asked = FetchPartition(TP, TOPIC_ID, offset, 0, epoch, last, 1 << 20)
    request = FetchRequest(replica, broker_epoch, 0, 1, 1 << 20, 0, (asked,))
    trio.calls += 1
    trio.nodes[node].handle(Request(900_000 + trio.calls, 1, request, trio.now), trio.now)
    trio.drain(node)
    answer = trio.answers.pop(trio.calls).partitions[0]
    if answer.error is not NONE:
        return answer.error
    return answer.diverging_epoch or len(answer.batches)


def test_fetch_checks_in_kafkas_order() -> None:
    trio = Trio()
    trio.registration = registration(1, 3, 0)
    trio.tell()
    trio.produce(1, 7, acks=1)
    assert fetch(trio, 1, epoch=2) is Errors.FENCED_LEADER_EPOCH
    assert fetch(trio, 1, epoch=4) is Errors.UNKNOWN_LEADER_EPOCH
    assert fetch(trio, 2, epoch=3, replica=3) is Errors.NOT_LEADER_OR_FOLLOWER
    assert fetch(trio, 1, epoch=3, replica=9) is Errors.UNKNOWN_LEADER_EPOCH
    assert fetch(trio, 1, epoch=-1, replica=9) is Errors.NOT_LEADER_OR_FOLLOWER
    assert fetch(trio, 1, epoch=3, last=5) is Errors.OFFSET_OUT_OF_RANGE
    assert fetch(trio, 1, epoch=3, offset=2, last=3) == (3, 1)
    assert fetch(trio, 1, epoch=3, offset=2) is Errors.OFFSET_OUT_OF_RANGE
    assert fetch(trio, 1, epoch=3, offset=0, last=3) == 1


def test_fetch_of_an_older_incarnation_is_refused() -> None:  # KIP-903
    trio = Trio()
    trio.tell()
    trio.nodes[1].image.brokers[2] = BrokerImage(2, 9, "", "broker-2", None, False, False)
    assert fetch(trio, 1, broker_epoch=2) is Errors.NOT_LEADER_OR_FOLLOWER
    assert trio.nodes[1].leader.remotes[2].leo == -1


def test_new_epoch_of_the_same_leader_forgets_its_followers() -> None:  # B05
    trio = Trio()
    trio.tell()
    trio.settle()
    trio.produce(1, 7)
    trio.settle()
    leader = trio.nodes[1].leader
    assert [remote.leo for remote in leader.remotes.values()] == [1, 1]
    trio.elect(1)
    trio.tell(1)
    assert [remote.leo for remote in leader.remotes.values()] == [-1, -1]
    assert leader.leader_epoch_start == 1


def test_a_change_without_a_new_leader_epoch_keeps_everything() -> None:  # B17
    trio = Trio()
    trio.tell()
    trio.produce(1, 7)
    trio.settle()
    trio.registration = registration(1, 1, 1, isr=(1, 2))
    trio.tell(1)
    leader = trio.nodes[1].leader
    assert (leader.leader_epoch_start, leader.remotes[2].leo) == (0, 1)
    assert len([f for _, f in trio.facts if type(f) is BecameLeader]) == 1


def test_stale_metadata_is_ignored() -> None:
    trio = Trio()
    trio.registration = registration(1, 2, 5)
    trio.tell()
    trio.registration = registration(2, 1, 4)
    trio.tell(1)
    assert trio.nodes[1].partition.leading


def test_high_watermark_waits_for_the_maximal_isr() -> None:  # B20
    trio = Trio(replica_lag_time_max_ms=1000)
    trio.registration = registration(1, 1, 0, isr=(1, 2))
    trio.tell()
    trio.settle()
    leader = trio.nodes[1].leader
    assert leader.maximal_isr == (1, 2, 3)  # proposed, not answered
    trio.now += 5_000_000  # 3 is not caught up any more
    trio.produce(1, 7)
    for key in [k for k in trio.links() if k[0] == 2]:
        for _ in range(3):
            if trio.requests[key] or trio.replies[key]:
                trio.deliver(key)
    assert leader.remotes[2].leo == 1
    assert leader.log.high_watermark == 0
    trio.settle()
    assert leader.log.high_watermark == 1
    found = [f for _, f in trio.facts if type(f) is HighWatermark]
    assert [(f.high_watermark, f.min_isr, f.acknowledged) for f in found] == [(1, 1, (1, 2, 3))]


def test_no_expansion_below_the_epoch_start() -> None:  # KAFKA-7128, B06
    trio = Trio()
    trio.tell()
    leader = trio.nodes[1].leader
    remote = leader.remotes[2]
    remote.leo = 0
    leader.leader_epoch_start = 1
    assert not ReplicationRules().may_join_isr(leader, remote)
    remote.leo = 1
    assert ReplicationRules().may_join_isr(leader, remote)
    trio.nodes[1].image.brokers[2] = BrokerImage(2, 2, "", "broker-2", None, True, False)
    assert not ReplicationRules().may_join_isr(leader, remote)  # fenced: KIP-841, B24


def test_a_retried_proposal_keeps_the_broker_epochs_that_it_was_built_with() -> None:
    """Partition.prepareIsrShrink fixes sentLeaderAndIsr; submitAlterPartition sends it again."""
    trio = Trio(replica_lag_time_max_ms=1000)
    trio.tell()
    leader = trio.nodes[1].leader
    leader.remotes[2].broker_epoch = 2
    leader._propose(leader.state.shrink((3,)), trio.now)
    queue = trio.nodes[1].link.queue
    (sent, done), leader.remotes[2].broker_epoch = queue.popleft(), 9  # broker 2 restarts
    refused = AlterPartitionResult(TOPIC_ID, 0, Errors.NOT_CONTROLLER)
    done(AlterPartitionResponse(Errors.NONE, (refused,)), trio.now)
    assert [request.partitions for request, _ in queue] == [sent.partitions]
    assert sent.partitions[0].new_isr == ((1, 1), (2, 2))


def test_the_answer_to_a_proposal_changes_nothing_where_the_partition_is_deleted() -> None:
    """Partition.delete clears the ISR, so submitAlterPartition ignores the answer."""
    trio = Trio(replica_lag_time_max_ms=1000)
    trio.tell(1)
    node = trio.nodes[1]
    leader = node.leader
    trio.produce(1, 7)
    leader._propose(leader.state.shrink((2, 3)), trio.now)
    node.replicas.roles.stop(TP, TOPIC_ID, trio.now)
    trio.drain(1)
    told = len(trio.facts)
    trio.controller(1)
    assert trio.registration.isr == (1,)
    assert (leader.log.high_watermark, trio.facts[told:]) == (0, [])


def test_the_answer_to_a_producer_names_the_topic_whose_log_took_the_batch() -> None:
    trio = Trio()
    trio.tell(1)
    (part,) = trio.answers[trio.produce(1, 7, acks=1)].partitions
    assert (part.error, part.topic_id) == (Errors.NONE, TOPIC_ID)


def test_metadata_that_repeats_an_answer_replaces_the_next_expansion() -> None:
    """Partition.makeLeader refuses an older partition epoch alone; KAFKA.md, 1.6."""
    trio = Trio()
    trio.registration = registration(1, 1, 1, isr=(1, 2))
    trio.tell(1)
    leader = trio.nodes[1].leader
    leader._propose(leader.state.expand(3), trio.now)
    assert leader.maximal_isr == (1, 2, 3)
    trio.tell(1)
    assert leader.maximal_isr == (1, 2)
    trio.controller(1)
    assert (trio.registration.isr, leader.maximal_isr) == ((1, 2, 3), (1, 2))
    trio.tell(1)
    assert leader.maximal_isr == (1, 2, 3)
    assert [fact for _, fact in trio.facts if isinstance(fact, ExpansionForgotten)] == [
        ExpansionForgotten(TOPIC_ID, 0, 1, 1, (3,)),
        ExpansionForgotten(TOPIC_ID, 0, 1, 2, ()),
    ]


def test_refused_changes_roll_back_or_stay_pending() -> None:
    trio = Trio(replica_lag_time_max_ms=1000)
    trio.tell()
    trio.produce(1, 7)
    trio.now += 5_000_000
    trio.shrink(1)
    leader = trio.nodes[1].leader
    pending = leader.state
    assert (pending.change, leader.isr, leader.maximal_isr) == (
        "shrink",
        (1, 2, 3),
        (1, 2, 3),
    )
    trio.controller(1, lose_reply=True)  # committed, and the retry is refused
    trio.controller(1)
    assert leader.state is pending
    assert [f.error for _, f in trio.facts if type(f) is IsrUpdateFailed] == [
        "INVALID_UPDATE_VERSION"
    ]
    trio.tell(1)
    assert (leader.isr, leader.state.in_flight) == ((1,), False)


def test_a_member_of_the_isr_that_is_no_replica_leaves_it() -> None:
    """Partition.isFollowerOutOfSync since 3.0 (KAFKA-9672); 2.8 throws, and removes nobody."""
    proposed = {}
    for rules in (ReplicationRules(), Replication28()):
        trio = Trio(rules, replica_lag_time_max_ms=1000)
        trio.registration = registration(1, 1, 1, isr=(1, 2, 3), replicas=(1, 2))
        trio.tell(1)
        trio.shrink(1)
        proposed[type(rules)] = [f.replica_ids for _, f in trio.facts if type(f) is IsrProposed]
    assert proposed == {ReplicationRules: [(3,)], Replication28: []}


def test_min_isr_is_capped_and_freezes_the_high_watermark_since_3_7() -> None:  # KAFKA-15583
    for rules, minimum, told in ((ReplicationRules(), 3, [3]), (Replication28(), 4, [1])):
        trio = Trio(rules=rules, min_insync_replicas=4)
        trio.tell()
        assert trio.nodes[1].leader.min_isr == trio.nodes[1].partition.min_isr == minimum
        trio.produce(1, 7, acks=1)
        trio.settle()
        advanced = [fact for _, fact in trio.facts if type(fact) is HighWatermark]
        assert [fact.min_isr for fact in advanced if fact.high_watermark == 1] == told
