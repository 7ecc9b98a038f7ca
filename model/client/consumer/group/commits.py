"""Committing a group's offsets: the commit half of Kafka's ConsumerCoordinator.

With auto-commit poll() commits the positions after the records that earlier polls returned, once
the interval is over; a rebalance and close() commit them too, and wait for the response. An async
commit is sent once and never repeated. A commit carries the generation of its member; none is sent
while the member is not stable.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from enum import Enum
from functools import partial
from typing import TYPE_CHECKING, Any

from kafkasim.model.channel import Failed
from kafkasim.model.errors import RETRIABLE, Errors
from kafkasim.model.facts import CommitResult
from kafkasim.model.messages import OffsetCommitRequest, OffsetCommitResponse
from kafkasim.model.records import TopicPartition

if TYPE_CHECKING:
    from kafkasim.model.client.consumer.group.lookup import CoordinatorLookup
    from kafkasim.model.client.consumer.group.membership import MemberEvents, Membership
    from kafkasim.model.client.consumer.poll import Poll
    from kafkasim.model.client.consumer.subscription import SubscriptionState
    from kafkasim.model.client.net.metadata import Metadata
    from kafkasim.model.client.rules import ClientRules
    from kafkasim.model.config import ConsumerConfig
    from kafkasim.model.timers import Key

Offsets = dict[TopicPartition, tuple[int, int]]  # offset, leader epoch
Done = Callable[[Errors, int], None]  # (the first error or NONE, now)

NO_METADATA: Mapping[TopicPartition, str] = {}

RETRIED = RETRIABLE | {Errors.REQUEST_TIMED_OUT}
REVOKING = "revoking"
"""The kind of an auto-commit before partitions are revoked."""

UNKNOWN_COORDINATOR = (
    Errors.COORDINATOR_NOT_AVAILABLE,
    Errors.NOT_COORDINATOR,
    Errors.REQUEST_TIMED_OUT,
)


class Commit:
    """One commit: sent once, or until it succeeds or its deadline has passed."""

    __slots__ = (
        "attempts", "deadline", "done", "expires", "generation", "kind", "metadata", "offsets",
        "open",
    )  # fmt: skip

    def __init__(
        self,
        offsets: Offsets,
        kind: str,
        deadline: int,
        done: Done,
        metadata: Mapping[TopicPartition, str],
    ) -> None:
        self.offsets = offsets
        self.metadata = metadata  # what the application says of some of the offsets
        self.kind = kind  # auto, sync, async, or REVOKING
        self.deadline = deadline  # 0: never repeated
        self.done = done
        self.generation = -1  # of the last attempt
        self.attempts = 0
        self.expires: Key | None = None  # the timer of the deadline
        self.open = True  # until ``done`` is called


class BeforeRebalance(Enum):
    """How far the commit before a rebalance is."""

    NOT_SENT = "not sent"
    IN_FLIGHT = "in flight"
    DONE = "done"


class OffsetCommits:
    """The commits of one member."""

    def __init__(
        self,
        config: ConsumerConfig,
        rules: ClientRules,
        lookup: CoordinatorLookup,
        membership: Membership,
        member: MemberEvents,
        subscription: SubscriptionState,
        metadata: Metadata,
        poll: Poll,
    ) -> None:
        self.auto = config.enable_auto_commit
        self._config = config
        self._rules = rules
        self._lookup = lookup
        self._membership = membership
        self._member = member
        self._subscription = subscription
        self._metadata = metadata
        self._poll = poll
        self._process = poll.process
        self._next_auto_us = 0
        self._waiting: list[Commit] = []  # for the coordinator to be known
        self._last_key = 0
        self._before_rebalance = BeforeRebalance.NOT_SENT
        self._rebalance_deadline: int | None = None  # of the commit before a rebalance
        self._rebalance_not_before = 0
        lookup.found.append(self._on_coordinator_found)

    def commit(
        self,
        offsets: Offsets,
        kind: str,
        timeout_us: int,
        now: int,
        done: Done,
        metadata: Mapping[TopicPartition, str] = NO_METADATA,
    ) -> None:
        """Commit offsets and call ``done(error, now)``; ``timeout_us`` 0 sends them once."""
        if not offsets:
            done(Errors.NONE, now)
            return
        deadline = now + timeout_us if timeout_us else 0
        if not deadline and self._rules.retries_async_commit():
            deadline = now + self._config.default_api_timeout_ms * 1000
        commit = Commit(offsets, kind, deadline, done, metadata)
        if deadline:
            commit.expires = self._arm(deadline, partial(self._expire, commit))
        self._send(commit, now)

    def _send(self, commit: Commit, now: int) -> None:
        """Send a commit, or let it wait until the coordinator is known."""
        channel = self._lookup.channel
        if channel is None:
            self._waiting.append(commit)
            self._lookup.find(now)
            return
        generation, member_id = -1, ""
        membership = self._membership
        if self._subscription.auto_assigned:
            error, generation, member_id = membership.committer()
            if error is not Errors.NONE:
                self._finish(commit, dict.fromkeys(commit.offsets, error), now)
                return
        commit.generation = generation
        commit.attempts += 1
        told = commit.metadata
        offsets = tuple(
            [(tp, at, epoch, told.get(tp, "")) for tp, (at, epoch) in commit.offsets.items()]
        )
        request = OffsetCommitRequest(
            self._config.group_id, generation, member_id, self._config.group_instance_id, offsets
        )
        channel.send(request, now, partial(self._on_response, commit))

    def _arm(self, deadline: int, handler: Callable[[int], None]) -> Key:
        self._last_key += 1
        key = ("commit", self._poll.name, self._last_key)
        self._process.timers.arm(key, deadline, "main", handler)
        return key

    def _on_coordinator_found(self, now: int) -> None:
        waiting, self._waiting = self._waiting, []
        for commit in waiting:
            self._send(commit, now)

    def _on_response(self, commit: Commit, response: Any, now: int) -> None:
        if isinstance(response, Failed):
            self._lookup.mark_unknown(now)
            errors = dict.fromkeys(commit.offsets, Errors.NETWORK_EXCEPTION)
        else:
            assert isinstance(response, OffsetCommitResponse), response
            errors = dict(response.results)
        error = _first(errors)
        self._tell_member(error, commit.generation, now)
        if not commit.open:
            return
        if error in RETRIED and commit.deadline:
            wait = self._lookup.backoff.after_us(commit.attempts)
            if now + wait < commit.deadline:
                self._arm(now + wait, partial(self._send, commit))
                return
        self._finish(commit, errors, now)

    def _tell_member(self, error: Errors, generation: int, now: int) -> None:
        """Tell the membership what the error of a commit of ``generation`` means for it."""
        if error in UNKNOWN_COORDINATOR:
            self._lookup.mark_unknown(now)
        elif error in (Errors.UNKNOWN_MEMBER_ID, Errors.ILLEGAL_GENERATION):
            if generation == self._membership.generation_id and generation >= 0:
                reason = f"encountered {error.name} from OFFSET_COMMIT response"
                self._member.reset_generation(reason, error is Errors.ILLEGAL_GENERATION)
        elif error is Errors.REBALANCE_IN_PROGRESS:
            reason = "offset commit failed since group is already rebalancing"
            self._member.request_rejoin(reason)
        elif error is Errors.FENCED_INSTANCE_ID:
            self._member.on_fenced(now)

    def _expire(self, commit: Commit, now: int) -> None:
        """Fail a commit at its deadline; one that is in flight may succeed all the same."""
        if commit in self._waiting:
            self._waiting.remove(commit)
        self._finish(commit, dict.fromkeys(commit.offsets, Errors.REQUEST_TIMED_OUT), now)

    def _finish(self, commit: Commit, errors: dict[TopicPartition, Errors], now: int) -> None:
        commit.open = False
        if commit.expires is not None:
            self._process.timers.cancel(commit.expires)
        topic_ids = self._metadata.last_topic_ids
        for tp, (offset, _) in commit.offsets.items():
            self._process.out.append(
                CommitResult(
                    self._config.group_id,
                    self._membership.member_id,
                    topic_ids.get(tp.topic, ""),
                    tp.partition,
                    offset,
                    commit.generation,
                    "auto" if commit.kind == REVOKING else commit.kind,
                    errors[tp].name,
                    commit.kind == REVOKING and self._subscription.is_pending_revocation(tp),
                )
            )
        commit.done(_first(errors), now)

    # Auto-commit.

    def on_assigned(self, now: int) -> None:
        """Start the auto-commit interval of a new assignment."""
        self._next_auto_us = now + self._config.auto_commit_interval_ms * 1000
        self._before_rebalance = BeforeRebalance.NOT_SENT
        self._rebalance_deadline = None

    def auto_commit(self, now: int) -> None:
        """Commit the consumed positions if the interval is over (maybeAutoCommitOffsetsAsync)."""
        if not self.auto or now < self._next_auto_us:
            return
        self._next_auto_us = now + self._config.auto_commit_interval_ms * 1000
        if self._lookup.channel is None:
            return
        self.commit(self._subscription.consumed(), "auto", 0, now, self._on_auto_commit)

    def _on_auto_commit(self, error: Errors, now: int) -> None:
        if error in RETRIED:
            self._next_auto_us = min(self._next_auto_us, now + self._config.retry_backoff_ms * 1000)

    def committed_before_rebalance(self, now: int, revokes: bool) -> bool:
        """Return whether the partitions may be revoked: the commit of their positions is over.

        With auto-commit the first call sends the commit. It is over with a response that is not
        retriable, or after max.poll.interval.ms (ConsumerCoordinator.onJoinPrepare, KAFKA-14196).
        ``revokes`` is True if all partitions are given up next; then no more records of them are
        returned. A cooperative member goes on with them.
        """
        if not self.auto or not self._subscription.assignment:
            return True
        if self._rebalance_deadline is None:
            self._rebalance_deadline = now + self._config.max_poll_interval_ms * 1000
            self._before_rebalance = BeforeRebalance.NOT_SENT
        if self._rebalance_commit_done() or now >= self._rebalance_deadline:
            return True
        if self._before_rebalance is BeforeRebalance.IN_FLIGHT:
            return False
        if now < self._rebalance_not_before:
            self._poll.wake_at(self._rebalance_not_before)
            return False
        self._before_rebalance = BeforeRebalance.IN_FLIGHT
        if revokes:
            self._subscription.mark_pending_revocation()
        consumed = self._subscription.consumed()
        self.commit(consumed, REVOKING, 0, now, self._on_rebalance_commit)
        return self._rebalance_commit_done()

    def _rebalance_commit_done(self) -> bool:
        return self._before_rebalance is BeforeRebalance.DONE

    def _on_rebalance_commit(self, error: Errors, now: int) -> None:
        if error in RETRIED:
            self._before_rebalance = BeforeRebalance.NOT_SENT
            self._rebalance_not_before = now + self._config.retry_backoff_ms * 1000
        else:
            self._before_rebalance = BeforeRebalance.DONE
        self._poll.wake(now)


def _first(errors: dict[TopicPartition, Errors]) -> Errors:
    return next((error for error in errors.values() if error), Errors.NONE)
