"""A member of a consumer group: its state, and how it comes to its assignment (KIP-848).

Models AbstractMembershipManager and ConsumerMembershipManager. The coordinator says what the member
should own; the member reconciles what it owns with that, and acknowledges it:

    fetching of what goes is paused ─▶ commit, with auto-commit ─▶ event "revoked" ─▶ event
    "assigned" ─▶ ACKNOWLEDGING: the next heartbeat, at once, says what it owns

Meanwhile it goes on with all partitions that it keeps. The events are those of the application's
rebalance listener; a poll() ends with each (consumer/poll.py). With auto-commit a reconciliation
begins in poll(), so that nothing is fetched behind the offsets that it commits.

Not modelled: a listener that fails.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable
from functools import partial
from typing import TYPE_CHECKING, Any, Protocol

from kafkasim.model.client.consumer.group.commits import RETRIED, REVOKING
from kafkasim.model.client.consumer.modern.member_state import (
    NONE,
    NOT_IN_GROUP,
    PREDECESSORS,
    LocalAssignment,
    MemberState,
)
from kafkasim.model.client.consumer.modern.target import TargetAssignment
from kafkasim.model.client.exceptions import KafkaError
from kafkasim.model.errors import Errors
from kafkasim.model.facts import ConsumerAssigned, ConsumerRevoked, Rebalanced
from kafkasim.model.messages import (
    JOIN_GROUP_MEMBER_EPOCH,
    LEAVE_GROUP_MEMBER_EPOCH,
    LEAVE_GROUP_STATIC_MEMBER_EPOCH,
    ConsumerGroupHeartbeatResponse,
)
from kafkasim.model.records import TopicPartition

if TYPE_CHECKING:
    from kafkasim.model.client.consumer.group.commits import Offsets
    from kafkasim.model.client.consumer.modern.epoch_membership import EpochMembership
    from kafkasim.model.client.consumer.poll import Poll
    from kafkasim.model.client.consumer.subscription import SubscriptionState, TopicPartitionState
    from kafkasim.model.client.net.metadata import Metadata
    from kafkasim.model.client.rules import ClientRules
    from kafkasim.model.config import ConsumerConfig

Partitions = tuple[TopicPartition, ...]
Then = Callable[[int], None]
Event = tuple[str, Partitions, Then]
"""revoked, lost or assigned; the partitions; what follows when the application has handled it."""


class Commits(Protocol):
    """The commits of what the member consumed."""

    @property
    def auto(self) -> bool:
        """Whether auto-commit is on."""
        ...

    def commit(
        self,
        offsets: Offsets,
        reason: str,
        timeout_us: int,
        now: int,
        done: Callable[[Errors, int], None],
    ) -> None:
        """Commit, then call ``done(error, now)``."""
        ...

    def on_assigned(self, now: int) -> None:
        """Take note of a new assignment."""
        ...


class Positions(Protocol):
    """Hears where the member's positions come from."""

    def positioned(self, state: TopicPartitionState, source: str) -> None: ...


class ConsumerMembershipManager:
    """The state of one member; heartbeats and poll() drive it."""

    def __init__(
        self,
        config: ConsumerConfig,
        rules: ClientRules,
        metadata: Metadata,
        subscription: SubscriptionState,
        membership: EpochMembership,
        commits: Commits,
        offset_fetcher: Positions,
        poll: Poll,
    ) -> None:
        self.state = MemberState.UNSUBSCRIBED
        self.current = NONE  # what it has reconciled
        self.events: deque[Event] = deque()  # for the application, in order
        self.heartbeat: Then = _ignore  # called when a heartbeat may be due
        self._target = TargetAssignment(metadata, rules)
        self._config = config
        self._metadata = metadata
        self._subscription = subscription
        self._membership = membership
        self._commits = commits
        self._offset_fetcher = offset_fetcher
        self._poll = poll
        self._process = poll.process
        self._subscription_updated = False
        self._reconciling = False
        self._rejoined_meanwhile = False
        self._releasing = False  # a stale member's partitions, by event "lost"
        self._rejoins_stale = False
        self._started_us = 0  # when the assignment arrived that is reconciled now
        self._left: Then | None = None  # of close()

    # The application.

    def on_subscription_updated(self) -> None:
        """Join with the next poll(); a member that is in the group tells by its next heartbeat."""
        self._subscription_updated = True

    def on_consumer_poll(self, now: int) -> None:
        """Join if the application has subscribed."""
        if self._subscription_updated:
            self._subscription_updated = False
            if self.state is MemberState.UNSUBSCRIBED:
                self._join()

    def unsubscribe(self, now: int) -> None:
        """Give all partitions up and leave; a later subscription joins again (leaveGroup).

        What waits for the application to take an event up finds that its state is over.
        """
        self._subscription_updated = False
        if self.events:
            self._reconciling = self._releasing = False
        self.give_up_all()
        if self.state is MemberState.FENCED:
            self._forget_assignment()
            self._to(MemberState.UNSUBSCRIBED)
        self.leave(now, _ignore)

    def leave(self, now: int, left: Then) -> None:
        """Leave the group; ``left(now)`` is called when the last heartbeat has its answer.

        The partitions are given up already (leaveGroupOnClose).
        """
        if self.state in NOT_IN_GROUP:
            left(now)
            return
        self._left = left
        if self.state not in (MemberState.PREPARE_LEAVING, MemberState.LEAVING):
            self._to(MemberState.PREPARE_LEAVING)
            self._forget_assignment()
            self.send_leave(poll_timer_expired=False, now=now)
        self.heartbeat(now)

    # What heartbeats cause.

    def on_heartbeat_success(self, response: ConsumerGroupHeartbeatResponse, now: int) -> None:
        """Take the epoch, and the assignment if there is one."""
        if self.state is MemberState.LEAVING:
            return
        if self.state is MemberState.UNSUBSCRIBED and self._complete_leave(now):
            return
        if self.state in NOT_IN_GROUP:
            return
        if response.member_epoch < 0:
            self._complete_leave(now)  # the application has subscribed again meanwhile
            return
        self._membership.generation_id = response.member_epoch
        self._membership.take_assignment()
        if response.assignment is None or self.state not in PREDECESSORS[MemberState.RECONCILING]:
            return
        partitions = dict(response.assignment)
        self._target.receive(partitions)
        if not self._target.is_reconciled(self.current):
            if self.state is not MemberState.RECONCILING:
                self._started_us = now
            self._to(MemberState.RECONCILING)
            self.maybe_reconcile(can_commit=False, now=now)
            self._poll.wake(now)
        elif self.state in (MemberState.RECONCILING, MemberState.JOINING):
            self._to(MemberState.STABLE)

    def on_heartbeat_failure(self, now: int) -> None:
        """End a leave: its heartbeat is sent once."""
        if self.state is MemberState.UNSUBSCRIBED:
            self._complete_leave(now)

    def on_heartbeat_generated(self, now: int) -> None:
        """Go on from a state that a heartbeat ends."""
        if self.state is MemberState.ACKNOWLEDGING:
            done = self._target.is_reconciled(self.current)
            if not done:
                self._started_us = now
            self._to(MemberState.STABLE if done else MemberState.RECONCILING)
        elif self.state is MemberState.LEAVING and self._releasing:
            self._to(MemberState.STALE)
            self._lose(self._on_stale_released)
        elif self.state is MemberState.LEAVING:
            self._to(MemberState.UNSUBSCRIBED)

    def on_heartbeat_skipped(self, now: int) -> None:
        """Leave without a heartbeat: the coordinator is unknown."""
        if self.state is MemberState.LEAVING:
            self._to(MemberState.UNSUBSCRIBED)
            self._complete_leave(now)

    def transition_to_fenced(self, now: int) -> None:
        """Give everything up as lost and join again: the coordinator does not know this member."""
        if self.state is MemberState.PREPARE_LEAVING:
            self.send_leave(poll_timer_expired=False, now=now)
        if self.state in (MemberState.LEAVING, MemberState.UNSUBSCRIBED):
            self._to(MemberState.UNSUBSCRIBED)
            self._complete_leave(now)
            return
        self._to(MemberState.FENCED)
        self._membership.generation_id = JOIN_GROUP_MEMBER_EPOCH
        self._lose(self._on_fenced_released)
        self._poll.wake(now)

    def transition_to_fatal(self, error: Errors, now: int) -> None:
        """Fail the next poll(), and give everything up as lost."""
        before = self.state
        self._to(MemberState.FATAL)
        if before in (MemberState.LEAVING, MemberState.PREPARE_LEAVING):
            self._complete_leave(now)
        elif before is not MemberState.UNSUBSCRIBED:
            self._lose(_ignore)
        self._poll.fail(KafkaError(error.name, f"group {self._config.group_id}"))
        self._poll.wake(now)

    def send_leave(self, poll_timer_expired: bool, now: int) -> None:
        """Have the next heartbeat say that the member leaves (transitionToSendingLeaveGroup)."""
        if poll_timer_expired:
            self._releasing = True
            self._to(MemberState.PREPARE_LEAVING)
        static = self._config.group_instance_id is not None
        epoch = LEAVE_GROUP_STATIC_MEMBER_EPOCH if static else LEAVE_GROUP_MEMBER_EPOCH
        self._membership.generation_id = epoch
        self.current = NONE
        self._to(MemberState.LEAVING)

    def rejoin_stale(self, now: int) -> None:
        """Join again, once the lost partitions are given up: the application polls again."""
        if self.state is MemberState.STALE and self._releasing:
            self._rejoins_stale = True
        elif self.state is MemberState.STALE:
            self._join()

    # Reconciliation.

    def maybe_reconcile(self, can_commit: bool, now: int) -> None:
        """Begin to reconcile the assignment, if there is one to reconcile.

        ``can_commit`` is True in poll(): only there auto-commit knows what was consumed.
        """
        if self.state is not MemberState.RECONCILING or self._reconciling:
            return
        if self._target.is_reconciled(self.current):
            return
        resolved, wanted = self._target.resolve(self.current, now)
        if self.current is not NONE and resolved.partitions == self.current.partitions:
            self._acknowledge(resolved, now)
            return
        if self._commits.auto and not can_commit:
            return
        self._reconciling, self._rejoined_meanwhile = True, False
        owned = self._subscription.assignment
        revoked = tuple([tp for tp in owned if tp not in wanted])
        added = tuple([tp for tp in wanted if tp not in owned])
        self._subscription.mark_pending_revocation(revoked)
        then = partial(self._revoke, resolved, wanted, revoked, added)
        if self._commits.auto:
            self._commit(then, now + self._config.max_poll_interval_ms * 1000, 1, now)
        else:
            then(now)

    def _commit(self, then: Then, deadline: int, attempts: int, now: int) -> None:
        """Commit what was consumed, until that succeeds or cannot (maybeAutoCommitSyncBefore…)."""

        def done(error: Errors, at: int) -> None:
            stale = error is Errors.STALE_MEMBER_EPOCH and self._membership.generation_id > 0
            retried = (error in RETRIED or stale) and error is not Errors.UNKNOWN_TOPIC_OR_PARTITION
            wait = self._metadata.connections.backoff.after_us(attempts) if retried else 0
            if not retried or at + wait >= deadline:
                then(at)
                self._poll.wake(at)
                return
            again = partial(self._commit, then, deadline, attempts + 1)
            key = ("reconcile", self._poll.name)
            self._process.timers.arm(key, at + wait, "main", again)

        self._commits.commit(self._subscription.consumed(), REVOKING, 0, now, done)

    def _revoke(
        self,
        resolved: LocalAssignment,
        wanted: Partitions,
        revoked: Partitions,
        added: Partitions,
        now: int,
    ) -> None:
        """Have the application give partitions up."""
        if self._aborted():
            return

        def given_up(at: int) -> None:
            self._drop(revoked, lost=False)
            self._assign(resolved, wanted, added, at)

        if revoked:
            self.events.append(("revoked", revoked, given_up))
        else:
            self._assign(resolved, wanted, added, now)

    def _assign(
        self, resolved: LocalAssignment, wanted: Partitions, added: Partitions, now: int
    ) -> None:
        """Use the new partitions, and tell the application of them."""
        if self._aborted():
            return
        self._subscription.assign(wanted)
        epoch, names = self._membership.generation_id, tuple([str(tp) for tp in added])
        group_id, member_id = self._config.group_id, self._membership.member_id
        self.tell(ConsumerAssigned(group_id, member_id, epoch, names))

        def taken(at: int) -> None:
            if not self._aborted():
                self._reconciling = False
                self._commits.on_assigned(at)
                took_us = at - self._started_us
                self.tell(Rebalanced(group_id, member_id, epoch, took_us))
                self._acknowledge(resolved, at)

        self.events.append(("assigned", added, taken))

    def _acknowledge(self, resolved: LocalAssignment, now: int) -> None:
        self.current = resolved
        self._to(MemberState.ACKNOWLEDGING)
        self.heartbeat(now)

    def _aborted(self) -> bool:
        """Return whether the reconciliation has lost its meaning (maybeAbortReconciliation)."""
        if self.state is MemberState.RECONCILING and not self._rejoined_meanwhile:
            return False
        self._reconciling = False
        return True

    # Giving up.

    def give_up_all(self) -> None:
        """Give all partitions up without an event: the consumer is being closed."""
        self.events.clear()
        self._drop(tuple(self._subscription.assignment), lost=self._membership.lost)

    def _lose(self, then: Then) -> None:
        """Have the application give everything up as lost, then forget the assignment."""
        partitions = tuple(self._subscription.assignment)

        def lost(at: int) -> None:
            self._drop(tuple(self._subscription.assignment), lost=True)
            self._forget_assignment()
            then(at)
            self.heartbeat(at)

        if partitions:
            self.events.append(("lost", partitions, lost))
        else:
            self._forget_assignment()
            then(0)

    def _on_fenced_released(self, _now: int) -> None:
        if self.state is MemberState.FENCED:
            self._join()

    def _on_stale_released(self, _now: int) -> None:
        self._releasing = False
        if self._rejoins_stale and self.state is MemberState.STALE:
            self._rejoins_stale = False
            self._join()

    def _drop(self, partitions: Partitions, lost: bool) -> None:
        owned = self._subscription.assignment
        gone = [tp for tp in partitions if tp in owned]
        if not gone:
            return
        for tp in gone:
            self._offset_fetcher.positioned(owned[tp], "none")
        self._subscription.assign(tuple([tp for tp in owned if tp not in gone]))
        names = tuple([str(tp) for tp in gone])
        group_id, member_id = self._config.group_id, self._membership.member_id
        epoch = self._membership.generation_id
        self.tell(ConsumerRevoked(group_id, member_id, epoch, names, lost))

    # States.

    def _join(self) -> None:
        """Join with epoch 0 by the next heartbeat (transitionToJoining)."""
        if self._reconciling:
            self._rejoined_meanwhile = True
        self._membership.generation_id = JOIN_GROUP_MEMBER_EPOCH
        self._to(MemberState.JOINING)
        self._target.forget()

    def _forget_assignment(self) -> None:
        self.current = NONE
        self._target.forget()

    def _complete_leave(self, now: int) -> bool:
        left, self._left = self._left, None
        if left is not None:
            left(now)
        return left is not None

    def tell(self, fact: Any) -> None:
        """Record what the member owns from now on, or no more."""
        self._process.out.append(fact)

    def _to(self, state: MemberState) -> None:
        assert state is self.state or self.state in PREDECESSORS[state], (self.state, state)
        self.state = state


def _ignore(_now: int) -> None:
    """Do nothing."""
