"""A member of a share group: ShareMembershipManager and ShareHeartbeatRequestManager (KIP-932).

The states are those of a consumer group's member. A share group's member gives nothing up slowly:
there is no listener to call and nothing to commit, so it takes an assignment at once. Its heartbeat
says its topics, and nothing of what it holds.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from kafkasim.model.client.consumer.group.lookup import CoordinatorLookup
from kafkasim.model.client.consumer.modern.heartbeat import HeartbeatManager
from kafkasim.model.client.consumer.modern.member_state import MemberState
from kafkasim.model.client.consumer.modern.membership_manager import ConsumerMembershipManager
from kafkasim.model.errors import Errors
from kafkasim.model.messages.share import ShareGroupHeartbeatRequest, ShareGroupHeartbeatResponse

if TYPE_CHECKING:
    from collections.abc import Callable

    from kafkasim.model.client.consumer.modern.epoch_membership import EpochMembership
    from kafkasim.model.client.consumer.poll import Poll
    from kafkasim.model.client.consumer.subscription import SubscriptionState, TopicPartitionState
    from kafkasim.model.client.net.metadata import Metadata
    from kafkasim.model.client.rules import ClientRules
    from kafkasim.model.config import ConsumerConfig


class NoCommits:
    """A share group has no committed offsets."""

    auto = False

    def commit(
        self,
        offsets: Any,
        reason: str,
        timeout_us: int,
        now: int,
        done: Callable[[Errors, int], None],
    ) -> None:
        """Do nothing, with success."""
        done(Errors.NONE, now)

    def on_assigned(self, now: int) -> None:
        """Do nothing."""

    def positioned(self, state: TopicPartitionState, source: str) -> None:
        """Do nothing: a member has no position."""


class ShareMembershipManager(ConsumerMembershipManager):
    """The state of one member; an assignment is taken without asking the application."""

    def on_heartbeat_success(self, response: Any, now: int) -> None:
        """Take the epoch, and the assignment if there is one."""
        super().on_heartbeat_success(response, now)
        self.settle(now)

    def tell(self, fact: Any) -> None:
        """Record nothing: several members of a share group have the same partition."""

    def settle(self, now: int) -> None:
        """Do what follows the events for which a consumer group asks the application."""
        while self.events:
            self.events.popleft()[2](now)


class ShareHeartbeatManager(HeartbeatManager):
    """Sends the heartbeats of a share group's member."""

    response_type = ShareGroupHeartbeatResponse

    def _request(self) -> ShareGroupHeartbeatRequest:
        """Return a heartbeat with what has changed (HeartbeatState.buildRequestData)."""
        topics, sent = self._subscription.topics, self._sent
        everything = self._member.state is MemberState.JOINING or sent.topics != topics
        sent.topics = topics
        return ShareGroupHeartbeatRequest(
            self._config.group_id,
            self._membership.member_id,
            self._membership.generation_id,
            self._config.client_rack or None,
            topics if everything else None,
            self._config.client_id,
        )


class ShareGroupMember:
    """Joins, keeps and leaves a share group."""

    def __init__(
        self,
        config: ConsumerConfig,
        rules: ClientRules,
        metadata: Metadata,
        subscription: SubscriptionState,
        membership: EpochMembership,
        poll: Poll,
    ) -> None:
        nothing = NoCommits()
        self._lookup = lookup = CoordinatorLookup(metadata.connections, config.group_id, poll)
        self.manager = ShareMembershipManager(
            config, rules, metadata, subscription, membership, nothing, nothing, poll
        )
        self._heartbeat = ShareHeartbeatManager(
            config, lookup, subscription, membership, self.manager, poll
        )
        self.manager.heartbeat = self._heartbeat.advance

    def on_subscribed(self) -> None:
        """Join with the next poll(), or tell of the topics by the next heartbeat."""
        self.manager.on_subscription_updated()

    def poll(self, now: int) -> None:
        """Note that the application polls."""
        self.manager.maybe_reconcile(can_commit=False, now=now)
        self.manager.settle(now)
        self.manager.on_consumer_poll(now)
        self._heartbeat.on_poll(now)
        self._heartbeat.advance(now)
        self.manager.settle(now)

    def close(self, now: int, done: Callable[[int], None]) -> None:
        """Leave the group, then call ``done(now)``."""

        def left(at: int) -> None:
            self._heartbeat.stop()
            self._lookup.close()
            done(at)

        self.manager.give_up_all()
        self.manager.leave(now, left)
