"""The states of replicas, and the requests that their changes cause (ZkReplicaStateMachine).

    NonExistent ──► New ──► Online ◄──► Offline ──► DeletionStarted ──► DeletionSuccessful
                                          ▲                 │                    │
                                          └── DeletionIneligible ◄── (refused,   ▼
                                                                      down)  NonExistent

To Online: the replica's broker gets LeaderAndIsr. To Offline: it gets StopReplica, and the
controller takes the replica out of the ISR by compare and set under a new leader epoch; the last
member stays.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from kafkasim.model.controller.zk.context import (
    Leadership,
    Replica,
    ZkReplicaState,
)
from kafkasim.model.controller.zk.events import Steps
from kafkasim.model.controller.zk.states.elections import elected
from kafkasim.model.controller.zk.store.zk_data import NO_LEADER
from kafkasim.model.records import TopicPartition

NEW, ONLINE, OFFLINE = ZkReplicaState.NEW, ZkReplicaState.ONLINE, ZkReplicaState.OFFLINE
DELETION_STARTED = ZkReplicaState.DELETION_STARTED
DELETION_SUCCESSFUL = ZkReplicaState.DELETION_SUCCESSFUL
DELETION_INELIGIBLE = ZkReplicaState.DELETION_INELIGIBLE
NON_EXISTENT = ZkReplicaState.NON_EXISTENT

FROM: dict[ZkReplicaState, tuple[ZkReplicaState | None, ...]] = {
    NEW: (None,),
    ONLINE: (NEW, ONLINE, OFFLINE, DELETION_INELIGIBLE),
    OFFLINE: (NEW, ONLINE, OFFLINE, DELETION_INELIGIBLE),
    DELETION_STARTED: (OFFLINE,),
    DELETION_SUCCESSFUL: (DELETION_STARTED,),
    DELETION_INELIGIBLE: (OFFLINE, DELETION_STARTED),
    NON_EXISTENT: (DELETION_SUCCESSFUL,),
}
"""The states from which each state is reached; a replica in any other state is not moved."""

if TYPE_CHECKING:
    from kafkasim.model.controller.zk.channels import RequestBatch
    from kafkasim.model.controller.zk.context import ControllerContext
    from kafkasim.model.controller.zk.rules import ZkControllerRules
    from kafkasim.model.controller.zk.store.controller_store import ControllerStore


class ReplicaStateMachine:
    """Moves replicas between their states."""

    def __init__(
        self,
        context: ControllerContext,
        store: ControllerStore,
        batch: RequestBatch,
        rules: ZkControllerRules,
    ) -> None:
        self.context = context
        self.store = store
        self.batch = batch
        self.rules = rules

    def startup(self) -> Steps:
        """Derive the states from the live brokers, and send every broker its replicas' states."""
        context = self.context
        every = context.replicas_of(list(context.assignments))
        online = [key for key in every if context.online(key[1], key[0])]
        offline = [key for key in every if not context.online(key[1], key[0])]
        for key in online:
            context.replica_states[key] = ONLINE
        for key in offline:
            context.replica_states[key] = DELETION_INELIGIBLE
        self.to_online(online)
        if self.rules.startup_takes_offline():
            yield from self.to_offline(offline)

    def _valid(self, replicas: list[Replica], state: ZkReplicaState) -> list[Replica]:
        """Return the replicas that may move to a state (checkValidReplicaStateChange)."""
        before, states = FROM[state], self.context.replica_states
        return [key for key in replicas if states.get(key) in before]

    def to_new(self, replicas: list[Replica]) -> None:
        """Move replicas to New; those whose partition has a leader get LeaderAndIsr.

        A replica that is the leader itself is not moved.
        """
        self.batch.new_batch()
        for tp, broker in self._valid(replicas, NEW):
            known = self.context.leaderships.get(tp)
            if known is not None:
                if known.state.leader == broker:
                    continue
                self.batch.add_leader_and_isr((broker,), tp, is_new=True)
            self.context.replica_states[tp, broker] = NEW
        self.batch.send()

    def to_online(self, replicas: list[Replica]) -> None:
        """Move replicas to Online and send LeaderAndIsr, which New ones have got already."""
        self.batch.new_batch()
        states = self.context.replica_states
        for key in self._valid(replicas, ONLINE):
            tp, broker = key
            if states.get(key) is not NEW and tp in self.context.leaderships:
                self.batch.add_leader_and_isr((broker,), tp)
            states[key] = ONLINE
        self.batch.send()

    def to_offline(self, replicas: list[Replica]) -> Steps:
        """Move replicas to Offline: stop them and take them out of the ISR, broker by broker.

        Brokers come in the order of Scala's groupBy, which for ids this small is ascending.
        """
        self.batch.new_batch()
        by_broker: dict[int, list[TopicPartition]] = {}
        for tp, broker in self._valid(replicas, OFFLINE):
            by_broker.setdefault(broker, []).append(tp)
            self.batch.add_stop_replica(broker, tp, delete=False)
        context = self.context
        for broker, partitions in sorted(by_broker.items()):
            led = [tp for tp in partitions if tp in context.leaderships]
            removed = yield from self._remove_from_isr(broker, led)
            for tp in removed:
                if not context.deleting(tp.topic):
                    others = [r for r in context.assignments[tp].replicas if r != broker]
                    self.batch.add_leader_and_isr(others, tp)
            for tp in partitions:
                if tp not in context.leaderships:
                    self.batch.add_update_metadata(context.live_or_shutting_down(), (tp,))
                context.replica_states[tp, broker] = OFFLINE
        self.batch.send()

    def _remove_from_isr(self, broker: int, partitions: list[TopicPartition]) -> Steps:
        """Take a broker out of ISRs (removeReplicasFromIsr); return the partitions without it.

        A partition whose znode was written after it was read is tried again.
        """
        context = self.context
        done: list[TopicPartition] = []
        while partitions:
            found = yield from self.store.read_states(partitions)
            wanted: dict[TopicPartition, Leadership] = {}
            for tp, known in found.items():
                state = known.state
                if state.controller_epoch > context.epoch:
                    continue  # another controller has written it
                if broker not in state.isr:
                    context.leaderships[tp] = known
                    done.append(tp)
                    continue
                leader = NO_LEADER if state.leader == broker else state.leader
                left = tuple([member for member in state.isr if member != broker])
                isr = state.isr if len(state.isr) == 1 else left
                wanted[tp] = Leadership(elected(state, leader, isr, context.epoch), known.version)
            written, partitions = yield from self.store.update_states(wanted)
            done += written
        return done

    def to(self, replicas: list[Replica], state: ZkReplicaState) -> None:
        """Move replicas through their deletion; only its start sends requests to brokers."""
        assert state in (
            DELETION_STARTED,
            DELETION_SUCCESSFUL,
            DELETION_INELIGIBLE,
            NON_EXISTENT,
        ), state
        self.batch.new_batch()
        for key in self._valid(replicas, state):
            if state is NON_EXISTENT:
                self.context.replica_states.pop(key, None)
                continue
            if state is DELETION_STARTED:
                self.batch.add_stop_replica(key[1], key[0], delete=True)
            self.context.replica_states[key] = state
        self.batch.send()
