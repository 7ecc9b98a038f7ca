"""Brokers come, fail, and come back before the controller noticed (processBrokerChange).

A broker whose registration is newer than the one in the context has bounced. The controller treats
it as failed and then as started; else the broker would never be sent its partitions (KIP-380).
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from kafkasim.model.controller.zk.context import ControllerContext, Replica, ZkPartitionState
from kafkasim.model.controller.zk.events import Steps
from kafkasim.model.facts import BrokerRegistration

if TYPE_CHECKING:
    from kafkasim.model.controller.zk.changes.reassignments import Reassignments
    from kafkasim.model.controller.zk.channels import ControllerChannelManager, RequestBatch
    from kafkasim.model.controller.zk.rules import ZkControllerRules
    from kafkasim.model.controller.zk.states.deletion import TopicDeletionManager
    from kafkasim.model.controller.zk.states.partition_states import PartitionStateMachine
    from kafkasim.model.controller.zk.states.replica_states import ReplicaStateMachine
    from kafkasim.model.controller.zk.store.controller_store import ControllerStore
    from kafkasim.model.controller.zk.store.zk_data import BrokerInfo


class BrokerChanges:
    """Reacts to /brokers/ids."""

    def __init__(
        self,
        context: ControllerContext,
        store: ControllerStore,
        batch: RequestBatch,
        channels: ControllerChannelManager,
        rules: ZkControllerRules,
        partitions: PartitionStateMachine,
        replicas: ReplicaStateMachine,
        deletion: TopicDeletionManager,
        reassignments: Reassignments,
    ) -> None:
        self.context = context
        self.store = store
        self.batch = batch
        self.channels = channels
        self.rules = rules
        self.partitions = partitions
        self.replicas = replicas
        self.deletion = deletion
        self.reassignments = reassignments

    def process(self) -> Steps:
        """Compare the registered brokers with those in the context."""
        found = yield from self.store.brokers()
        known, channels = self.context.broker_epochs, self.channels
        new = tuple([b for b in found if b not in known])
        dead = tuple([b for b in known if b not in found])
        bounced = tuple(
            [b for b in found if b in known and self.rules.is_bounced(known[b], found[b][1])]
        )
        for broker in (*bounced, *dead):
            channels.remove(broker)
        for broker in (*new, *bounced):
            channels.add(found[broker][0])
        if new:
            yield from self._start(new, found)
        if bounced:
            # The old registration ended before the transaction that created the new one.
            gone = {broker: found[broker][1] - 1 for broker in bounced}
            yield from self._fail(gone, "bounced")
            yield from self._start(bounced, found)
        if dead:
            yield from self._fail(dict.fromkeys(dead, self.store.brokers_zxid), "fenced")

    def _start(self, brokers: tuple[int, ...], found: dict[int, tuple[BrokerInfo, int]]) -> Steps:
        """Take up brokers that started (onBrokerStartup)."""
        context = self.context
        others = context.live_or_shutting_down()
        for broker in brokers:
            info, epoch = found[broker]
            context.brokers[broker] = info
            context.broker_epochs[broker] = epoch
        self.store.record_registered(brokers)
        self.store.because("unfenced")
        self.batch.send_update_metadata(others, ())
        self.batch.send_update_metadata(brokers, context.leaderships)
        every = context.replicas_on(brokers)
        self.replicas.to_online(every)  # of deleted topics, too: a broker deletes what it hosts
        yield from self.partitions.trigger_online()
        yield from self.reassignments.on_brokers_up(brokers)
        waiting = [tp.topic for tp, _ in every if context.deleting(tp.topic)]
        if waiting:
            yield from self.deletion.resume_for(list(dict.fromkeys(waiting)))

    def _fail(self, gone: dict[int, int], change: str) -> Steps:
        """Drop brokers that failed, with the zxid by which each was gone (onBrokerFailure).

        ``change`` is what the trace calls it.
        """
        brokers = tuple(gone)
        context = self.context
        racks = {broker: context.brokers[broker].rack for broker in brokers}
        epochs = {broker: context.broker_epochs[broker] for broker in brokers}
        for broker in brokers:
            del context.brokers[broker], context.broker_epochs[broker]
            context.shutting_down.pop(broker, None)
            context.offline_dirs.pop(broker, None)
        self.store.because("fenced")
        yield from self.replicas_offline(context.replicas_on(brokers))
        for broker in brokers:
            self._record(gone[broker], broker, epochs[broker], racks[broker], change)

    def replicas_offline(self, replicas: list[Replica]) -> Steps:
        """Elect other leaders, then take the replicas out of ISRs (onReplicasBecomeOffline)."""
        context = self.context
        for_deletion = [key for key in replicas if context.deleting(key[0].topic)]
        others = [key for key in replicas if not context.deleting(key[0].topic)]
        self.partitions.to(context.led_by_offline(), ZkPartitionState.OFFLINE)
        elected = yield from self.partitions.trigger_online()
        yield from self.replicas.to_offline(others)
        if for_deletion:
            yield from self.deletion.fail(for_deletion)
        if not others and not elected:  # no request so far has named the failed brokers
            self.batch.send_update_metadata(context.live_or_shutting_down(), ())

    def record_missing(self) -> None:
        """Record the brokers that have replicas and are not registered: the controller before may
        have failed before it could."""
        context = self.context
        assigned = {r: None for entry in context.assignments.values() for r in entry.replicas}
        for broker in sorted(assigned):
            if broker not in context.brokers:
                self._record(self.store.brokers_zxid, broker, -1, None, "fenced")

    def _record(self, zxid: int, broker: int, epoch: int, rack: str | None, change: str) -> None:
        self.store.out.append(BrokerRegistration(zxid, broker, epoch, change, True, False, rack))
