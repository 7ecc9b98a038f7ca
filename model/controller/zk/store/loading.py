"""Reads the cluster's state into a new controller's context (initializeControllerContext)."""

from __future__ import annotations

from typing import TYPE_CHECKING

from kafkasim.model.controller.zk.context import NO_SETTINGS, ControllerContext
from kafkasim.model.controller.zk.events import Steps
from kafkasim.model.controller.zk.store.zk_data import (
    DELETE_TOPICS,
    ISR_CHANGES,
    LOG_DIR_EVENTS,
    TOPICS,
    config_path,
    topic_path,
)
from kafkasim.model.facts import TopicCreated, TopicDeletionQueued
from kafkasim.model.records import TopicPartition
from kafkasim.model.zookeeper.ops import Delete, GetData, ZkError

if TYPE_CHECKING:
    from kafkasim.model.config import BrokerConfig
    from kafkasim.model.controller.zk.rules import ZkControllerRules
    from kafkasim.model.controller.zk.store.controller_store import ControllerStore

OK = ZkError.OK


class ContextLoader:
    """Reads brokers, topics and partition states, and sets the watches on them."""

    def __init__(
        self,
        context: ControllerContext,
        store: ControllerStore,
        rules: ZkControllerRules,
        config: BrokerConfig,
    ) -> None:
        self.context = context
        self.store = store
        self.rules = rules
        self.config = config
        self.watches_log_dirs = len(config.log_dirs) > 1

    def load(self) -> Steps:
        """Forget the context and fill it from ZooKeeper."""
        context, store = self.context, self.store
        context.reset()
        yield from self._clear(ISR_CHANGES)
        if self.watches_log_dirs:
            yield from self._clear(LOG_DIR_EVENTS)
        brokers = yield from store.brokers()
        for broker, (info, epoch) in brokers.items():
            context.brokers[broker], context.broker_epochs[broker] = info, epoch
        store.record_registered(tuple(brokers))
        names = yield from store.children(TOPICS)
        yield from self.read_topics(names)
        yield from store.load_states(list(context.assignments))
        yield from self._load_deletions()

    def _clear(self, path: str) -> Steps:
        """Delete notifications: the states are about to be read (deleteIsrChangeNotifications)."""
        old = yield from self.store.children(path)
        yield from self.store.write(*[Delete(f"{path}/{name}") for name in old])

    def _load_deletions(self) -> Steps:
        """Queue topics for deletion, and mark those that cannot be deleted now."""
        context = self.context
        deleted = yield from self.store.children(DELETE_TOPICS)
        for topic in deleted:
            if topic in context.topic_ids:
                context.topics_to_delete[topic] = None
                self.store.out.append(TopicDeletionQueued(context.topic_ids[topic], topic))
                every = context.replicas_of_topic(topic)
                down = any(not context.online(broker, tp) for tp, broker in every)
                if down or context.is_reassigning(topic):
                    context.topics_ineligible[topic] = None

    def read_topics(self, names: list[str]) -> Steps:
        """Read assignments, ids and settings of topics; return the partitions found."""
        context = self.context
        found = yield tuple([GetData(topic_path(name), watch=True) for name in names])
        settings = yield tuple([GetData(config_path(name)) for name in names])
        added: list[TopicPartition] = []
        for name, topic, config in zip(names, found, settings, strict=True):
            if topic.error is not OK:
                continue
            context.add_topic(name, topic.data.topic_id)
            if config.error is OK:
                context.configs[name] = config.data.entries, config.stat.mzxid
            for number, assignment in topic.data.partitions:
                tp = TopicPartition(name, number)
                context.assign(tp, assignment)
                if self.rules.resumes_reassignment(assignment.adding, assignment.removing):
                    context.reassigning[tp] = None
                added.append(tp)
            self._record_created(name, topic.stat.czxid)
        return added

    def _record_created(self, name: str, zxid: int) -> None:
        context = self.context
        partitions = context.partitions_of(name)
        minimum = dict(context.configs.get(name, NO_SETTINGS)[0]).get("min.insync.replicas")
        self.store.out.append(
            TopicCreated(
                zxid,
                context.topic_ids[name],
                name,
                len(partitions),
                len(context.assignments[partitions[0]].replicas) if partitions else 0,
                self.config.min_insync_replicas if minimum is None else int(minimum),
            )
        )
