"""Group membership on the client: Kafka's AbstractCoordinator and ConsumerCoordinator (eager).

    UNJOINED --join--> PREPARING --JoinGroup--> COMPLETING --SyncGroup--> STABLE

A rebalance has three parts that poll() drives, as in Kafka: prepare (commit if auto-commit is on,
then revoke, or lose what the group has taken away), join and sync, complete (assign). The
coordinator connection and the heartbeat are on lane ``heartbeat``: heartbeats go on while the
application works, and a member whose application stays away from poll() for max.poll.interval.ms
leaves the group. A JoinGroup answer is handled inside poll() only: the heartbeat thread sleeps
while a member joins.

Not modelled: cooperative rebalancing (KIP-429), KIP-848, pattern subscription; a leader that lacks
metadata of another member's topic assigns without it and rebalances when it has it.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from kafkasim.model.channel import Channel, Failed
from kafkasim.model.client.consumer.lookup import CoordinatorLookup
from kafkasim.model.client.exceptions import KafkaError
from kafkasim.model.client.net.connections import backoff_us
from kafkasim.model.errors import RETRIABLE, Errors
from kafkasim.model.facts import ConsumerAssigned, ConsumerRevoked, Rebalanced
from kafkasim.model.group.assignors import ASSIGNORS
from kafkasim.model.messages import (
    JoinGroupRequest,
    JoinGroupResponse,
    LeaveGroupRequest,
    Subscription,
    SyncGroupRequest,
    SyncGroupResponse,
)
from kafkasim.model.records import TopicPartition

if TYPE_CHECKING:
    from collections.abc import Callable

    from kafkasim.model.client.consumer.commits import OffsetCommits
    from kafkasim.model.client.consumer.consumer import KafkaConsumer
    from kafkasim.model.client.consumer.heartbeat import Heartbeat

UNJOINED = "UNJOINED"
PREPARING = "PREPARING_REBALANCE"
COMPLETING = "COMPLETING_REBALANCE"
STABLE = "STABLE"

UNKNOWN_COORDINATOR = (Errors.COORDINATOR_NOT_AVAILABLE, Errors.NOT_COORDINATOR)


class ConsumerCoordinator:
    """A consumer's membership in its group."""

    commits: OffsetCommits
    heartbeat: Heartbeat

    def __init__(self, consumer: KafkaConsumer) -> None:
        self.consumer = consumer
        self.process = consumer.process
        self.config = consumer.config
        self.subscription = consumer.subscription
        self.metadata = consumer.metadata
        self.lookup = CoordinatorLookup(self)
        self.state = UNJOINED
        self.generation_id = -1
        self.member_id = ""
        self.protocol_name: str | None = None
        self.rejoin_needed = True
        self.channel: Channel | None = None  # to the coordinator; None while unknown
        self._needs_prepare = True
        self._in_callback = False
        self._join_in_flight = False
        self._join_attempts = 0
        self._join_not_before = 0
        self._join_started_us: int | None = None
        self._join_answer: Any = None  # arrived while no poll() ran
        self._assignment: tuple[TopicPartition, ...] | None = None  # synced, not yet completed
        self._joined_topics: tuple[str, ...] = ()
        self._assigned_counts: dict[str, int] | None = None  # what a leader's assignment used
        self.find = self.lookup.find

    # Driven by poll().

    def step(self, now: int) -> bool:
        """Go on with whatever the group needs; True when the assignment is in use."""
        if self._in_callback:
            return False
        if self.channel is None:
            self.find(now)
            return False
        if self._joining:
            if self._join_answer is not None:
                answer, self._join_answer = self._join_answer, None
                self._handle_join(answer, now)
            return False
        if self._assignment is not None:
            self._complete(now)
            return False
        if self.rejoin_needed or self._changed():
            self._rejoin(now)
            return False
        return True

    @property
    def settled(self) -> bool:
        """Whether step() has nothing to do."""
        return (
            self.state is STABLE
            and not self.rejoin_needed
            and self.channel is not None
            and self._assignment is None
            and not self._in_callback
        )

    @property
    def rebalancing(self) -> bool:
        """Whether a join or sync is under way."""
        return self.state in (PREPARING, COMPLETING)

    @property
    def _joining(self) -> bool:
        return self._join_in_flight or self._join_answer is not None

    def _changed(self) -> bool:
        """Whether the subscription or, for the leader, the partitions changed (rejoinNeeded)."""
        if self._joined_topics != self.subscription.topics:
            return True
        return self._assigned_counts is not None and self._assigned_counts != self._counts(
            tuple(self._assigned_counts)
        )

    def on_metadata(self) -> None:
        """The leader rejoins when partitions were added or a topic appeared."""
        if self.state is STABLE and self._changed():
            self.rejoin_needed = True

    # The coordinator's node.

    def on_found(self, channel: Channel, now: int) -> None:
        """The coordinator is known: whatever waited for it goes on."""
        self.channel = channel
        self.heartbeat.on_coordinator(now)
        self.commits.on_coordinator(now)
        self.consumer.wake(now)

    def forget_coordinator(self, now: int) -> None:
        """The coordinator moved or is gone (markCoordinatorUnknown)."""
        channel, self.channel = self.channel, None
        if channel is not None:
            self.heartbeat.on_coordinator_lost(now)
            channel.close(now)  # what is in flight there fails
            self.consumer.wake(now)

    # Prepare.

    def _rejoin(self, now: int) -> None:
        if now < self._join_not_before:
            self.consumer.wake_at(self._join_not_before)
            return
        known = self.metadata
        for topic in self.subscription.topics:
            if topic not in known.partition_counts and topic not in known.topic_errors:
                return  # the first metadata is on its way, and wakes us
        self.rejoin_needed = True
        if not self._needs_prepare:
            self._send_join(now)
        elif self.commits.prepared(now):
            self._revoke(now)

    def _revoke(self, now: int) -> None:
        """Hand back all partitions, or learn that they are lost, then join."""
        partitions = tuple(self.subscription.assignment)
        lost = self.generation_id < 0 or not self.member_id
        generation, member_id = self.generation_id, self.member_id

        def revoked(_at: int) -> None:
            self._in_callback = False
            self._needs_prepare = False
            self.drop_assignment(partitions, lost, generation, member_id)

        if not partitions:
            self._needs_prepare = False
            self.subscription.assign(())
            self._send_join(now)
            return
        self._in_callback = True
        self.consumer.event("lost" if lost else "revoked", partitions, revoked)

    def drop_assignment(
        self, partitions: tuple[TopicPartition, ...], lost: bool, generation: int, member_id: str
    ) -> None:
        """The partitions are ours no more."""
        for tp in partitions:
            self.consumer.offsets.positioned(self.subscription.assignment[tp], "none")
        self.subscription.assign(())
        names = tuple([str(tp) for tp in partitions])
        self.process.out.append(
            ConsumerRevoked(self.config.group_id, member_id, generation, names, lost)
        )
        self._assigned_counts = None

    # Join and sync.

    def _send_join(self, now: int) -> None:
        channel = self.channel
        assert channel is not None, self.config.group_id
        if self._join_started_us is None:
            self._join_started_us = now
        self.state = PREPARING
        self._joined_topics = self.subscription.topics
        self._join_in_flight = True
        self.rejoin_needed = False
        config = self.config
        subscription = Subscription(self.subscription.topics, (), self.generation_id)
        request = JoinGroupRequest(
            config.group_id,
            config.session_timeout_ms,
            config.max_poll_interval_ms,
            self.member_id,
            config.group_instance_id,
            "consumer",
            tuple([(name, subscription) for name in config.partition_assignment_strategy]),
            config.client_id,
        )
        # JoinGroup waits for the slowest member: the rebalance timeout and 5 s more.
        timeout_us = max(channel.request_timeout_us, config.max_poll_interval_ms * 1000 + 5_000_000)
        channel.send(request, now, self._on_join, timeout_us)

    def _on_join(self, answer: Any, now: int) -> None:
        self._join_in_flight = False
        if self.consumer.polling:
            self._handle_join(answer, now)
            self.consumer.wake(now)
        else:
            self._join_answer = answer

    def _handle_join(self, answer: Any, now: int) -> None:
        if not isinstance(answer, JoinGroupResponse) or answer.error:
            self._on_join_error(answer, now)
            return
        if self.state is not PREPARING:  # left the group meanwhile
            self._retry_join(now, at_once=True)
            return
        self.state = COMPLETING
        self.generation_id = answer.generation_id
        self.member_id = answer.member_id
        self.protocol_name = answer.protocol_name
        self.heartbeat.enable(now)
        assignments: tuple[tuple[str, tuple[TopicPartition, ...]], ...] = ()
        if answer.leader == answer.member_id and not answer.skip_assignment:
            assignments = self._assign(answer, now)
        if self.channel is None:
            self._retry_join(now)
            return
        config = self.config
        self._join_in_flight = True
        self.channel.send(
            SyncGroupRequest(
                config.group_id,
                self.generation_id,
                self.member_id,
                config.group_instance_id,
                "consumer",
                self.protocol_name,
                assignments,
            ),
            now,
            self._on_sync,
        )

    def _assign(
        self, answer: JoinGroupResponse, now: int
    ) -> tuple[tuple[str, tuple[TopicPartition, ...]], ...]:
        topics = sorted({t: None for m in answer.members for t in m.subscription.topics})
        self.metadata.add_topics(tuple(topics), now)
        self._assigned_counts = self._counts(tuple(topics))
        counts = {topic: count for topic, count in self._assigned_counts.items() if count}
        assert answer.protocol_name is not None, answer
        return tuple(ASSIGNORS[answer.protocol_name](answer.members, counts).items())

    def _counts(self, topics: tuple[str, ...]) -> dict[str, int]:
        return {topic: self.metadata.partition_counts.get(topic, 0) for topic in topics}

    def _on_sync(self, answer: Any, now: int) -> None:
        self._join_in_flight = False
        if isinstance(answer, SyncGroupResponse) and not answer.error:
            if self.state is COMPLETING:
                self.state = STABLE
                self._join_attempts = 0
                self._assignment = answer.assignment
            else:
                self._retry_join(now, at_once=True)
        else:
            self._on_join_error(answer, now)
        self.consumer.wake(now)

    def _on_join_error(self, answer: Any, now: int) -> None:
        if isinstance(answer, Failed):
            self.forget_coordinator(now)
            self._retry_join(now)
            return
        error: Errors = answer.error
        if error is Errors.MEMBER_ID_REQUIRED:
            self.member_id = answer.member_id
            self._retry_join(now, at_once=True)
        elif error in (Errors.UNKNOWN_MEMBER_ID, Errors.ILLEGAL_GENERATION):
            self.reset_generation(keep_member_id=error is Errors.ILLEGAL_GENERATION)
            self._retry_join(now, at_once=True)
        elif error is Errors.REBALANCE_IN_PROGRESS:
            self._retry_join(now, at_once=True)
        elif error in RETRIABLE:
            if error in UNKNOWN_COORDINATOR:
                self.forget_coordinator(now)
            self._retry_join(now)
        else:
            self.state = UNJOINED
            self.rejoin_needed = True
            self.consumer.failed = KafkaError(error.name, f"group {self.config.group_id}")

    def _retry_join(self, now: int, at_once: bool = False) -> None:
        self.rejoin_needed = True
        if self.state is not STABLE:
            self.state = UNJOINED
        if not at_once:
            self._join_attempts += 1
            wait = backoff_us(self.config, self._join_attempts, self.process.rng)
            self._join_not_before = now + wait

    def reset_generation(self, keep_member_id: bool) -> None:
        """The group has dropped us (resetStateOnResponseError)."""
        self.state = UNJOINED
        self.generation_id = -1
        if not keep_member_id:
            self.member_id = ""
        self.rejoin_needed = True
        self._assignment = None

    def fenced(self, now: int) -> None:
        """Another process took our group.instance.id: fatal."""
        self.reset_generation(keep_member_id=False)
        self.consumer.failed = KafkaError(Errors.FENCED_INSTANCE_ID.name, self.config.group_id)
        self.consumer.wake(now)

    # Complete.

    def _complete(self, now: int) -> None:
        assert self._assignment is not None
        partitions, self._assignment = self._assignment, None
        if any(tp.topic not in self.subscription.topics for tp in partitions):
            self.rejoin_needed = True
            return
        self._needs_prepare = True
        self.subscription.assign(partitions)
        self.consumer.positions_changed()
        self.commits.restart_auto_commit(now)
        assert self._join_started_us is not None
        config = self.config
        names = tuple([str(tp) for tp in sorted(partitions)])
        out = self.process.out
        out.append(ConsumerAssigned(config.group_id, self.member_id, self.generation_id, names))
        took = now - self._join_started_us
        out.append(Rebalanced(config.group_id, self.member_id, self.generation_id, took))
        self._join_started_us = None
        self._in_callback = True
        self.consumer.event("assigned", tuple(sorted(partitions)), self._after_assigned)

    def _after_assigned(self, now: int) -> None:
        self._in_callback = False

    # Leave.

    def leave(self, reason: str, now: int, done: Callable[[Any, int], None] | None = None) -> bool:
        """Leave the group, if we are in it as a dynamic member; return whether a request went."""
        sent = False
        if (
            self.config.group_instance_id is None
            and self.channel is not None
            and self.state is not UNJOINED
            and self.member_id
        ):
            members = ((self.member_id, None, reason),)
            request = LeaveGroupRequest(self.config.group_id, members)
            self.channel.send(request, now, done or _ignore)
            sent = True
        self.reset_generation(keep_member_id=False)
        return sent

    def close(self) -> None:
        """Close the coordinator connections."""
        self.heartbeat.disable()
        self.lookup.close()


def _ignore(answer: Any, now: int) -> None:
    """Whatever the answer to a farewell."""
