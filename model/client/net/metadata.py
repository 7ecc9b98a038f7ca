"""A client's view of the cluster: Kafka's Metadata and NetworkClient.DefaultMetadataUpdater.

An entry of a partition is replaced only by one with the same or a higher leader epoch (KIP-320),
unless the topic was created again under its name (KIP-516). The metadata is refreshed every
metadata.max.age.ms, after errors and after disconnects. At most one request is in flight: what is
asked for meanwhile, its response answers. Two are at least the retry backoff apart, and further
apart each time that requests fail, or that responses are equivalent: they have no topic and no
leader epoch that is new (KAFKA-9800). Who asks for something new begins that count again
(``fresh``). An admin client's requests are always retry.backoff.ms apart (AdminMetadataManager).

With metadata.recovery.strategy=rebootstrap the client forgets what it knows and starts again from
bootstrap.servers when every known node is disconnected and in its reconnect backoff (KIP-899), or
when it has tried in vain for metadata.recovery.rebootstrap.trigger.ms (KIP-1102).

Not modelled: topics that leave a producer's metadata (metadata.max.idle.ms), the cluster id.
"""

from __future__ import annotations

import re
from collections.abc import Callable
from typing import TYPE_CHECKING, Any, NamedTuple

from kafkasim.model.client.net.connections import Connections
from kafkasim.model.errors import INVALID_METADATA, Errors
from kafkasim.model.facts import Rebootstrapped
from kafkasim.model.messages import MetadataRequest, MetadataResponse, MetadataTopic
from kafkasim.model.records import COORDINATOR_TOPICS, TopicPartition

if TYPE_CHECKING:
    from kafkasim.model.client.rules import ClientRules
    from kafkasim.model.messages import MetadataPartition


class LeaderAndEpoch(NamedTuple):
    """A partition's leader (Metadata.LeaderAndEpoch)."""

    leader: int  # node id, −1: there is none, or it is unknown
    epoch: int  # leader epoch, −1: unknown


NO_LEADER = LeaderAndEpoch(-1, -1)


class Metadata:
    """Brokers, topics and leaders as one client knows them.

    Callbacks in ``listeners`` are called with ``now`` after every change.
    """

    def __init__(
        self,
        connections: Connections,
        rules: ClientRules,
        auto_create: bool,
        backs_off: bool = True,
    ) -> None:
        """``backs_off``: requests in vain make the next one wait longer; False for an admin."""
        self.connections = connections
        self.process = connections.process
        self.config = connections.config
        self.rules = rules
        self.auto_create = auto_create
        connections.disconnected.append(self._on_disconnected)
        self.topics: dict[str, None] = {}  # asked for, in the order of first use
        self.pattern: re.Pattern[str] | None = None  # of topics to know besides, if any
        self.pattern_answered = False  # whether a response has told of all topics
        self.brokers: dict[int, str] = {}  # addresses by node id
        self.controller_id = -1  # the node that the last response named; −1: none
        self._racks: dict[int, str] = {}  # by node id, of brokers with a rack
        self._replicas: dict[str, tuple[MetadataPartition, ...]] = {}  # by topic
        self.leaders: dict[TopicPartition, LeaderAndEpoch] = {}
        self.partition_counts: dict[str, int] = {}
        self.topic_ids: dict[str, str] = {}
        self.last_topic_ids: dict[str, str] = {}  # also of deleted topics: for facts
        self.topic_errors: dict[str, Errors] = {}
        self.version = 0  # counts the changes
        self.listeners: list[Callable[[int], None]] = []
        # Called with an error and the topics that a response refused with it, for a poll() to raise
        # (Metadata.maybeThrowAnyException).
        self.on_refused: Callable[[Errors, tuple[str, ...]], None] | None = None
        self._key = ("metadata", connections.name)
        self._in_flight = False
        self._asked_all = False  # whether the request in flight asks for all topics
        self._update_requested = False
        self._skips_backoff = False  # the next request does not wait for the backoff
        self._backs_off = backs_off
        self._attempts = 0  # that failed, since the last response
        self._equivalent = 0  # responses since the last that told something new
        self._last_refresh_us: int | None = None
        self._closed = False
        self._rebootstraps = connections.config.metadata_recovery_strategy == "rebootstrap"
        self._trigger_key = ("rebootstrap", connections.name)  # armed while metadata is sought

    def add_topics(self, topics: tuple[str, ...], now: int) -> None:
        """Add topics to those asked for; request a new one at once, without backoff."""
        new = [topic for topic in topics if topic not in self.topics]
        self.topics.update(dict.fromkeys(new))
        if new:
            self.request_update_for_new_topics(now)

    def set_topics(self, topics: tuple[str, ...], now: int) -> None:
        """Ask for exactly these topics from now on."""
        for topic in [topic for topic in self.topics if topic not in topics]:
            del self.topics[topic]
        self.add_topics(topics, now)

    def set_pattern(self, pattern: re.Pattern[str] | None, now: int) -> None:
        """Ask for all topics, and know those whose whole names match; None ends that."""
        self.pattern = pattern
        self.pattern_answered = False
        if pattern is not None:
            self.request_update_for_new_topics(now)

    def matching(self) -> tuple[str, ...]:
        """Return the sorted topics that the pattern matches; internal ones never do.

        Models exclude.internal.topics, which is true by default.
        """
        return tuple(sorted([topic for topic in self.partition_counts if self._matches(topic)]))

    def _matches(self, topic: str) -> bool:
        pattern = self.pattern
        known = pattern is not None and topic not in COORDINATOR_TOPICS
        return known and pattern is not None and pattern.fullmatch(topic) is not None

    def request_update_for_new_topics(self, now: int) -> None:
        """Refresh the metadata at once, without backoff."""
        self._skips_backoff = True
        self.request_update(now, fresh=True)

    def request_update(self, now: int, *, fresh: bool = False) -> None:
        """Refresh the metadata as soon as the backoff allows (requestUpdate).

        ``fresh``: the equivalent responses so far do not count (resetEquivalentResponseBackoff). It
        is for what asks for something new, not for what retries.
        """
        if fresh:
            self._equivalent = 0
        self._update_requested = True
        if not self._in_flight:
            self._try_send(now)

    def refresh(self, now: int) -> bool:
        """Refresh the metadata unless the backoff forbids it; return whether a response is due.

        One may be due already (updateRequested, timeToAllowUpdate).
        """
        last = self._last_refresh_us
        if not self._update_requested and not self._in_flight:
            if last is None or now >= last + self._backoff_us():
                self.request_update(now, fresh=True)
        return self._update_requested or self._in_flight

    def current_leader(self, tp: TopicPartition) -> LeaderAndEpoch:
        """Return the leader of a partition; −1 if metadata names none, or not its address."""
        known = self.leaders.get(tp, NO_LEADER)
        return known if known.leader in self.brokers else LeaderAndEpoch(-1, known.epoch)

    def update_leader(self, tp: TopicPartition, leader: tuple[int, int] | None, now: int) -> None:
        """Take the leader (id, epoch) that an error response named, if newer (KIP-951)."""
        if leader is None or leader[1] < 0 or not self.rules.takes_named_leader():
            return
        cached = self.leaders.get(tp)
        if cached is not None and leader[1] > cached.epoch and leader[0] in self.brokers:
            self.leaders[tp] = LeaderAndEpoch(*leader)
            self._changed(now)

    def epoch_seen(self, tp: TopicPartition, epoch: int, now: int) -> None:
        """Refresh if a response named a newer leader epoch (updateLastSeenEpochIfNewer).

        The leader is unknown until metadata of that epoch comes (Metadata.currentLeader): the
        cached one is deposed, and so is the one that a broker with stale metadata names.
        """
        cached = self.leaders.get(tp)
        if cached is not None and epoch > cached.epoch:
            self.leaders[tp] = LeaderAndEpoch(-1, epoch)
            self.version += 1
            self.request_update(now)

    def available(self, topic: str) -> list[int]:
        """Return the partitions of a topic that have a leader (availablePartitionsForTopic).

        A broker that has not heard of all partitions names those that it knows.
        """
        known = [partition.partition for partition in self._replicas[topic]]
        return [each for each in known if self.leaders[TopicPartition(topic, each)].leader >= 0]

    def replica_racks(self, topic: str) -> tuple[frozenset[str | None], ...]:
        """Return for each partition of a topic the racks of its replicas; () for no metadata.

        None stands for a broker without a rack, or that is not available.
        """
        if topic not in self.partition_counts:
            return ()
        racks = self._racks
        return tuple(
            [
                frozenset([racks.get(replica) for replica in partition.replicas])
                for partition in self._replicas[topic]
            ]
        )

    def close(self) -> None:
        """Stop refreshing; ignore the response in flight."""
        self._closed = True
        self.process.timers.cancel(self._key)
        self.process.timers.cancel(self._trigger_key)

    # The inside.

    def _try_send(self, now: int) -> None:
        if self._closed or self._in_flight:
            return
        last = self._last_refresh_us
        if last is not None and not self._skips_backoff:
            not_before = last + self._backoff_us()
            if now < not_before:
                self._arm_earlier(not_before)
                return
        if self._rebootstraps and not self.process.timers.armed(self._trigger_key):
            self._arm_trigger(now)
        channel = self.connections.least_loaded(now)
        if channel is None and self._rebootstraps and not self.connections.bootstrapping:
            self._rebootstrap("no-node", now)
            if self._in_flight:
                return  # a listener has asked for an update
            channel = self.connections.least_loaded(now)
        if channel is None:
            self._arm_earlier(max(now + 1, self.connections.next_attempt()))
            return
        self._in_flight = True
        self._update_requested = False
        self._skips_backoff = False
        self.process.timers.cancel(self._key)
        wanted = tuple(self.topics) if self.pattern is None else None
        request = MetadataRequest(wanted, self.auto_create)
        self._asked_all = wanted is None
        channel.send(request, now, self._on_response)

    def _backoff_us(self) -> int:
        """Return how far apart the last answer and the next request are (timeToAllowUpdate)."""
        if not self._backs_off:
            return self.config.retry_backoff_ms * 1000
        return self.connections.backoff.after_us(max(self._attempts, self._equivalent))

    def _arm_earlier(self, deadline: int) -> None:
        armed = self.process.timers.deadline(self._key)
        if armed is None or deadline < armed or not self._update_requested:
            self.process.timers.arm(self._key, deadline, "main", self._on_timer)

    def _on_timer(self, now: int) -> None:
        self._skips_backoff = True  # this timer was the backoff
        self.request_update(now)

    def _on_age(self, now: int) -> None:
        self._equivalent = 0
        self._on_timer(now)

    def _on_response(self, response: Any, now: int) -> None:
        self._in_flight = False
        self._last_refresh_us = now
        if self._closed:
            return
        if not isinstance(response, MetadataResponse) or not response.brokers:
            self._attempts += 1
            self._equivalent = 0
            self.request_update(now)
            return
        self._attempts = 0
        self._equivalent += 1
        incomplete = self._update_requested = self._skips_backoff  # for topics that came meanwhile
        self._skips_backoff = False
        self.brokers = {b.id: b.address for b in response.brokers}
        self.controller_id = response.controller_id
        self._racks = {b.id: b.rack for b in response.brokers if b.rack is not None}
        self.connections.use_brokers(self.brokers)
        self.process.timers.cancel(self._trigger_key)
        for topic in response.topics:
            if not self._asked_all or topic.topic in self.topics or self._matches(topic.topic):
                incomplete |= self._update_topic(topic)
        if self._asked_all:
            self._forget_absent(response)
        if self.on_refused is not None:
            self._tell_refused(response, self.on_refused)
        self._changed(now)
        if incomplete or self._update_requested:
            self.request_update(now)
        elif not self._in_flight:
            age = self.config.metadata_max_age_ms * 1000
            self.process.timers.arm(self._key, now + age, "main", self._on_age)

    def _tell_refused(
        self, response: MetadataResponse, tell: Callable[[Errors, tuple[str, ...]], None]
    ) -> None:
        """Tell of the topics that may not be described, else of those without a valid name."""
        for error in (Errors.TOPIC_AUTHORIZATION_FAILED, Errors.INVALID_TOPIC_EXCEPTION):
            refused = tuple([each.topic for each in response.topics if each.error is error])
            if refused:
                tell(error, refused)
                return

    def _arm_trigger(self, now: int) -> None:
        limit = self.config.metadata_recovery_rebootstrap_trigger_ms * 1000 + 1
        self.process.timers.arm(self._trigger_key, now + limit, "main", self._on_trigger)

    def _on_trigger(self, now: int) -> None:
        """Drop all connections and start again (NetworkClient.handleRebootstrap)."""
        channels = self.connections.rebootstrap()
        self._rebootstrap("trigger", now)
        for channel in channels:
            channel.close(now)

    def _rebootstrap(self, reason: str, now: int) -> None:
        """Forget all but the leader epochs seen; know the bootstrap servers only.

        Models Metadata.rebootstrap: the snapshot is replaced, lastSeenLeaderEpochs is not.
        """
        self.connections.rebootstrap()
        self.brokers = {}
        self.partition_counts.clear()
        self.topic_ids.clear()
        self.topic_errors.clear()
        for tp, known in self.leaders.items():
            self.leaders[tp] = LeaderAndEpoch(-1, known.epoch)
        self._arm_trigger(now)
        self.process.out.append(Rebootstrapped(self.connections.name, reason))
        self._changed(now)

    def _on_disconnected(self, _node_id: int, now: int) -> None:
        self.request_update(now)  # the node may be gone

    def _changed(self, now: int) -> None:
        self.version += 1
        for listener in self.listeners:
            listener(now)

    def _update_topic(self, topic: MetadataTopic) -> bool:
        """Take over one topic; return whether its metadata is incomplete: it is asked for again."""
        name = topic.topic
        self.topic_errors[name] = topic.error
        if topic.error:
            if topic.error is Errors.UNKNOWN_TOPIC_OR_PARTITION:
                self._forget(name)
            return topic.error in INVALID_METADATA and name in self.topics
        if self.rules.is_another_topic(self.topic_ids.get(name), topic.topic_id):
            self._forget(name)
            self._equivalent = 0
        self.topic_ids[name] = self.last_topic_ids[name] = topic.topic_id
        self.partition_counts[name] = len(topic.partitions)
        self._replicas[name] = topic.partitions
        incomplete = False
        for partition in topic.partitions:
            tp = TopicPartition(name, partition.partition)
            cached = self.leaders.get(tp)
            if cached is None or partition.leader_epoch > cached.epoch:
                self._equivalent = 0
            if cached is None or self.rules.accepts_leader(cached.epoch, partition.leader_epoch):
                self.leaders[tp] = LeaderAndEpoch(partition.leader, partition.leader_epoch)
            if partition.leader < 0 or partition.error in INVALID_METADATA:
                incomplete = True
        return incomplete

    def _forget_absent(self, response: MetadataResponse) -> None:
        """Forget the topics that a response with all topics does not have: they were deleted."""
        self.pattern_answered = self.pattern is not None
        present = {topic.topic for topic in response.topics}
        for topic in [topic for topic in self.partition_counts if topic not in present]:
            self._forget(topic)

    def _forget(self, topic: str) -> None:
        for partition in range(self.partition_counts.pop(topic, 0)):
            self.leaders.pop(TopicPartition(topic, partition), None)
        self.topic_ids.pop(topic, None)
