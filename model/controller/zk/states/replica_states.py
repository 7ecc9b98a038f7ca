"""ZkReplicaStateMachine: the states of replicas, and who is told of their changes.

New, Offline, … --> Online   the replica's broker gets LeaderAndIsr
any --> Offline              StopReplica; the replica leaves the ISR by compare and set, under a
                             new leader epoch, but for its last member
Offline --> DeletionStarted --> Successful --> NonExistent, or Ineligible
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from kafkasim.model.controller.zk.context import (
    DELETION_INELIGIBLE,
    DELETION_STARTED,
    DELETION_SUCCESSFUL,
    NEW,
    NON_EXISTENT,
    OFFLINE,
    ONLINE,
    Leadership,
    Replica,
)
from kafkasim.model.controller.zk.events import Steps
from kafkasim.model.controller.zk.states.elections import elected
from kafkasim.model.controller.zk.store.zk_data import NO_LEADER
from kafkasim.model.records import TopicPartition

FROM: dict[str, tuple[str | None, ...]] = {
    NEW: (None,),
    ONLINE: (NEW, ONLINE, OFFLINE, DELETION_INELIGIBLE),
    OFFLINE: (NEW, ONLINE, OFFLINE, DELETION_INELIGIBLE),
    DELETION_STARTED: (OFFLINE,),
    DELETION_SUCCESSFUL: (DELETION_STARTED,),
    DELETION_INELIGIBLE: (OFFLINE, DELETION_STARTED),
    NON_EXISTENT: (DELETION_SUCCESSFUL,),
}
"""The states from which each one is reached; a replica in any other stays where it is."""

if TYPE_CHECKING:
    from kafkasim.model.controller.zk.channels import RequestBatch
    from kafkasim.model.controller.zk.context import ControllerContext
    from kafkasim.model.controller.zk.store.writes import ControllerStore


class ReplicaStateMachine:
    """Moves replicas between their states; ``now`` is set by the controller."""

    def __init__(
        self, context: ControllerContext, store: ControllerStore, batch: RequestBatch
    ) -> None:
        self.context = context
        self.store = store
        self.batch = batch
        self.now = 0

    def startup(self) -> Steps:
        """Derive the states from who is alive, and bring everybody up to date."""
        context = self.context
        every = context.replicas_of(list(context.assignments))
        online = [key for key in every if context.online(key[1], key[0])]
        offline = [key for key in every if not context.online(key[1], key[0])]
        for key in online:
            context.replica_states[key] = ONLINE
        for key in offline:
            context.replica_states[key] = DELETION_INELIGIBLE
        self.to_online(online)
        yield from self.to_offline(offline)

    def _valid(self, replicas: list[Replica], state: str) -> list[Replica]:
        """Return the replicas that may go to a state (checkValidReplicaStateChange)."""
        before, states = FROM[state], self.context.replica_states
        return [key for key in replicas if states.get(key) in before]

    def to_new(self, replicas: list[Replica]) -> None:
        """New replicas hear of their partition if it has a leader already, which none of them
        may be."""
        self.batch.new_batch()
        for tp, broker in self._valid(replicas, NEW):
            known = self.context.leaderships.get(tp)
            if known is not None:
                if known.state.leader == broker:
                    continue
                self.batch.add_leader_and_isr((broker,), tp, is_new=True)
            self.context.replica_states[tp, broker] = NEW
        self.batch.send(self.now)

    def to_online(self, replicas: list[Replica]) -> None:
        """Replicas whose broker came up hear of their partitions; new ones have heard already."""
        self.batch.new_batch()
        states = self.context.replica_states
        for key in self._valid(replicas, ONLINE):
            tp, broker = key
            if states.get(key) != NEW and tp in self.context.leaderships:
                self.batch.add_leader_and_isr((broker,), tp)
            states[key] = ONLINE
        self.batch.send(self.now)

    def to_offline(self, replicas: list[Replica]) -> Steps:
        """Stop replicas and take them out of the ISR, broker by broker."""
        self.batch.new_batch()
        by_broker: dict[int, list[TopicPartition]] = {}
        for tp, broker in self._valid(replicas, OFFLINE):
            by_broker.setdefault(broker, []).append(tp)
            self.batch.add_stop_replica(broker, tp, delete=False)
        context = self.context
        for broker, partitions in by_broker.items():
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
        self.batch.send(self.now)

    def _remove_from_isr(self, broker: int, partitions: list[TopicPartition]) -> Steps:
        """Take a broker out of ISRs, until no znode moves meanwhile (removeReplicasFromIsr)."""
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

    def to(self, replicas: list[Replica], state: str) -> None:
        """Move replicas through their deletion; only its start tells the brokers."""
        assert state in (
            DELETION_STARTED,
            DELETION_SUCCESSFUL,
            DELETION_INELIGIBLE,
            NON_EXISTENT,
        ), state
        self.batch.new_batch()
        for key in self._valid(replicas, state):
            if state == NON_EXISTENT:
                self.context.replica_states.pop(key, None)
                continue
            if state == DELETION_STARTED:
                self.batch.add_stop_replica(key[1], key[0], delete=True)
            self.context.replica_states[key] = state
        self.batch.send(self.now)
