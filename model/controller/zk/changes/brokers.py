"""Brokers come, go, and come back before anybody noticed (processBrokerChange).

A broker whose znode is newer than the one we know has bounced: it is treated as failed and then as
started, or its partitions would never hear what they are (KIP-380).
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from kafkasim.model.controller.zk.context import Replica
from kafkasim.model.controller.zk.events import Steps
from kafkasim.model.facts import BrokerRegistration

if TYPE_CHECKING:
    from kafkasim.model.controller.zk.controller import KafkaController
    from kafkasim.model.controller.zk.store.zk_data import BrokerInfo


class BrokerChanges:
    """Reacts to /brokers/ids."""

    def __init__(self, controller: KafkaController) -> None:
        self.controller = controller

    def process(self) -> Steps:
        """Compare the registrations with those known."""
        controller = self.controller
        context, channels = controller.context, controller.channels
        now = controller.queue.now
        found = yield from controller.loading.read_brokers()
        known = context.broker_epochs
        new = tuple([b for b in found if b not in known])
        dead = tuple([b for b in known if b not in found])
        bounced = tuple(
            [b for b in found if b in known
             and controller.rules.is_bounced(known[b], found[b][1])]
        )  # fmt: skip
        for broker in (*bounced, *dead):
            channels.remove(broker, now)
        for broker in (*new, *bounced):
            channels.add(found[broker][0])
        controller.clock(now)
        if new:
            yield from self._start(new, found)
        if bounced:
            # gone before the new registration, which was the transaction of its epoch
            gone = {broker: found[broker][1] - 1 for broker in bounced}
            yield from self._fail(gone, "bounced")
            yield from self._start(bounced, found)
        if dead:
            yield from self._fail(dict.fromkeys(dead, controller.loading.brokers_zxid))

    def _start(self, brokers: tuple[int, ...], found: dict[int, tuple[BrokerInfo, int]]) -> Steps:
        """Brokers came up (onBrokerStartup)."""
        controller = self.controller
        context = controller.context
        others = context.live_or_shutting_down()
        for broker in brokers:
            info, epoch = found[broker]
            context.brokers[broker] = info
            context.broker_epochs[broker] = epoch
        controller.loading.tell_registered(brokers)
        controller.store.reason = "unfenced"
        yield from controller.send_update_metadata(others, [])
        yield from controller.send_update_metadata(brokers, list(context.leaderships))
        every = context.replicas_on(brokers)
        controller.replicas.to_online(every)  # of deleted topics, too: to be deleted they must host
        yield from controller.partitions.trigger_online()
        yield from controller.reassignments.on_brokers_up(brokers)
        waiting = [tp.topic for tp, _ in every if context.deleting(tp.topic)]
        if waiting:
            yield from controller.deletion.resume_for(list(dict.fromkeys(waiting)))

    def _fail(self, gone: dict[int, int], change: str = "fenced") -> Steps:
        """Brokers are gone, at the latest at these zxids (onBrokerFailure)."""
        brokers = tuple(gone)
        controller = self.controller
        context = controller.context
        racks = {broker: context.brokers[broker].rack for broker in brokers}
        epochs = {broker: context.broker_epochs[broker] for broker in brokers}
        for broker in brokers:
            del context.brokers[broker], context.broker_epochs[broker]
            context.shutting_down.pop(broker, None)
            context.offline_dirs.pop(broker, None)
        controller.store.reason = "fenced"
        yield from self.replicas_offline(context.replicas_on(brokers))
        for broker in brokers:
            self._tell(gone[broker], broker, epochs[broker], racks[broker], change)

    def replicas_offline(self, replicas: list[Replica]) -> Steps:
        """onReplicasBecomeOffline: elect first, then shrink the ISRs."""
        controller = self.controller
        context = controller.context
        for_deletion = [key for key in replicas if context.deleting(key[0].topic)]
        others = [key for key in replicas if not context.deleting(key[0].topic)]
        leaderless = context.led_by_offline()
        controller.partitions.to(leaderless, "Offline")
        elected = yield from controller.partitions.trigger_online()
        yield from controller.replicas.to_offline(others)
        if for_deletion:
            yield from controller.deletion.fail(for_deletion)
        if not others and not elected:  # nobody has been told of the dead brokers
            yield from controller.send_update_metadata(context.live_or_shutting_down(), [])

    def tell_dead(self) -> None:
        """A new controller tells which brokers it misses: its predecessor could perhaps not."""
        context = self.controller.context
        assigned = {r: None for entry in context.assignments.values() for r in entry.replicas}
        for broker in sorted(assigned):
            if broker not in context.brokers:
                self._tell(self.controller.loading.brokers_zxid, broker, -1, None, "fenced")

    def _tell(self, zxid: int, broker: int, epoch: int, rack: str | None, change: str) -> None:
        fact = BrokerRegistration(zxid, broker, epoch, change, True, False, rack)
        self.controller.process.out.append(fact)
