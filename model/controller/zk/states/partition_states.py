"""The states of partitions and their changes (ZkPartitionStateMachine).

    NonExistent ──► New ──────► Online ◄────► Offline
                        first          election / the leader's broker failed
                        leader

New to Online writes the first leader and ISR (initializeLeaderAndIsrForPartitions). Offline to
Online, and Online to Online, is an election. Online to Offline changes only the controller's
context: the znode still names the failed leader.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from kafkasim.model.controller.zk.context import Leadership, ZkPartitionState
from kafkasim.model.controller.zk.events import Steps
from kafkasim.model.controller.zk.states.elections import Strategy, elect
from kafkasim.model.controller.zk.store.zk_data import LeaderAndIsr, config_path
from kafkasim.model.records import TopicPartition
from kafkasim.model.zookeeper.ops import GetData, ZkError

if TYPE_CHECKING:
    from kafkasim.model.controller.zk.channels import RequestBatch
    from kafkasim.model.controller.zk.context import ControllerContext
    from kafkasim.model.controller.zk.store.controller_store import ControllerStore

NEW, ONLINE, OFFLINE = ZkPartitionState.NEW, ZkPartitionState.ONLINE, ZkPartitionState.OFFLINE
NON_EXISTENT = ZkPartitionState.NON_EXISTENT

Partitions = list[TopicPartition]


class PartitionStateMachine:
    """Moves partitions between their states.

    ``unclean_default`` is the broker's unclean.leader.election.enable, for topics without a
    setting. ``recovery_supported``: states carry a leader recovery state (KIP-704, since IBP 3.2).
    """

    def __init__(
        self,
        context: ControllerContext,
        store: ControllerStore,
        batch: RequestBatch,
        *,
        unclean_default: bool,
        recovery_supported: bool,
    ) -> None:
        self.context = context
        self.store = store
        self.batch = batch
        self.unclean_default = unclean_default
        self.recovery_supported = recovery_supported

    def startup(self) -> Steps:
        """Derive the states from the leaderships, then elect for offline and new partitions."""
        context = self.context
        for tp in context.assignments:
            known = context.leaderships.get(tp)
            if known is None:
                context.partition_states[tp] = NEW
            else:
                alive = context.online(known.state.leader, tp)
                context.partition_states[tp] = ONLINE if alive else OFFLINE
        yield from self.trigger_online()

    def trigger_online(self, topic: str | None = None) -> Steps:
        """Elect for the offline and new partitions, of all topics or of one
        (triggerOnlinePartitionStateChange).

        Returns the partitions that are online now. Topics being deleted are left out.
        """
        waiting = [
            tp
            for tp, state in self.context.partition_states.items()
            if state in (OFFLINE, NEW)
            and not self.context.deleting(tp.topic)
            and topic in (None, tp.topic)
        ]
        done = yield from self.to_online(waiting, Strategy.OFFLINE)
        return done

    def to(self, partitions: Partitions, state: ZkPartitionState) -> None:
        """Move partitions to New, Offline or NonExistent, which writes nothing to ZooKeeper."""
        assert state is not ONLINE, state
        for tp in partitions:
            if state is NON_EXISTENT:
                self.context.partition_states.pop(tp, None)
            else:
                self.context.partition_states[tp] = state

    def to_online(self, partitions: Partitions, strategy: Strategy) -> Steps:
        """Move partitions online; return those that have a leader now."""
        states = self.context.partition_states
        self.batch.new_batch()
        new = [tp for tp in partitions if states[tp] is NEW]
        others = [tp for tp in partitions if states[tp] in (OFFLINE, ONLINE)]
        done: Partitions = []
        if new:
            done += yield from self._initialize(new)
        while others:
            elected, others = yield from self._elect(others, strategy)
            done += elected
        for tp in done:
            states[tp] = ONLINE
        self.batch.send()
        return done

    def _initialize(self, partitions: Partitions) -> Steps:
        """Write the first state of new partitions (initializeLeaderAndIsrForPartitions)."""
        context = self.context
        wanted: dict[TopicPartition, LeaderAndIsr] = {}
        for tp in partitions:
            live = tuple([r for r in context.assignments[tp].replicas if context.online(r, tp)])
            if live:
                wanted[tp] = LeaderAndIsr(live[0], 0, live, context.epoch)
        before = self.store.because("created")
        created = yield from self.store.create_states(wanted)
        self.store.because(before)
        for tp, known in created.items():
            self.batch.add_leader_and_isr(known.state.isr, tp, is_new=True)
        return list(created)

    def _elect(self, partitions: Partitions, strategy: Strategy) -> Steps:
        """Elect on the states in ZooKeeper (doElectLeaderForPartitions).

        Returns the partitions with a new leader, and those to be tried again because their znode
        was written after it was read.
        """
        context = self.context
        found = yield from self.store.read_states(partitions)
        allowed = yield from self._unclean_enabled(found, strategy)
        wanted: dict[TopicPartition, Leadership] = {}
        unclean: Partitions = []
        for tp, known in found.items():
            if known.state.controller_epoch > context.epoch:
                continue  # another controller has written it
            willing = strategy is Strategy.UNCLEAN or tp.topic in allowed
            recovery = self.recovery_supported
            state = elect(strategy, context, tp, known, willing, recovery)
            if state is not None:
                wanted[tp] = Leadership(state, known.version)
                if state.leader not in known.state.isr:
                    unclean.append(tp)
        written, retry = yield from self.store.update_states(wanted, tuple(unclean))
        for tp in written:
            replicas = context.assignments[tp].targets
            if strategy is not Strategy.REASSIGN:
                replicas = context.assignments[tp].replicas
            if strategy in (Strategy.OFFLINE, Strategy.UNCLEAN):
                replicas = tuple([each for each in replicas if context.online(each, tp)])
            told = self.store.rules.told_of_leader(replicas, found[tp].state.leader)
            self.batch.add_leader_and_isr(told, tp)
        return list(written), retry

    def _unclean_enabled(
        self, found: dict[TopicPartition, Leadership], strategy: Strategy
    ) -> Steps:
        """Return the topics that allow unclean elections and have a partition whose ISR has no
        online member (collectUncleanLeaderElectionState). Their settings are read from ZooKeeper.
        """
        if strategy is not Strategy.OFFLINE:
            return []
        online = self.context.online
        topics = dict.fromkeys(
            [
                tp.topic
                for tp, known in found.items()
                if not any(online(member, tp) for member in known.state.isr)
            ]
        )
        if not topics:
            return []
        results = yield tuple([GetData(config_path(topic)) for topic in topics])
        allowed: list[str] = []
        for topic, result in zip(topics, results, strict=True):
            own = dict(result.data.entries) if result.error is ZkError.OK else {}
            text = own.get("unclean.leader.election.enable")
            if self.unclean_default if text is None else text == "true":
                allowed.append(topic)
        return allowed
