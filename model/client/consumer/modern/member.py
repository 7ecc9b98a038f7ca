"""The membership of a consumer with group.protocol=consumer, as KafkaConsumer drives it (KIP-848).

It stands where :class:`~kafkasim.model.client.consumer.group.coordinator.ConsumerCoordinator` does
for the classic protocol. Kafka has a background thread for all requests; here it is the lane
``heartbeat``, on which heartbeats go on while the application works.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from kafkasim.model.client.consumer.group.commits import OffsetCommits
from kafkasim.model.client.consumer.group.committed import CommittedOffsets
from kafkasim.model.client.consumer.group.lookup import CoordinatorLookup
from kafkasim.model.client.consumer.modern.heartbeat import HeartbeatManager
from kafkasim.model.client.consumer.modern.membership_manager import ConsumerMembershipManager
from kafkasim.model.errors import Errors

if TYPE_CHECKING:
    from collections.abc import Callable

    from kafkasim.model.client.consumer.modern.epoch_membership import EpochMembership
    from kafkasim.model.client.consumer.offset_fetcher import OffsetFetcher
    from kafkasim.model.client.consumer.poll import Poll
    from kafkasim.model.client.consumer.subscription import SubscriptionState
    from kafkasim.model.client.net.metadata import Metadata
    from kafkasim.model.client.rules import ClientRules
    from kafkasim.model.config import ConsumerConfig

CLOSE_TIMEOUT_US = 30_000_000


class ConsumerGroupMember:
    """Joins, keeps and leaves a consumer group."""

    def __init__(
        self,
        config: ConsumerConfig,
        rules: ClientRules,
        metadata: Metadata,
        subscription: SubscriptionState,
        membership: EpochMembership,
        offset_fetcher: OffsetFetcher,
        poll: Poll,
    ) -> None:
        self._config = config
        self._subscription = subscription
        self._metadata = metadata
        self._matched_version = -1  # of the metadata
        self._poll = poll
        self._lookup = lookup = CoordinatorLookup(metadata.connections, config.group_id, poll)
        self.commits = OffsetCommits(
            config, rules, lookup, membership, self, subscription, metadata, poll
        )
        self.committed = CommittedOffsets(
            config, rules, lookup, subscription, membership, metadata, offset_fetcher, poll
        )
        self.manager = manager = ConsumerMembershipManager(
            config, rules, metadata, subscription, membership, self.commits, offset_fetcher, poll
        )
        self._heartbeat = HeartbeatManager(config, lookup, subscription, membership, manager, poll)
        manager.heartbeat = self._heartbeat.advance

    def on_subscribed(self) -> None:
        """Take a new subscription: join with the next poll(), or tell by the next heartbeat."""
        self.manager.on_subscription_updated()

    def note_changes(self) -> None:
        """Do nothing about new metadata: the coordinator watches the topics."""

    def poll(self, now: int) -> bool:
        """Do what the group needs next (ApplicationEventProcessor.process of a PollEvent).

        Return whether the poll() goes on; it does not if it has ended with an event.
        """
        manager = self.manager
        if self._subscription.auto_assigned:
            self._match_pattern()
            manager.maybe_reconcile(can_commit=True, now=now)
            self.commits.auto_commit(now)
            manager.on_consumer_poll(now)
            self._heartbeat.on_poll(now)
            self._heartbeat.advance(now)
            if manager.events:
                kind, partitions, then = manager.events.popleft()
                self._poll.end_with_event(kind, partitions, then)
                return False
        else:
            if self._lookup.channel is None:
                self._lookup.find(now)
            self.commits.auto_commit(now)
        return True

    def _match_pattern(self) -> None:
        """Take over what metadata says of a pattern that is matched here.

        The member joins or tells of its topics also if they are none (updatePatternSubscription).
        """
        if self._subscription.by_pattern and self._matched_version != self._metadata.version:
            self._matched_version = self._metadata.version
            self._subscription.topics = self._metadata.matching()
            self.manager.on_subscription_updated()

    def unsubscribe(self, now: int) -> None:
        """Give the partitions up and leave by a last heartbeat (leaveGroup)."""
        if self._subscription.auto_assigned:
            self.manager.unsubscribe(now)

    def close(self, now: int, done: Callable[[int], None]) -> None:
        """Commit if auto-commit is on, give the partitions up, leave, then call ``done(now)``.

        Models AsyncKafkaConsumer.close; all of it takes 30 s at most.
        """
        process, key = self._poll.process, ("close", self._poll.name)
        over = False

        def closed(at: int) -> None:
            nonlocal over
            if not over:
                over = True
                process.timers.cancel(key)
                self._heartbeat.stop()
                self._lookup.close()
                done(at)

        def committed(_error: Errors, at: int) -> None:
            if over:
                return
            if self._subscription.auto_assigned:
                self.manager.give_up_all()
            self.manager.leave(at, closed)

        process.timers.arm(key, now + CLOSE_TIMEOUT_US, "main", closed)
        if self.commits.auto:
            consumed = self._subscription.consumed()
            self.commits.commit(consumed, "auto", CLOSE_TIMEOUT_US, now, committed)
        else:
            committed(Errors.NONE, now)

    # What commits may cause in a classic member; a member of a consumer group learns of all that by
    # its heartbeats (CommitRequestManager).

    def request_rejoin(self, reason: str) -> None:
        """Do nothing."""

    def reset_generation(self, reason: str, keep_member_id: bool = False) -> None:
        """Do nothing."""

    def on_fenced(self, now: int) -> None:
        """Do nothing."""

    def on_poll_timeout(self, now: int) -> None:
        """Do nothing."""
