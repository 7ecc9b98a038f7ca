"""A consumer's membership in its group: Kafka's ConsumerCoordinator.

A rebalance has three parts, which poll() drives one after the other:

    prepare   commit if auto-commit is on, then give partitions up: as lost all of them, if the
              group has dropped this member; else as revoked those that the protocol says
    join      JoinGroup, the leader assigns, SyncGroup (``join.py``)
    complete  take the new assignment

The eager protocol revokes all partitions in the first part. The cooperative one (KIP-429) keeps
those of subscribed topics, and poll() goes on to return their records. In the third part it revokes
what is not in the new assignment, and then joins again, so that others can have it.

The connection to the coordinator and the heartbeat are on the lane ``heartbeat``, so that
heartbeats go on while the application works. A member whose application does not poll for
max.poll.interval.ms leaves the group.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from kafkasim.model.client.consumer.group.assignors import GroupAssignors, Partitions
from kafkasim.model.client.consumer.group.commits import OffsetCommits
from kafkasim.model.client.consumer.group.committed import CommittedOffsets
from kafkasim.model.client.consumer.group.heartbeat import Heartbeat
from kafkasim.model.client.consumer.group.join import GroupJoin
from kafkasim.model.client.consumer.group.lookup import CoordinatorLookup
from kafkasim.model.client.consumer.group.membership import Membership, MemberState
from kafkasim.model.client.exceptions import KafkaError
from kafkasim.model.errors import Errors
from kafkasim.model.facts import ConsumerAssigned, ConsumerRevoked, Rebalanced
from kafkasim.model.messages import LeaveGroupRequest

if TYPE_CHECKING:
    from collections.abc import Callable

    from kafkasim.model.client.consumer.offset_fetcher import OffsetFetcher
    from kafkasim.model.client.consumer.poll import Poll
    from kafkasim.model.client.consumer.subscription import SubscriptionState
    from kafkasim.model.client.net.metadata import Metadata
    from kafkasim.model.client.rules import ClientRules
    from kafkasim.model.config import ConsumerConfig

CLOSE_TIMEOUT_US = 30_000_000


class ConsumerCoordinator:
    """Joins, keeps and leaves the group.

    It and its :class:`GroupJoin` are the only writers of the :class:`Membership`.
    """

    def __init__(
        self,
        config: ConsumerConfig,
        rules: ClientRules,
        metadata: Metadata,
        subscription: SubscriptionState,
        membership: Membership,
        offset_fetcher: OffsetFetcher,
        poll: Poll,
    ) -> None:
        self._config = config
        self._metadata = metadata
        self._subscription = subscription
        self._membership = membership
        self._offset_fetcher = offset_fetcher
        self._poll = poll
        self._process = poll.process
        self._lookup = lookup = CoordinatorLookup(
            metadata.connections, config.group_id, poll, metadata
        )
        self._heartbeat = heartbeat = Heartbeat(config, lookup, membership, self, poll)
        self.commits = OffsetCommits(
            config, rules, lookup, membership, self, subscription, metadata, poll
        )
        self.committed = CommittedOffsets(
            config, rules, lookup, subscription, membership, metadata, offset_fetcher, poll
        )
        self._assignors = GroupAssignors(config, rules, metadata, subscription, membership)
        self._join = GroupJoin(config, lookup, membership, heartbeat, self, self._assignors, poll)
        metadata.listeners.append(self._join.on_metadata)
        self._rejoin_needed = True
        self._rejoin_reason = ""
        self._needs_prepare = True
        self._in_callback = False  # the application handles an event of the rebalance
        self._joined_topics: tuple[str, ...] = ()
        self._stale_version: int | None = None  # of metadata that a pattern waits for; −1: for none

    # Driven by poll().

    def poll(self, now: int) -> bool:
        """Do what the group needs next (ConsumerCoordinator.poll).

        Return whether the assignment is in use; a poll() that has ended with an event returns
        False. A consumer without a subscription needs the coordinator for its commits only.
        """
        if self._subscription.auto_assigned:
            self._heartbeat.on_poll(now)
            settled = (
                self._membership.state is MemberState.STABLE
                and not self._rejoin_needed
                and self._lookup.channel is not None
                and self._join.assignment is None
                and not self._in_callback
            )
            if not settled and not self._step(now):
                return False
        elif self._lookup.channel is None:
            self._lookup.find(now)
        self.commits.auto_commit(now)
        return True

    def _step(self, now: int) -> bool:
        """Do one step of a rebalance; return whether there is nothing to do."""
        if self._in_callback:
            return False
        if self._lookup.channel is None:
            self._lookup.find(now)
            return False
        if self._join.under_way:
            self._join.handle_late_response(now)
            return False
        if self._join.assignment is not None:
            self._complete(now)
            return False
        self._require_rejoin_after_change()
        if self._rejoin_needed:
            self._rejoin(now)
            return False
        return True

    def on_subscribed(self) -> None:
        """Take a new subscription."""
        self.note_changes()

    def note_changes(self) -> None:
        """Have a stable member join again if its subscription or, of a leader, a topic changed."""
        if self._membership.stable:
            self._require_rejoin_after_change()

    def _require_rejoin_after_change(self) -> None:
        """Compare with the last JoinGroup (ConsumerCoordinator.rejoinNeededOrPending)."""
        if self._rejoin_needed:
            return
        if self._assignors.assigned_changed():
            self.request_rejoin("cached metadata has changed")
        elif self._joined_topics != self._subscription.topics:
            self.request_rejoin("subscription has changed")

    # What heartbeats and commits may cause (MemberEvents).

    def request_rejoin(self, reason: str) -> None:
        """Join again at the next poll()."""
        self._rejoin_needed = True
        self._rejoin_reason = reason

    def reset_generation(self, reason: str, keep_member_id: bool = False) -> None:
        """Join anew: the coordinator has dropped this member (resetStateAndRejoin)."""
        self._membership.reset(keep_member_id)
        self.request_rejoin(reason)
        self._needs_prepare = True
        self._join.take_assignment()

    def on_fenced(self, now: int) -> None:
        """Fail the next poll(): another process has taken the group.instance.id."""
        self.reset_generation("encountered FENCED_INSTANCE_ID")
        self._poll.fail(
            KafkaError(Errors.FENCED_INSTANCE_ID.name, f"group {self._config.group_id}")
        )
        self._poll.wake(now)

    def on_poll_timeout(self, now: int) -> None:
        """Leave the group until the application polls again."""
        self._leave("consumer poll timeout has expired.", now, _ignore)

    # Prepare and join.

    def _rejoin(self, now: int) -> None:
        if not self._join.backoff_is_over(now):
            return
        known = self._metadata
        if self._subscription.by_pattern and not self._pattern_is_matched(now):
            return
        for topic in self._subscription.topics:
            if topic not in known.partition_counts and topic not in known.topic_errors:
                return  # the first metadata response is under way and wakes the poll
        self._rejoin_needed = True
        if not self._needs_prepare:
            self._send_join(now)
        elif self.commits.committed_before_rebalance(now, not self._assignors.cooperative):
            self._needs_prepare = False
            gone = self._given_up()
            if gone:
                self._give_up(gone, _unchanged)
            else:
                self._send_join(now)

    def _pattern_is_matched(self, now: int) -> bool:
        """Return whether the pattern is matched with fresh metadata, which a member waits for.

        It asks for new metadata once before it joins (ConsumerCoordinator.poll), so that not every
        change of a topic takes a rebalance for each member. The first answer tells of all topics.
        """
        known = self._metadata
        if self._stale_version is None:
            self._stale_version = known.version if known.refresh(now) else -1
        return known.pattern_answered and known.version != self._stale_version

    def _given_up(self) -> Partitions:
        """Return the partitions that the member gives up before it joins (onJoinPrepare)."""
        owned = tuple(self._subscription.assignment)
        if self._membership.lost or not self._assignors.cooperative:
            return owned
        return tuple([tp for tp in owned if tp.topic not in self._subscription.topics])

    def _give_up(self, partitions: Partitions, then: Callable[[], None]) -> None:
        """Have the application give partitions up; ``then()`` runs when it has."""
        owner = self._membership.copy()  # it may change before the application continues

        def given_up(_at: int) -> None:
            self._in_callback = False
            self._drop(partitions, owner, owner.lost)
            then()

        self._in_callback = True
        self._poll.end_with_event("lost" if owner.lost else "revoked", partitions, given_up)

    def _drop(self, partitions: Partitions, owner: Membership, lost: bool) -> None:
        """Give partitions up, in the name of the membership that owned them."""
        owned = self._subscription.assignment
        partitions = tuple([tp for tp in partitions if tp in owned])
        if not partitions:
            return  # the application has unsubscribed meanwhile
        gone = set(partitions)
        for tp in partitions:
            self._offset_fetcher.positioned(owned[tp], "none")
        self._subscription.assign(tuple([tp for tp in owned if tp not in gone]))
        names = tuple([str(tp) for tp in partitions])
        generation, member_id = owner.generation_id, owner.member_id
        self._process.out.append(
            ConsumerRevoked(self._config.group_id, member_id, generation, names, lost)
        )

    def _send_join(self, now: int) -> None:
        self._joined_topics = self._subscription.topics
        self._rejoin_needed = False
        self._assignors.forget_assigned()
        self._join.send(self._rejoin_reason, now)

    # Complete.

    def _complete(self, now: int) -> None:
        """Take the new assignment and tell the application (onJoinComplete).

        A cooperative member first gives up what it has and the assignment lacks.
        """
        partitions = self._join.assignment
        assert partitions is not None, self._config.group_id
        self._needs_prepare = True
        self._stale_version = None
        self._membership.take_assignment()
        self._accept_matching(partitions)
        if any(tp.topic not in self._subscription.topics for tp in partitions):
            self._join.take_assignment()
            reason = "received assignment does not match the current subscription"
            self.request_rejoin(reason)
            return
        owned = self._subscription.assignment
        revoked = tuple([tp for tp in owned if tp not in partitions])
        if revoked:
            assert self._assignors.cooperative, (self._config.group_id, revoked)
            self._give_up(revoked, self._rejoin_after_revocation)
            return
        self._join.take_assignment()
        self._take(partitions, now)

    def _accept_matching(self, partitions: Partitions) -> None:
        """Subscribe to assigned topics that match the pattern (maybeUpdateJoinedSubscription).

        The leader may have heard of a new topic earlier.
        """
        pattern, topics = self._metadata.pattern, self._subscription.topics
        if pattern is not None:
            wanted = [tp.topic for tp in partitions if pattern.fullmatch(tp.topic)]
            self._subscription.topics = tuple(sorted({*topics, *wanted}))
            self._joined_topics = tuple(sorted({*self._joined_topics, *wanted}))

    def _rejoin_after_revocation(self) -> None:
        self.request_rejoin("need to revoke partitions and re-join")

    def _take(self, partitions: Partitions, now: int) -> None:
        """Use an assignment that has all that the member owns."""
        subscription = self._subscription
        added = tuple(sorted([tp for tp in partitions if tp not in subscription.assignment]))
        failed = self._assignors.on_assignment(self._join.protocol_name, partitions)
        subscription.assign(partitions)
        self.commits.on_assigned(now)
        took_us = self._join.end(now)
        group_id, membership = self._config.group_id, self._membership
        member_id, generation = membership.member_id, membership.generation_id
        names = tuple([str(tp) for tp in added])
        self._process.out.append(ConsumerAssigned(group_id, member_id, generation, names))
        self._process.out.append(Rebalanced(group_id, member_id, generation, took_us))
        self._in_callback = True

        def handled(_now: int) -> None:
            self._in_callback = False
            if failed is not None:
                self._poll.fail(failed)

        self._poll.end_with_event("assigned", added, handled)

    # Leave and close.

    def unsubscribe(self, now: int) -> None:
        """Give the partitions up and leave (onLeavePrepare, maybeLeaveGroup)."""
        membership = self._membership
        if self._subscription.auto_assigned:
            owned = tuple(self._subscription.assignment)
            self._drop(owned, membership, membership.lost or membership.rebalancing)
            self._leave("the consumer unsubscribed from all topics", now, _ignore)

    def close(self, now: int, done: Callable[[int], None]) -> None:
        """Commit if auto-commit is on, give the partitions up, leave, then call ``done(now)``.

        Models ConsumerCoordinator.close: it commits whoever assigned the partitions, and all of it
        takes 30 s at most.
        """
        subscription = self._subscription
        deadline = now + CLOSE_TIMEOUT_US

        def closed(_response: Any, at: int) -> None:
            self._lookup.close()
            done(at)

        def committed(_error: Errors, at: int) -> None:
            self._heartbeat.disable()
            partitions = tuple(subscription.assignment)
            if partitions and subscription.auto_assigned:
                membership = self._membership
                self._drop(partitions, membership, membership.lost or membership.rebalancing)
            leaves = self._config.internal_leave_group_on_close
            reason = "the consumer is being closed"
            if not (leaves and self._leave(reason, at, closed, deadline - at)):
                closed(None, at)

        if self.commits.auto and (self._membership.stable or not subscription.auto_assigned):
            consumed = subscription.consumed()
            self.commits.commit(consumed, "auto", CLOSE_TIMEOUT_US, now, committed)
        else:
            committed(Errors.NONE, now)

    def _leave(
        self, reason: str, now: int, done: Callable[[Any, int], None], timeout_us: int = 0
    ) -> bool:
        """Leave the group; return whether a LeaveGroup was sent, to which ``done`` is called.

        A static member (group.instance.id) sends none: the group keeps its place.
        """
        membership = self._membership
        channel = self._lookup.channel
        sent = False
        if (
            self._config.group_instance_id is None
            and channel is not None
            and membership.state is not MemberState.UNJOINED
            and membership.member_id
        ):
            members = ((membership.member_id, None, reason),)
            channel.send(LeaveGroupRequest(self._config.group_id, members), now, done, timeout_us)
            sent = True
        self.reset_generation("consumer pro-actively leaving the group")
        return sent


def _unchanged() -> None:
    """Do nothing more: the next pass joins."""


def _ignore(_response: Any, _now: int) -> None:
    """Do nothing with the response to a LeaveGroup."""
