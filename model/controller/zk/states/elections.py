"""Which replica is to lead: the elections of the partition state machine, as pure functions.

Models PartitionLeaderElectionAlgorithms and Election.scala. An election returns the next data of
the partition's state znode, with the leader epoch raised by one, or None if no replica can be
elected.
"""

from __future__ import annotations

from collections.abc import Callable
from enum import Enum

from kafkasim.model.controller.zk.context import ControllerContext, Leadership
from kafkasim.model.controller.zk.store.zk_data import LeaderAndIsr
from kafkasim.model.records import TopicPartition

RECOVERED, RECOVERING = 0, 1


class Strategy(Enum):
    """Why an election is held (PartitionLeaderElectionStrategy).

    UNCLEAN is OFFLINE where an operator allows a leader from outside the ISR.
    """

    OFFLINE = "offline"
    UNCLEAN = "unclean"
    REASSIGN = "reassign"
    PREFERRED = "preferred"
    CONTROLLED_SHUTDOWN = "controlled-shutdown"


def first(replicas: tuple[int, ...], fits: Callable[[int], bool]) -> int | None:
    """Return the first replica, in assignment order, for which ``fits`` is True."""
    for replica in replicas:
        if fits(replica):
            return replica
    return None


def elected(
    state: LeaderAndIsr,
    leader: int,
    isr: tuple[int, ...],
    epoch: int,
    recovery: int | None = None,
) -> LeaderAndIsr:
    """Return ``state`` with a new leader, ISR and leader epoch (LeaderAndIsr.newLeaderAndIsr).

    ``epoch`` is the controller epoch; ``recovery`` None keeps the leader recovery state.
    """
    return LeaderAndIsr(
        leader,
        state.leader_epoch + 1,
        isr,
        epoch,
        state.leader_recovery_state if recovery is None else recovery,
    )


def elect(
    strategy: Strategy,
    context: ControllerContext,
    tp: TopicPartition,
    known: Leadership,
    unclean_enabled: bool,
    recovery_supported: bool = True,
) -> LeaderAndIsr | None:
    """Return the state after an election, or None if no replica can be elected.

    ``unclean_enabled`` allows a leader from outside the ISR where the ISR has no online member;
    then the leader recovers (KIP-704) unless ``recovery_supported`` is False.
    """
    assignment = context.assignments[tp]
    state, isr, replicas = known.state, known.state.isr, assignment.replicas
    epoch = context.epoch

    def online(replica: int) -> bool:
        return context.online(replica, tp)

    if strategy is Strategy.PREFERRED:
        if replicas[0] in isr and online(replicas[0]):
            return elected(state, replicas[0], isr, epoch)
        return None
    if strategy is Strategy.REASSIGN:
        target = first(assignment.targets, lambda r: r in isr and online(r))
        return None if target is None else elected(state, target, isr, epoch)
    if strategy is Strategy.CONTROLLED_SHUTDOWN:
        leader = first(replicas, lambda r: r in isr and online(r))
        if leader is None:
            return None
        left = tuple([member for member in isr if member not in context.shutting_down])
        return elected(state, leader, left, epoch)
    leader = first(replicas, lambda r: r in isr and online(r))
    if leader is not None:
        live = tuple([member for member in isr if online(member)])
        return elected(state, leader, live, epoch)
    if unclean_enabled:
        leader = first(replicas, online)
    recovery = RECOVERING if recovery_supported else None
    return None if leader is None else elected(state, leader, (leader,), epoch, recovery)
