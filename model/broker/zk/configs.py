"""Dynamic settings in ZooKeeper mode: what changes below /config takes effect while brokers run.

Kafka: ZkConfigManager with TopicConfigHandler and BrokerConfigHandler, DynamicBrokerConfig. Who
changes settings writes them into their znode and adds a child to /config/changes; every broker
watches that, and reads what each new child names. At its start a broker reads all there is. On lane
``zk-config``. Left out: users, clients and ips, the purge of announcements after 15 minutes.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from kafkasim.model.controller.common.image import EVERY_BROKER
from kafkasim.model.controller.zk.events import Event, EventQueue, Steps
from kafkasim.model.controller.zk.store.zk_data import (
    CONFIG_CHANGES,
    TOPIC_CONFIGS,
    ConfigChange,
    broker_config_path,
    config_path,
)
from kafkasim.model.messages.clients.admin import BROKER, TOPIC
from kafkasim.model.zookeeper.ops import GetChildren, GetData, ZkError

if TYPE_CHECKING:
    from kafkasim.model.broker.zk.broker import ZkBroker

LANE = "zk-config"
OK = ZkError.OK
UNCLEAN = "unclean.leader.election.enable"


class ZkConfigManager:
    """Fills the settings of a broker's image, and lets them take effect."""

    def __init__(self, broker: ZkBroker) -> None:
        self.broker = broker
        self.queue = EventQueue(broker, broker.zk, LANE)
        self._loaded = False
        self._processed = -1  # the number of the last announcement
        self._zxids: dict[str, int] = {}  # topic: the change its settings are of

    def start(self) -> None:
        """Read everything, once the broker is registered."""
        self.queue.put(Event("Startup", self._startup))

    def process_notifications(self) -> None:
        """There are new announcements, or a new session has no watch yet."""
        steps = self._process_notifications if self._loaded else self._startup
        self.queue.put(Event("ProcessNotifications", steps))

    def _startup(self, now: int) -> Steps:
        yield from self._process_notifications(now)
        (topics,) = yield (GetChildren(TOPIC_CONFIGS),)
        for topic in topics.children:
            yield from self._topic(topic)
        for broker in ("", str(self.broker.broker_id)):
            yield from self._broker(broker)
        self._loaded = True

    def _process_notifications(self, _: int) -> Steps:
        (found,) = yield (GetChildren(CONFIG_CHANGES, watch=True),)
        names = [name for name in found.children if _number(name) > self._processed]
        results = yield tuple([GetData(f"{CONFIG_CHANGES}/{name}") for name in names])
        for name, result in zip(names, results, strict=True):
            self._processed = _number(name)
            if result.error is OK:
                change: ConfigChange = result.data
                if change.resource_type == TOPIC:
                    yield from self._topic(change.resource_name)
                elif change.resource_type == BROKER:
                    yield from self._broker(change.resource_name)

    def _topic(self, topic: str) -> Steps:
        """Take a topic's settings over (TopicConfigHandler)."""
        (found,) = yield (GetData(config_path(topic)),)
        exists = found.error is OK
        entries = found.data.entries if exists else ()
        zxid = found.stat.mzxid if exists else found.zxid
        self.learn(topic, entries, zxid)
        controller = self.broker.controller
        if controller.is_active:
            if topic in controller.context.topic_ids:
                controller.context.configs[topic] = entries, zxid
            if dict(entries).get(UNCLEAN) == "true":
                controller.enable_unclean(topic)

    def learn(self, topic: str, entries: tuple[tuple[str, str], ...], zxid: int) -> None:
        """Take a topic's settings as of a change, unless newer ones are known."""
        if zxid > self._zxids.get(topic, -1):
            self._zxids[topic] = zxid
            self.broker.cache.image.configs[topic] = dict(entries)
            self.broker.replicas.config_changed(topic)

    def _broker(self, name: str) -> Steps:
        """Take over settings of this broker, or the default of all (BrokerConfigHandler)."""
        broker = self.broker
        if name not in ("", str(broker.broker_id)):
            return
        (found,) = yield (GetData(broker_config_path(name)),)
        known, key = broker.cache.image.broker_configs, int(name) if name else EVERY_BROKER
        entries = dict(found.data.entries) if found.error is OK else {}
        if entries == known.get(key, {}):
            return
        known[key] = entries
        before = broker.replicas.config.unclean_leader_election_enable
        broker.replicas.config_changed(None)
        after = broker.replicas.config.unclean_leader_election_enable
        broker.controller.partitions.unclean_default = after
        if after and not before:
            broker.controller.enable_unclean()


def _number(name: str) -> int:
    return int(name.rpartition("_")[2])
