"""The elections of the ZooKeeper controller, as pure functions."""

from __future__ import annotations

import pytest

from kafkasim.model.controller.zk.context import ControllerContext, Leadership
from kafkasim.model.controller.zk.states.elections import RECOVERING, Strategy, elect
from kafkasim.model.controller.zk.store.zk_data import BrokerInfo, LeaderAndIsr, ReplicaAssignment
from kafkasim.model.records import TopicPartition

ASSIGNMENT = ReplicaAssignment((1, 2, 3))


TP = TopicPartition("t", 0)


def context(
    live: tuple[int, ...],
    stopping: tuple[int, ...] = (),
    assignment: ReplicaAssignment = ASSIGNMENT,
) -> ControllerContext:
    found = ControllerContext()
    found.assign(TP, assignment)
    found.epoch = 4
    found.brokers = {broker: BrokerInfo(broker, f"broker-{broker}", None) for broker in live}
    found.shutting_down = dict.fromkeys(stopping)
    return found


@pytest.mark.parametrize(
    ("strategy", "live", "stopping", "isr", "unclean", "leader", "new_isr"),
    [
        (Strategy.OFFLINE, (2, 3), (), (3, 2), False, 2, (3, 2)),
        (Strategy.OFFLINE, (3,), (), (1, 2, 3), False, 3, (3,)),
        (Strategy.OFFLINE, (2, 3), (2,), (2, 3), False, 3, (3,)),
        (Strategy.OFFLINE, (2, 3), (), (1,), False, None, ()),
        (Strategy.OFFLINE, (2, 3), (), (1,), True, 2, (2,)),
        (Strategy.PREFERRED, (1, 2, 3), (), (1, 2), False, 1, (1, 2)),
        (Strategy.PREFERRED, (2, 3), (), (1, 2), False, None, ()),
        (Strategy.PREFERRED, (1, 2, 3), (), (2, 3), False, None, ()),
        (Strategy.CONTROLLED_SHUTDOWN, (1, 2, 3), (1,), (1, 2, 3), False, 2, (2, 3)),
        (Strategy.CONTROLLED_SHUTDOWN, (1, 2, 3), (1,), (1,), False, None, ()),
    ],
)
def test_elections(
    strategy: Strategy,
    live: tuple[int, ...],
    stopping: tuple[int, ...],
    isr: tuple[int, ...],
    unclean: bool,
    leader: int | None,
    new_isr: tuple[int, ...],
) -> None:
    known = Leadership(LeaderAndIsr(1, 7, isr, 3), 12)
    state = elect(strategy, context(live, stopping), TP, known, unclean)
    if leader is None:
        assert state is None
        return
    assert state is not None
    assert (state.leader, state.isr, state.leader_epoch) == (leader, new_isr, 8)
    assert state.controller_epoch == 4
    assert (state.leader_recovery_state == RECOVERING) is (leader not in isr)


def test_a_reassignment_elects_among_its_targets() -> None:
    assignment = ReplicaAssignment((1, 2, 3), adding=(2, 3), removing=(1,))
    known = Leadership(LeaderAndIsr(1, 7, (1, 2, 3), 3), 12)
    state = elect(Strategy.REASSIGN, context((1, 2, 3), assignment=assignment), TP, known, False)
    assert state is not None
    assert state.leader == 2


def test_before_ibp_3_2_no_leader_is_marked_as_recovering() -> None:
    known = Leadership(LeaderAndIsr(1, 7, (1,), 3), 12)
    arguments = (Strategy.UNCLEAN, context((2,)), TP, known, True)
    states = [elect(*arguments, supported) for supported in (False, True)]
    assert [s and s.leader_recovery_state for s in states] == [0, RECOVERING]


def test_a_replica_in_a_failed_log_directory_does_not_lead() -> None:
    known = Leadership(LeaderAndIsr(1, 7, (1, 2, 3), 3), 12)
    cluster = context((1, 2, 3))
    cluster.offline_dirs[1] = {TP: None}
    state = elect(Strategy.OFFLINE, cluster, TP, known, False)
    assert state is not None
    assert (state.leader, state.isr) == (2, (2, 3))
    assert cluster.online(1, TopicPartition("t", 1))  # which lies in the other directory
