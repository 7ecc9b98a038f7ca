"""Dynamic settings in ZooKeeper mode: changes below /config take effect while brokers run.

Models ZkConfigManager with TopicConfigHandler, BrokerConfigHandler, UserConfigHandler and
ClientIdConfigHandler, and DynamicBrokerConfig.
Whoever changes settings writes them into their znode and adds a child below /config/changes. Every
broker watches that path and reads the settings that each new child names; when it starts it reads
all settings. Everything runs on lane ``zk-config``.

Left out: settings of IPs, credentials of users; the purge of children after 15 minutes.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Protocol

from kafkasim.model.controller.common.image import EVERY_BROKER
from kafkasim.model.controller.zk.admin.quotas import rates_in, read_quotas
from kafkasim.model.controller.zk.events import EventQueue, Steps
from kafkasim.model.controller.zk.store.zk_data import (
    CONFIG_CHANGES,
    QUOTA,
    TOPIC_CONFIGS,
    ConfigChange,
    broker_config_path,
    config_path,
    quota_entity_at,
)
from kafkasim.model.messages.clients.admin import BROKER, TOPIC
from kafkasim.model.zookeeper.ops import GetChildren, GetData, ZkError

if TYPE_CHECKING:
    from kafkasim.model.controller.common.image import MetadataImage
    from kafkasim.model.controller.zk.store.client import KafkaZkClient
    from kafkasim.model.effects import Process
    from kafkasim.model.replication.manager import ReplicaManager

Entries = tuple[tuple[str, str], ...]


class ControllerConfigs(Protocol):
    """The settings that the broker's own controller acts on, should it be the active one."""

    def topic_config_changed(self, topic: str, entries: Entries, zxid: int) -> None:
        """Take over a topic's settings as of transaction ``zxid``."""
        ...

    def unclean_default_changed(self, before: bool, after: bool) -> None:
        """Take over the broker's unclean.leader.election.enable."""
        ...


LANE = "zk-config"
OK = ZkError.OK


class ZkConfigManager:
    """Keeps the settings in a broker's image up to date, and makes them take effect."""

    def __init__(
        self,
        process: Process,
        zk: KafkaZkClient,
        broker_id: int,
        image: MetadataImage,
        replicas: ReplicaManager,
        controller: ControllerConfigs,
    ) -> None:
        self.broker_id = broker_id
        self.image = image
        self.replicas = replicas
        self.controller = controller
        self.queue = EventQueue(process, zk, LANE)
        self._loaded = False  # all settings have been read once
        self._processed = -1  # the number of the newest child of /config/changes that was read
        self._zxids: dict[str, int] = {}  # topic: the transaction that wrote its known settings

    def start(self) -> None:
        """Read all settings; called once the broker is registered."""
        self.queue.put("Startup", self._startup)

    def process_notifications(self) -> None:
        """Read what changed: /config/changes has new children, or a new session has no watch."""
        steps = self._process_notifications if self._loaded else self._startup
        self.queue.put("ProcessNotifications", steps)

    def _startup(self) -> Steps:
        yield from self._process_notifications()
        (topics,) = yield (GetChildren(TOPIC_CONFIGS),)
        for topic in topics.children:
            yield from self._topic(topic)
        for broker in ("", str(self.broker_id)):
            yield from self._broker(broker)
        self.image.client_quotas = yield from read_quotas()
        self._loaded = True

    def _process_notifications(self) -> Steps:
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
                elif change.resource_type == QUOTA:
                    yield from self._quota(change.resource_name)

    def _topic(self, topic: str) -> Steps:
        """Take a topic's settings over (TopicConfigHandler)."""
        (found,) = yield (GetData(config_path(topic)),)
        exists = found.error is OK
        entries = found.data.entries if exists else ()
        zxid = found.stat.mzxid if exists else found.zxid
        self.learn(topic, entries, zxid)
        self.controller.topic_config_changed(topic, entries, zxid)

    def learn(self, topic: str, entries: tuple[tuple[str, str], ...], zxid: int) -> None:
        """Take over a topic's settings as of transaction ``zxid``, unless newer ones are known."""
        if zxid > self._zxids.get(topic, -1):
            self._zxids[topic] = zxid
            self.image.configs[topic] = dict(entries)
            self.replicas.config_changed(topic)

    def _quota(self, path: str) -> Steps:
        """Take an entity's quotas over (QuotaConfigHandler)."""
        (found,) = yield (GetData(path),)
        self.image.client_quotas.pop(quota_entity_at(path), None)
        if rates := rates_in(found):
            self.image.client_quotas[quota_entity_at(path)] = rates

    def _broker(self, name: str) -> Steps:
        """Take over this broker's settings, or for '' all brokers' (BrokerConfigHandler)."""
        if name not in ("", str(self.broker_id)):
            return
        (found,) = yield (GetData(broker_config_path(name)),)
        known, key = self.image.broker_configs, int(name) if name else EVERY_BROKER
        entries = dict(found.data.entries) if found.error is OK else {}
        if entries == known.get(key, {}):
            return
        known[key] = entries
        before = self.replicas.settings.current.unclean_leader_election_enable
        self.replicas.config_changed(None)
        after = self.replicas.settings.current.unclean_leader_election_enable
        self.controller.unclean_default_changed(before, after)


def _number(name: str) -> int:
    return int(name.rpartition("_")[2])
