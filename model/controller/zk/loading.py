"""What a new controller reads before it acts (initializeControllerContext)."""

from __future__ import annotations

from typing import TYPE_CHECKING

from kafkasim.model.controller.zk.channels import NO_SETTINGS
from kafkasim.model.controller.zk.events import Steps
from kafkasim.model.controller.zk.store.zk_data import (
    BROKER_IDS,
    DELETE_TOPICS,
    ISR_CHANGES,
    LOG_DIR_EVENTS,
    TOPICS,
    broker_path,
    config_path,
    topic_path,
)
from kafkasim.model.facts import BrokerRegistration, TopicCreated
from kafkasim.model.records import TopicPartition
from kafkasim.model.zookeeper.ops import Delete, GetChildren, GetData, ZkError

if TYPE_CHECKING:
    from kafkasim.model.controller.zk.controller import KafkaController

OK = ZkError.OK


class Loading:
    """Reads brokers, topics and partition states, setting the watches on the way."""

    def __init__(self, controller: KafkaController) -> None:
        self.controller = controller
        self.brokers_zxid = -1  # up to which transaction the registrations were read last

    def load(self) -> Steps:
        """Fill an empty context."""
        controller = self.controller
        context = controller.context
        context.reset()
        yield from self._clear(ISR_CHANGES)
        if controller.watches_log_dirs:
            yield from self._clear(LOG_DIR_EVENTS)
        brokers = yield from self.read_brokers()
        for broker, (info, epoch) in brokers.items():
            context.brokers[broker], context.broker_epochs[broker] = info, epoch
        self.tell_registered(tuple(brokers))
        names = yield from self.read_children(TOPICS)
        yield from self.read_topics(names)
        yield from controller.store.load_states(list(context.assignments))
        for info in context.brokers.values():
            controller.channels.add(info)
        deleted = yield from self.read_children(DELETE_TOPICS)
        for topic in deleted:
            if topic in context.topic_ids:
                context.topics_to_delete[topic] = None
                every = context.replicas_of_topic(topic)
                down = any(not context.online(r, tp) for tp, r in every)
                if down or any(tp.topic == topic for tp in context.reassigning):
                    context.topics_ineligible[topic] = None

    def _clear(self, path: str) -> Steps:
        """Forget notifications: all states are read anew (deleteIsrChangeNotifications)."""
        old = yield from self.read_children(path)
        yield from self.controller.store.write(*[Delete(f"{path}/{name}") for name in old])

    def read_children(self, path: str) -> Steps:
        """Return a znode's children, watching."""
        (found,) = yield (GetChildren(path, watch=True),)
        return list(found.children)

    def read_brokers(self) -> Steps:
        """Return the registered brokers with their epochs, watching (getAllBrokerAndEpochs…)."""
        (children,) = yield (GetChildren(BROKER_IDS, watch=True),)
        self.brokers_zxid = children.zxid
        names = children.children
        results = yield tuple([GetData(broker_path(int(name))) for name in names])
        found = [(r.data, r.stat.czxid) for r in results if r.error is OK]
        return {
            info.id: (info, epoch) for info, epoch in sorted(found, key=lambda each: each[0].id)
        }

    def tell_registered(self, brokers: tuple[int, ...]) -> None:
        """Tell the trace that brokers are registered, the oldest registration first."""
        context, out = self.controller.context, self.controller.process.out
        for broker in sorted(brokers, key=lambda each: context.broker_epochs[each]):
            epoch, rack = context.broker_epochs[broker], context.brokers[broker].rack
            out.append(BrokerRegistration(epoch, broker, epoch, "registered", False, False, rack))

    def read_topics(self, names: list[str]) -> Steps:
        """Read the assignments, ids and settings of topics into the context."""
        context = self.controller.context
        found = yield tuple([GetData(topic_path(name), watch=True) for name in names])
        settings = yield tuple([GetData(config_path(name)) for name in names])
        added: list[TopicPartition] = []
        for name, topic, config in zip(names, found, settings, strict=True):
            if topic.error is not OK:
                continue
            context.topic_ids[name] = topic.data.topic_id
            if config.error is OK:
                context.configs[name] = config.data.entries, config.stat.mzxid
            for number, assignment in topic.data.partitions:
                tp = TopicPartition(name, number)
                context.assignments[tp] = assignment
                if self.controller.rules.resumes_reassignment(
                    assignment.adding, assignment.removing
                ):
                    context.reassigning[tp] = None
                added.append(tp)
            self._tell_topic(name, topic.stat.czxid)
        return added

    def _tell_topic(self, name: str, zxid: int) -> None:
        controller = self.controller
        context = controller.context
        partitions = context.partitions_of(name)
        minimum = dict(context.configs.get(name, NO_SETTINGS)[0]).get("min.insync.replicas")
        controller.process.out.append(
            TopicCreated(
                zxid,
                context.topic_ids[name],
                name,
                len(partitions),
                len(context.assignments[partitions[0]].replicas) if partitions else 0,
                controller.config.min_insync_replicas if minimum is None else int(minimum),
            )
        )
