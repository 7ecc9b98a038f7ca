"""Who shall lead: the elections of the partition state machine, as pure functions.

Kafka: PartitionLeaderElectionAlgorithms and Election.scala. Each returns the next state, or None
when there is nobody to elect; the leader epoch rises with every one of them.
"""

from __future__ import annotations

from collections.abc import Callable
from enum import Enum

from kafkasim.model.controller.zk.context import ControllerContext, Leadership
from kafkasim.model.controller.zk.store.zk_data import PartitionState
from kafkasim.model.records import TopicPartition

RECOVERED, RECOVERING = 0, 1


class Strategy(Enum):
    """PartitionLeaderElectionStrategy; UNCLEAN is the offline strategy that may lose data."""

    OFFLINE = "offline"
    UNCLEAN = "unclean"
    REASSIGN = "reassign"
    PREFERRED = "preferred"
    CONTROLLED_SHUTDOWN = "controlled-shutdown"


def first(replicas: tuple[int, ...], fits: Callable[[int], bool]) -> int | None:
    """Return the first replica in assignment order that fits."""
    for replica in replicas:
        if fits(replica):
            return replica
    return None


def elected(
    state: PartitionState,
    leader: int,
    isr: tuple[int, ...],
    epoch: int,
    recovery: int | None = None,
) -> PartitionState:
    """Return the state under a new leader epoch (LeaderAndIsr.newLeaderAndIsr)."""
    return PartitionState(
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
) -> PartitionState | None:
    """Hold an election of the given kind; ``recovery_supported``: KIP-704, since IBP 3.2."""
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
