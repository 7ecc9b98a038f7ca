"""A consumer's membership in its group: Kafka's ConsumerCoordinator (eager protocol).

A rebalance has three parts, which poll() drives one after the other:

    prepare   commit if auto-commit is on, then give the partitions up (revoked, or lost if the
              group has dropped this member)
    join      JoinGroup, the leader assigns, SyncGroup (``join.py``)
    complete  take the new assignment

The connection to the coordinator and the heartbeat are on the lane ``heartbeat``, so that
heartbeats go on while the application works. A member whose application does not poll for
max.poll.interval.ms leaves the group.

Not modelled: cooperative rebalancing (KIP-429), the protocol of KIP-848. A leader that lacks the
metadata of another member's topic assigns without it, and rebalances when it has it.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from kafkasim.model.client.consumer.group.commits import OffsetCommits
from kafkasim.model.client.consumer.group.committed import CommittedOffsets
from kafkasim.model.client.consumer.group.heartbeat import Heartbeat
from kafkasim.model.client.consumer.group.join import GroupJoin, Partitions
from kafkasim.model.client.consumer.group.lookup import CoordinatorLookup
from kafkasim.model.client.consumer.group.membership import Membership, MemberState
from kafkasim.model.client.exceptions import KafkaError
from kafkasim.model.errors import Errors
from kafkasim.model.facts import ConsumerAssigned, ConsumerRevoked, Rebalanced
from kafkasim.model.group.assignors import ASSIGNORS
from kafkasim.model.messages import JoinGroupResponse, LeaveGroupRequest

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
        self._lookup = lookup = CoordinatorLookup(metadata.connections, config.group_id, poll)
        self._heartbeat = heartbeat = Heartbeat(config, lookup, membership, self, poll)
        self.commits = OffsetCommits(
            config, rules, lookup, membership, self, subscription, metadata, poll
        )
        self.committed = CommittedOffsets(
            config, rules, lookup, subscription, metadata, offset_fetcher, poll
        )
        self._join = GroupJoin(config, lookup, membership, heartbeat, self, self._assign, poll)
        self._rejoin_needed = True
        self._needs_prepare = True
        self._in_callback = False  # the application handles an event of the rebalance
        self._joined_topics: tuple[str, ...] = ()
        self._assigned_counts: dict[str, int] | None = None  # partitions that a leader assigned

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
        if self._rejoin_needed or self._changed():
            self._rejoin(now)
            return False
        return True

    def _changed(self) -> bool:
        """Return whether the subscription or, for the leader, its partitions have changed.

        Models ConsumerCoordinator.rejoinNeededOrPending.
        """
        if self._joined_topics != self._subscription.topics:
            return True
        return self._assigned_counts is not None and self._assigned_counts != self._counts(
            tuple(self._assigned_counts)
        )

    def on_metadata(self) -> None:
        """Have the leader rejoin if partitions were added or a topic has appeared."""
        if self._membership.stable and self._changed():
            self._rejoin_needed = True

    # What heartbeats and commits may cause (MemberEvents).

    def request_rejoin(self) -> None:
        """Join again at the next poll()."""
        self._rejoin_needed = True

    def reset_generation(self, keep_member_id: bool) -> None:
        """Join anew: the coordinator has dropped this member (resetStateOnResponseError)."""
        self._membership.reset(keep_member_id)
        self._rejoin_needed = True
        self._join.take_assignment()

    def on_fenced(self, now: int) -> None:
        """Fail the next poll(): another process has taken the group.instance.id."""
        self.reset_generation(keep_member_id=False)
        self._poll.fail(KafkaError(Errors.FENCED_INSTANCE_ID.name, self._config.group_id))
        self._poll.wake(now)

    def on_poll_timeout(self, now: int) -> None:
        """Leave the group until the application polls again."""
        self._leave("consumer poll timeout has expired.", now, _ignore)

    # Prepare and join.

    def _rejoin(self, now: int) -> None:
        if not self._join.backoff_is_over(now):
            return
        known = self._metadata
        for topic in self._subscription.topics:
            if topic not in known.partition_counts and topic not in known.topic_errors:
                return  # the first metadata response is under way and wakes the poll
        self._rejoin_needed = True
        if not self._needs_prepare:
            self._send_join(now)
        elif self.commits.committed_before_rebalance(now):
            self._revoke(now)

    def _revoke(self, now: int) -> None:
        """Have the application give its partitions up, then join."""
        partitions = tuple(self._subscription.assignment)
        if not partitions:
            self._needs_prepare = False
            self._subscription.assign(())
            self._send_join(now)
            return
        owner = self._membership.copy()  # it may change before the application continues

        def revoked(_at: int) -> None:
            self._in_callback = False
            self._needs_prepare = False
            self._drop_assignment(partitions, owner)

        self._in_callback = True
        self._poll.end_with_event("lost" if owner.lost else "revoked", partitions, revoked)

    def _drop_assignment(self, partitions: Partitions, owner: Membership) -> None:
        """Give all partitions up, in the name of the membership that owned them."""
        for tp in partitions:
            self._offset_fetcher.positioned(self._subscription.assignment[tp], "none")
        self._subscription.assign(())
        names = tuple([str(tp) for tp in partitions])
        generation, member_id = owner.generation_id, owner.member_id
        self._process.out.append(
            ConsumerRevoked(self._config.group_id, member_id, generation, names, owner.lost)
        )

    def _send_join(self, now: int) -> None:
        self._joined_topics = self._subscription.topics
        self._rejoin_needed = False
        self._assigned_counts = None  # who leads the next generation assigns anew
        self._join.send(self._joined_topics, now)

    def _assign(self, response: JoinGroupResponse, now: int) -> tuple[tuple[str, Partitions], ...]:
        """Assign the partitions of all members' topics, as the leader of the group."""
        topics = sorted({t: None for m in response.members for t in m.subscription.topics})
        self._metadata.add_topics(tuple(topics), now)
        self._assigned_counts = self._counts(tuple(topics))
        counts = {topic: count for topic, count in self._assigned_counts.items() if count}
        assert response.protocol_name is not None, response
        return tuple(ASSIGNORS[response.protocol_name](response.members, counts).items())

    def _counts(self, topics: tuple[str, ...]) -> dict[str, int]:
        return {topic: self._metadata.partition_counts.get(topic, 0) for topic in topics}

    # Complete.

    def _complete(self, now: int) -> None:
        """Take the new assignment and tell the application."""
        partitions = self._join.take_assignment()
        assert partitions is not None, self._config.group_id
        if any(tp.topic not in self._subscription.topics for tp in partitions):
            self._rejoin_needed = True
            return
        self._needs_prepare = True
        self._subscription.assign(partitions)
        self.commits.on_assigned(now)
        took_us = self._join.end(now)
        owned = tuple(sorted(partitions))
        group_id, membership = self._config.group_id, self._membership
        member_id, generation = membership.member_id, membership.generation_id
        names = tuple([str(tp) for tp in owned])
        self._process.out.append(ConsumerAssigned(group_id, member_id, generation, names))
        self._process.out.append(Rebalanced(group_id, member_id, generation, took_us))
        self._in_callback = True
        self._poll.end_with_event("assigned", owned, self._on_callback_over)

    def _on_callback_over(self, _now: int) -> None:
        self._in_callback = False

    # Leave and close.

    def close(self, now: int, done: Callable[[], None]) -> None:
        """Commit if auto-commit is on, give the partitions up, leave, then call ``done()``.

        Models ConsumerCoordinator.close: it commits whoever assigned the partitions, and all of it
        takes 30 s at most.
        """
        subscription = self._subscription
        deadline = now + CLOSE_TIMEOUT_US

        def closed(_response: Any, _at: int) -> None:
            self._lookup.close()
            done()

        def committed(_error: Errors, at: int) -> None:
            self._heartbeat.disable()
            partitions = tuple(subscription.assignment)
            if partitions and subscription.auto_assigned:
                self._drop_assignment(partitions, self._membership)
            if not self._leave("the consumer is being closed", at, closed, deadline - at):
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
        self.reset_generation(keep_member_id=False)
        return sent


def _ignore(_response: Any, _now: int) -> None:
    """Do nothing with the response to a LeaveGroup."""
