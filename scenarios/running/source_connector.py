"""MirrorMaker 2's source connector: which topics are mirrored, and what they are like in B.

It creates mirrored topics and their new partitions in the target, and carries settings and access
control lists over. Records are copied by the source task (``mirroring.py``).
"""

from __future__ import annotations

import asyncio

from kafkasim.model.client.exceptions import KafkaError
from kafkasim.model.connect.topic_settings import (
    mirrored_acls,
    settings_at_creation,
    settings_to_sync,
)
from kafkasim.model.messages import (
    AclFilter,
    AlterableConfig,
    CreatableTopic,
    CreatePartitionsTopic,
    DescribeConfigsResource,
    DescribedConfig,
)
from kafkasim.model.messages.clients import admin
from kafkasim.model.messages.clients.acls import TOPIC
from kafkasim.model.records import TopicPartition
from kafkasim.scenarios.running.mirroring import Flow, create, every
from kafkasim.sim.apps.client_port import ClientPort


class SourceConnector:
    """Prepares in the target what a source task copies (MirrorSourceConnector)."""

    def __init__(self, port: ClientPort, flow: Flow) -> None:
        self._port = port
        self._flow = flow
        self.partitions: tuple[TopicPartition, ...] = ()  # to copy, in the source

    async def run(self) -> None:
        """Look for new topics for ever, and carry over what changes."""
        config = self._flow.config
        loops = [every(config.refresh_topics_interval_seconds, self.refresh, first=False)]
        if config.sync_topic_acls_enabled:
            seconds = config.sync_topic_acls_interval_seconds
            loops.append(every(seconds, self._sync_acls, first=True))
        if config.sync_topic_configs_enabled:
            seconds = config.sync_topic_configs_interval_seconds
            loops.append(every(seconds, self._sync_configs, first=True))
        await asyncio.gather(*loops)

    async def refresh(self) -> None:
        """Find the topics to mirror; create them, and their new partitions, in the target.

        (refreshTopicPartitions, computeAndCreateTopicPartitions)
        """
        port, flow = self._port, self._flow
        topics = {t: n for t, n in (await self._counts("source")).items() if flow.takes(t)}
        there = await self._counts("target")
        remote = {topic: flow.remote_topic(topic) for topic in sorted(topics)}
        new = [topic for topic in remote if remote[topic] not in there]
        if new:
            described = await self._described(new)
            factor = flow.config.replication_factor
            created = [
                CreatableTopic(
                    remote[topic], topics[topic], factor, (),
                    settings_at_creation(flow.config, described[topic]),
                )
                for topic in new
            ]  # fmt: skip
            await create(port, "target-admin", *created)
        grown = [
            CreatePartitionsTopic(remote[topic], topics[topic])
            for topic in remote
            if topics[topic] > there.get(remote[topic], topics[topic])
        ]
        if grown:
            await port.call("target-admin.create_partitions", tuple(grown))  # errors are logged
        self.partitions = tuple(
            [TopicPartition(topic, p) for topic in remote for p in range(topics[topic])]
        )

    async def _counts(self, side: str) -> dict[str, int]:
        """Return how many partitions each topic of a cluster has."""
        found = await self._port.call(f"{side}-admin.metadata", None, False)
        return {each.topic: len(each.partitions) for each in found.topics}

    async def _described(self, topics: list[str]) -> dict[str, tuple[DescribedConfig, ...]]:
        """Return the settings of source topics; one that cannot be described fails the step."""
        asked = tuple([DescribeConfigsResource(admin.TOPIC, topic) for topic in topics])
        found = await self._port.call("source-admin.describe_configs", asked)
        for each in found.results:
            if each.error:
                raise KafkaError(each.error.name, f"{each.resource_name}: {each.message}")
        return {each.resource_name: each.configs for each in found.results}

    async def _sync_configs(self) -> None:
        """Give mirrored topics the settings of their sources (syncTopicConfigs)."""
        flow, there = self._flow, await self._counts("target")
        names = {tp.topic: flow.remote_topic(tp.topic) for tp in self.partitions}
        remote = {topic: name for topic, name in names.items() if name in there}
        described = await self._described(list(remote)) if remote else {}
        changes = [
            AlterableConfig(admin.TOPIC, remote[topic], settings_to_sync(flow.config, configs))
            for topic, configs in described.items()
        ]
        if changes:  # errors are logged
            await self._port.call("target-admin.incremental_alter_configs", tuple(changes))

    async def _sync_acls(self) -> None:
        """Create the entries of mirrored topics (syncTopicAcls); without an authorizer, none."""
        flow = self._flow
        found = await self._port.call("source-admin.describe_acls", AclFilter(TOPIC))
        if found.error:
            return  # logged
        bindings = mirrored_acls(flow.remote_topic, flow.takes, found.bindings)
        if bindings:
            await self._port.call("target-admin.create_acls", bindings)  # errors are logged
