"""Offsets of a group on the client: the commit half of Kafka's ConsumerCoordinator.

Auto-commit has Kafka's semantics: poll() commits, when the interval is over, the positions after
the records that earlier polls returned; a rebalance and close() commit the same way and wait. An
async commit is never repeated. A commit carries the generation, and none is sent while the member
is not stable.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from kafkasim.model.channel import Failed
from kafkasim.model.client.consumer.subscription import INITIALIZING
from kafkasim.model.client.exceptions import KafkaTimeoutError
from kafkasim.model.client.net.connections import backoff_us
from kafkasim.model.effects import Reply
from kafkasim.model.errors import RETRIABLE, Errors
from kafkasim.model.facts import CommitResult
from kafkasim.model.messages import (
    OffsetCommitRequest,
    OffsetCommitResponse,
    OffsetFetchRequest,
    OffsetFetchResponse,
)
from kafkasim.model.records import TopicPartition

if TYPE_CHECKING:
    from collections.abc import Callable

    from kafkasim.model.client.consumer.coordinator import ConsumerCoordinator

Offsets = dict[TopicPartition, tuple[int, int]]  # offset, leader epoch

RETRIED = RETRIABLE | {Errors.REQUEST_TIMED_OUT}
UNKNOWN_COORDINATOR = (
    Errors.COORDINATOR_NOT_AVAILABLE,
    Errors.NOT_COORDINATOR,
    Errors.REQUEST_TIMED_OUT,
)


class Commit:
    """One commit: sent once, or until it succeeds or its time is over."""

    __slots__ = ("attempts", "commits", "deadline", "done", "generation", "kind", "offsets")

    def __init__(
        self,
        commits: OffsetCommits,
        offsets: Offsets,
        kind: str,
        deadline: int,
        done: Callable[[Errors, int], None],
    ) -> None:
        self.commits = commits
        self.offsets = offsets
        self.kind = kind  # auto, sync, async
        self.deadline = deadline  # 0: never repeated
        self.done = done
        self.generation = -1
        self.attempts = 0

    def on_answer(self, answer: Any, now: int) -> None:
        """Take the coordinator's answer."""
        self.commits.on_answer(self, answer, now)

    def again(self, now: int) -> None:
        """Send once more, after a backoff."""
        self.commits.send(self, now)


class OffsetCommits:
    """Commits and committed offsets of one member."""

    def __init__(self, coordinator: ConsumerCoordinator) -> None:
        self.coordinator = coordinator
        self.consumer = coordinator.consumer
        self.process = coordinator.process
        self.config = coordinator.config
        self.subscription = coordinator.subscription
        self.auto = self.config.enable_auto_commit
        self.next_auto_us = 0
        self._waiting: list[Commit] = []  # for the coordinator
        self._prepare_deadline: int | None = None
        self._prepare_commit: str = ""  # "", pending, done
        self._prepare_not_before = 0
        self._fetching = False
        self._fetch_not_before = 0
        self._fetch_attempts = 0
        self._last_key = 0

    # Committing.

    def commit(
        self,
        offsets: Offsets,
        kind: str,
        timeout_us: int,
        now: int,
        done: Callable[[Errors, int], None],
    ) -> None:
        """Commit offsets; ``timeout_us`` 0 sends once. ``done(error, now)`` gets the outcome."""
        if not offsets:
            done(Errors.NONE, now)
            return
        deadline = now + timeout_us if timeout_us else 0
        if not deadline and self.consumer.rules.retries_async_commit():
            deadline = now + self.config.default_api_timeout_ms * 1000
        self.send(Commit(self, offsets, kind, deadline, done), now)

    def send(self, commit: Commit, now: int) -> None:
        """Send a commit, or let it wait for the coordinator."""
        coordinator = self.coordinator
        if coordinator.channel is None:
            self._waiting.append(commit)
            coordinator.find(now)
            if commit.deadline:
                self._last_key += 1
                key = ("commit", self.consumer.name, self._last_key)
                self.process.timers.arm(key, commit.deadline, "main", self._expire_waiting)
            return
        generation, member_id = -1, ""
        if self.subscription.auto_assigned:
            if coordinator.state != "STABLE":
                busy = coordinator.rebalancing
                error = Errors.REBALANCE_IN_PROGRESS if busy else Errors.UNKNOWN_MEMBER_ID
                self._finish(commit, dict.fromkeys(commit.offsets, error), now)
                return
            generation, member_id = coordinator.generation_id, coordinator.member_id
        commit.generation = generation
        commit.attempts += 1
        offsets = tuple([(tp, at, epoch, "") for tp, (at, epoch) in commit.offsets.items()])
        request = OffsetCommitRequest(
            self.config.group_id, generation, member_id, self.config.group_instance_id, offsets
        )
        coordinator.channel.send(request, now, commit.on_answer)

    def on_coordinator(self, now: int) -> None:
        """The coordinator is known: send what waited for it."""
        waiting, self._waiting = self._waiting, []
        for commit in waiting:
            self.send(commit, now)

    def on_answer(self, commit: Commit, answer: Any, now: int) -> None:
        """Take the answer to a commit."""
        coordinator = self.coordinator
        if isinstance(answer, Failed):
            coordinator.forget_coordinator(now)
            errors = dict.fromkeys(commit.offsets, Errors.NETWORK_EXCEPTION)
        else:
            assert isinstance(answer, OffsetCommitResponse), answer
            errors = dict(answer.results)
        worst = next((error for error in errors.values() if error), Errors.NONE)
        if worst in UNKNOWN_COORDINATOR:
            coordinator.forget_coordinator(now)
        elif worst in (Errors.UNKNOWN_MEMBER_ID, Errors.ILLEGAL_GENERATION):
            if commit.generation == coordinator.generation_id and commit.generation >= 0:
                coordinator.reset_generation(worst is Errors.ILLEGAL_GENERATION)
        elif worst is Errors.REBALANCE_IN_PROGRESS:
            coordinator.rejoin_needed = True
        elif worst is Errors.FENCED_INSTANCE_ID:
            coordinator.fenced(now)
        if worst in RETRIED and commit.deadline:
            wait = backoff_us(self.config, commit.attempts, self.process.rng)
            if now + wait < commit.deadline:
                self._last_key += 1
                key = ("commit", self.consumer.name, self._last_key)
                self.process.timers.arm(key, now + wait, "main", commit.again)
                return
        self._finish(commit, errors, now)

    def _expire_waiting(self, now: int) -> None:
        for commit in list(self._waiting):
            if commit.deadline and commit.deadline <= now:
                self._waiting.remove(commit)
                errors = dict.fromkeys(commit.offsets, Errors.REQUEST_TIMED_OUT)
                self._finish(commit, errors, now)

    def _finish(self, commit: Commit, errors: dict[TopicPartition, Errors], now: int) -> None:
        topic_ids = self.consumer.metadata.last_topic_ids
        for tp, (offset, _) in commit.offsets.items():
            self.process.out.append(
                CommitResult(
                    self.config.group_id,
                    self.coordinator.member_id,
                    topic_ids.get(tp.topic, ""),
                    tp.partition,
                    offset,
                    commit.generation,
                    commit.kind,
                    errors[tp].name,
                )
            )
        worst = next((error for error in errors.values() if error), Errors.NONE)
        commit.done(worst, now)

    # Auto-commit.

    def restart_auto_commit(self, now: int) -> None:
        """A new assignment: the interval starts, and nothing is being prepared."""
        self.next_auto_us = now + self.config.auto_commit_interval_ms * 1000
        self._prepare_commit = ""
        self._prepare_deadline = None

    def auto_commit(self, now: int) -> None:
        """Commit the consumed positions if the interval is over (maybeAutoCommitOffsetsAsync)."""
        if not self.auto or now < self.next_auto_us:
            return
        self.next_auto_us = now + self.config.auto_commit_interval_ms * 1000
        if self.coordinator.channel is None:
            return
        self.commit(self.subscription.consumed(), "auto", 0, now, self._on_auto_commit)

    def _on_auto_commit(self, error: Errors, now: int) -> None:
        if error in RETRIED:
            wait = backoff_us(self.config, 1, self.process.rng)
            self.next_auto_us = min(self.next_auto_us, now + wait)

    def prepared(self, now: int) -> bool:
        """Commit before a rebalance if auto-commit is on; True when that is over (KAFKA-14196)."""
        if not self.auto or not self.subscription.assignment:
            return True
        if self._prepare_deadline is None:
            self._prepare_deadline = now + self.config.max_poll_interval_ms * 1000
            self._prepare_commit = ""
        if self._prepare_commit == "done" or now >= self._prepare_deadline:
            return True
        if self._prepare_commit == "pending":
            return False
        if now < self._prepare_not_before:
            self.consumer.wake_at(self._prepare_not_before)
            return False
        self._prepare_commit = "pending"
        self.subscription.mark_pending_revocation()
        self.commit(self.subscription.consumed(), "auto", 0, now, self._on_prepared)
        return self._prepared_now()

    def _prepared_now(self) -> bool:
        return self._prepare_commit == "done"

    def _on_prepared(self, error: Errors, now: int) -> None:
        if error in RETRIED:
            self._prepare_commit = ""
            self._prepare_not_before = now + backoff_us(self.config, 1, self.process.rng)
        else:
            self._prepare_commit = "done"
        self.consumer.wake(now)

    # Committed offsets.

    def fetch_positions(self, now: int) -> None:
        """Ask for the committed offsets of partitions that have no position yet."""
        waiting = tuple(
            [tp for tp, s in self.subscription.assignment.items() if s.state is INITIALIZING]
        )
        if not waiting or self._fetching:
            return
        if now < self._fetch_not_before:
            self.consumer.wake_at(self._fetch_not_before)
            return
        self._fetching = True
        version = self.subscription.version
        self.fetch_committed(
            waiting, now, lambda answer, at: self._on_positions(version, answer, at)
        )

    def fetch_committed(
        self, partitions: tuple[TopicPartition, ...], now: int, done: Callable[[Any, int], None]
    ) -> None:
        """Send an OffsetFetch; ``done`` gets the response, or a Failed."""
        channel = self.coordinator.channel
        if channel is None:
            self.coordinator.find(now)
            done(Failed("backoff"), now)
            return
        channel.send(OffsetFetchRequest(self.config.group_id, partitions), now, done)

    def retriable(self, answer: Any, now: int) -> bool:
        """Return whether an OffsetFetch must be asked again; note a coordinator that moved."""
        if not isinstance(answer, OffsetFetchResponse):
            self.coordinator.forget_coordinator(now)
            return True
        if answer.error in UNKNOWN_COORDINATOR:
            self.coordinator.forget_coordinator(now)
        return bool(answer.error) or any(part.error for part in answer.partitions)

    def _on_positions(self, version: int, answer: Any, now: int) -> None:
        self._fetching = False
        if self.retriable(answer, now):
            self._fetch_attempts += 1
            wait = backoff_us(self.config, self._fetch_attempts, self.process.rng)
            self._fetch_not_before = now + wait
        elif version == self.subscription.version:  # else asked for an older assignment
            self._fetch_attempts = 0
            self.consumer.on_committed(answer.partitions, now)
        self.consumer.wake(now)


class CommittedCall:
    """An application's question for committed offsets, asked until it has an answer."""

    def __init__(
        self, commits: OffsetCommits, call: int, partitions: tuple[TopicPartition, ...], now: int
    ) -> None:
        self.commits = commits
        self.call = call
        self.partitions = partitions
        self.deadline = now + commits.config.default_api_timeout_ms * 1000
        self.attempts = 0

    def ask(self, now: int) -> None:
        """Send an OffsetFetch."""
        self.commits.fetch_committed(self.partitions, now, self._answered)

    def _answered(self, answer: Any, now: int) -> None:
        commits = self.commits
        process = commits.process
        if not commits.retriable(answer, now):
            offsets = {p.tp: p.offset if p.offset >= 0 else None for p in answer.partitions}
            process.out.append(Reply(self.call, offsets, None))
            return
        self.attempts += 1
        again = now + backoff_us(commits.config, self.attempts, process.rng)
        if again >= self.deadline:
            error = KafkaTimeoutError(Errors.REQUEST_TIMED_OUT.name, "committed")
            process.out.append(Reply(self.call, None, error))
        else:
            key = ("committed", commits.consumer.name, self.call)
            process.timers.arm(key, again, "main", self.ask)
