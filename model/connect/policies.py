"""What mirrored topics are called (ReplicationPolicy), and which topics are mirrored at all."""

from __future__ import annotations

import re

EXCLUDED = r"mm2.*\.internal, .*\.replica, __.*"
"""The default of topics.exclude (DefaultTopicFilter)."""

HEARTBEATS = "heartbeats"
"""The topic of heartbeats in each cluster (ReplicationPolicy.heartbeatsTopic)."""

GROUPS_EXCLUDED = r"console-consumer-.*, connect-.*, __.*"
"""The default of groups.exclude (DefaultGroupFilter)."""


CONFIGS_EXCLUDED = (
    r"follower\.replication\.throttled\.replicas, leader\.replication\.throttled\.replicas,"
    r" message\.timestamp\.difference\.max\.ms, message\.timestamp\.type,"
    r" unclean\.leader\.election\.enable, min\.insync\.replicas"
)
"""The default of config.properties.exclude (DefaultConfigPropertyFilter)."""


class DefaultReplicationPolicy:
    """Topic ``t`` of cluster ``A`` is ``A.t`` elsewhere (DefaultReplicationPolicy)."""

    def __init__(self, separator: str = ".") -> None:
        self.separator = separator  # replication.policy.separator

    def remote_topic(self, source: str, topic: str) -> str:
        """Return the name that a topic of a source cluster has in a target (formatRemoteTopic)."""
        return f"{source}{self.separator}{topic}"

    def topic_source(self, topic: str) -> str | None:
        """Return the cluster that a topic was mirrored from, or None.

        A user's own topic with the separator in its name looks like a mirrored one.
        """
        source, separator, rest = topic.partition(self.separator)
        return source if separator and rest else None

    def upstream_topic(self, topic: str) -> str | None:
        """Return the name of a mirrored topic in its source cluster, None of any other."""
        source = self.topic_source(topic)
        return None if source is None else topic.removeprefix(source + self.separator)

    def is_heartbeats(self, topic: str) -> bool:
        """Return whether a topic is ``heartbeats``, or a mirrored one (isHeartbeatsTopic)."""
        source = self.topic_source(topic)
        if source is None:
            return topic == HEARTBEATS
        return self.is_heartbeats(topic.removeprefix(source + self.separator))

    def checkpoints_topic(self, source: str) -> str:
        """Return the topic of the checkpoints of a source cluster's groups."""
        return f"{source}.checkpoints.internal"

    def offset_syncs_topic(self, other: str) -> str:
        """Return the topic of the offset syncs, in one of the two clusters; it names the other."""
        return f"mm2-offset-syncs.{other}.internal"


class IdentityReplicationPolicy(DefaultReplicationPolicy):
    """A topic has the same name in both clusters; where it came from is not known.

    Cycles are not detected: two mirrors in opposite directions copy each record for ever. Only
    heartbeats topics are named as DefaultReplicationPolicy names them.
    """

    def remote_topic(self, source: str, topic: str) -> str:
        """Return the topic's own name."""
        return super().remote_topic(source, topic) if topic.endswith(HEARTBEATS) else topic

    def topic_source(self, topic: str) -> str | None:
        """Return None: nothing in the name says where a topic came from."""
        return super().topic_source(topic) if topic.endswith(HEARTBEATS) else None


POLICIES: dict[str, type[DefaultReplicationPolicy]] = {
    f"org.apache.kafka.connect.mirror.{each.__name__}": each
    for each in (DefaultReplicationPolicy, IdentityReplicationPolicy)
}
"""The values of replication.policy.class."""


def is_cycle(policy: DefaultReplicationPolicy, target: str, topic: str) -> bool:
    """Return whether a topic came from the target cluster, directly or through others (isCycle)."""
    source = policy.topic_source(topic)
    if source is None:
        return False
    upstream = policy.upstream_topic(topic)
    again = upstream is not None and upstream != topic
    return source == target or (again and is_cycle(policy, target, str(upstream)))


def matches(patterns: str, name: str) -> bool:
    """Return whether a name matches one of several expressions, separated by commas, as a whole."""
    return any(re.fullmatch(each.strip(), name) for each in patterns.split(","))
