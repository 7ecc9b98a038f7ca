"""The consumer as an application sees it: Kafka's ClassicKafkaConsumer.

One pass of poll() does four things in order: what the group needs (join, sync, auto-commit),
missing positions, taking buffered records, sending the next fetches. ``poll.py`` says how a poll()
waits, and how it ends with an event of a rebalance where Kafka calls the rebalance listener.

close() reports no event: it commits if auto-commit is on, gives its partitions up, and leaves.
"""

from __future__ import annotations

import re
from functools import partial
from typing import TYPE_CHECKING, Any

from kafkasim.model.client.consumer.fetcher import Fetcher
from kafkasim.model.client.consumer.group.commits import RETRIED, Offsets
from kafkasim.model.client.consumer.group.coordinator import ConsumerCoordinator
from kafkasim.model.client.consumer.group.membership import Membership
from kafkasim.model.client.consumer.modern.epoch_membership import EpochMembership
from kafkasim.model.client.consumer.modern.member import ConsumerGroupMember
from kafkasim.model.client.consumer.offset_fetcher import OffsetFetcher
from kafkasim.model.client.consumer.poll import Poll
from kafkasim.model.client.consumer.steering import Steering
from kafkasim.model.client.consumer.subscription import FetchState, SubscriptionState
from kafkasim.model.client.exceptions import (
    CommitFailedError,
    IllegalStateError,
    KafkaError,
    KafkaTimeoutError,
    NoOffsetForPartitionError,
    RetriableCommitFailedError,
    WakeupError,
)
from kafkasim.model.client.net.connections import Connections
from kafkasim.model.client.net.metadata import Metadata
from kafkasim.model.effects import Reply
from kafkasim.model.errors import Errors
from kafkasim.model.facts import FinalPosition, ReadsCommitted, SubscribedByPattern
from kafkasim.model.records import TopicPartition
from kafkasim.model.values import random_uuid, value

if TYPE_CHECKING:
    from collections.abc import Callable

    from kafkasim.model.client.consumer.group_member import GroupMember
    from kafkasim.model.client.rules import ClientRules
    from kafkasim.model.config import ConsumerConfig
    from kafkasim.model.effects import Process


ALL_TOPICS = re.compile(r"[\s\S]*")


@value
class ConsumerGroupMetadata:
    """A consumer's place in its group."""

    group_id: str
    generation_id: int
    member_id: str
    group_instance_id: str | None


MEMBER_ERRORS = (
    Errors.UNKNOWN_MEMBER_ID,
    Errors.ILLEGAL_GENERATION,
    Errors.FENCED_INSTANCE_ID,
    Errors.STALE_MEMBER_EPOCH,
)
"""The member is not in the generation that it commits for."""


def _exclusive() -> KafkaError:
    text = "Subscription to topics, partitions and pattern are mutually exclusive"
    return IllegalStateError("ILLEGAL_STATE", text)


class KafkaConsumer:
    """One consumer of a client process."""

    def __init__(
        self,
        process: Process,
        name: str,
        config: ConsumerConfig,
        bootstrap: tuple[str, ...],
        rules: ClientRules,
        tells: bool = True,
    ) -> None:
        """``tells``: the trace has its positions and what it polls.

        A restore consumer of Streams tells nothing: it is no reader of its own, and its instance
        tells what it restores.
        """
        self.process = process
        self.name = name
        self.config = config
        self.connections = Connections(process, name, config, bootstrap, "fetch", rules)
        self.metadata = metadata = Metadata(
            self.connections, rules, config.allow_auto_create_topics
        )
        metadata.listeners.append(self._on_metadata)
        self.subscription = subscription = SubscriptionState()
        modern = bool(config.group_id) and config.group_protocol == "consumer"
        self.membership = membership = (
            EpochMembership(random_uuid(process.rng)) if modern else Membership()
        )
        self._poll = poll = Poll(process, name, self._advance)
        metadata.on_refused = poll.fail_for_topics
        self.offset_fetcher = OffsetFetcher(config, rules, metadata, subscription, membership, poll)
        self.fetcher = Fetcher(config, rules, metadata, subscription, membership, poll)
        self.offset_fetcher.tells = self.fetcher.tells = self._tells = tells
        self.coordinator: GroupMember | None = None
        if isinstance(membership, EpochMembership):
            self.coordinator = ConsumerGroupMember(
                config, rules, metadata, subscription, membership, self.offset_fetcher, poll
            )
        elif config.group_id:
            self.coordinator = ConsumerCoordinator(
                config, rules, metadata, subscription, membership, self.offset_fetcher, poll
            )
        self.methods = {
            **self._calls(),
            **Steering(config, metadata, subscription, poll).methods,
        }
        self._callbacks: list[Reply] = []  # of async commits, until the next poll() or commit

    def _calls(self) -> dict[str, Callable[[int, tuple[Any, ...], int], None]]:
        return {
            "subscribe": self.subscribe,
            "subscribe_pattern": self.subscribe_pattern,
            "subscribe_subscription_pattern": self.subscribe_subscription_pattern,
            "assign": self.assign,
            "unsubscribe": self.unsubscribe,
            "poll": self.poll,
            "continue": self.continue_poll,
            "enforce_rebalance": self.enforce_rebalance,
            "commit_sync": self.commit_sync,
            "commit_async": self.commit_async,
            "seek": self.seek,
            "position": self.position,
            "next_offset": self.next_offset,
            "committed": self.committed,
            "group_metadata": self.group_metadata,
            "wakeup": self.wakeup,
            "close": self.close,
        }

    # Calls.

    def subscribe(self, call: int, args: tuple[Any, ...], now: int) -> None:
        """Subscribe to (topics,) as a member of the group; to none is to unsubscribe."""
        coordinator = self._subscriber(call, "topics")
        if coordinator is None:
            return
        topics = tuple(sorted(args[0]))
        if not topics:
            self.unsubscribe(call, args, now)
            return
        self.metadata.set_pattern(None, now)
        self.subscription.by_pattern = False
        self.subscription.subscription_pattern = None
        self.subscription.topics = topics
        self.subscription.auto_assigned = True
        self._tell_isolation()
        self.metadata.set_topics(topics, now)
        coordinator.on_subscribed()
        self._reply(call, None)

    def subscribe_pattern(self, call: int, args: tuple[Any, ...], now: int) -> None:
        """Subscribe to the topics whose names match (pattern,), also those to come.

        The pattern is one of Python's re module. The consumer asks for all topics every
        metadata.max.age.ms.
        """
        if self._subscriber(call, "pattern") is None:
            return
        self.subscription.auto_assigned = self.subscription.by_pattern = True
        self.subscription.subscription_pattern = None
        self._tell_isolation()
        self.process.out.append(SubscribedByPattern(self.config.group_id))
        self.metadata.set_topics((), now)
        self.metadata.set_pattern(re.compile(args[0]), now)
        self._reply(call, None)

    def subscribe_subscription_pattern(self, call: int, args: tuple[Any, ...], now: int) -> None:
        """Subscribe to the topics that the group coordinator matches with (pattern,), KIP-848.

        The coordinator refuses what RE2/J cannot compile. The consumer asks for all topics, to know
        those that it is assigned by name (ConsumerMetadata.newMetadataRequestBuilder).
        """
        member = self._subscriber(call, "subscription pattern")
        if member is None:
            return
        if isinstance(member, ConsumerCoordinator):
            self._refuse(call, KafkaError("UNSUPPORTED_VERSION", "RE2/J pattern, classic protocol"))
            return
        if not args[0]:
            self._refuse(call, KafkaError("INVALID_REGULAR_EXPRESSION", "the pattern is empty"))
            return
        self.subscription.auto_assigned, self.subscription.by_pattern = True, False
        self.subscription.topics, self.subscription.subscription_pattern = (), args[0]
        self._tell_isolation()
        self.metadata.set_topics((), now)
        self.metadata.set_pattern(ALL_TOPICS, now)
        member.on_subscribed()
        self._reply(call, None)

    def assign(self, call: int, args: tuple[Any, ...], now: int) -> None:
        """Take (partitions,), whatever the group assigns; to take none is to unsubscribe."""
        partitions = tuple([TopicPartition(*tp) for tp in args[0]])
        if self.subscription.kind and self.subscription.kind != "partitions":
            self._refuse(call, _exclusive())
            return
        if not partitions:
            self.unsubscribe(call, args, now)
            return
        self._tell_isolation()
        self.subscription.auto_assigned = False
        self.subscription.assign(partitions)
        topics = tuple(dict.fromkeys([tp.topic for tp in partitions]))
        self.metadata.set_topics(topics, now)
        self._reply(call, None)

    def unsubscribe(self, call: int, _args: tuple[Any, ...], now: int) -> None:
        """Give all partitions up, leave the group, and be subscribed to nothing.

        Nothing is committed, and no event is replied: the application knows when it calls this.
        """
        if self.coordinator is not None:
            self.coordinator.unsubscribe(now)
        self.subscription.unsubscribe()
        self.metadata.set_pattern(None, now)
        self.metadata.set_topics((), now)
        self._reply(call, None)

    def poll(self, call: int, args: tuple[Any, ...], now: int) -> None:
        """Poll for at most (timeout_ms,)."""
        if not self.subscription.kind:
            what = "not subscribed to any topics or assigned any partitions"
            self._refuse(call, IllegalStateError("ILLEGAL_STATE", f"{self.name} is {what}"))
            return
        self._poll.begin(call, args[0], now)

    def continue_poll(self, call: int, args: tuple[Any, ...], now: int) -> None:
        """Go on with the poll that returned an event of a rebalance: (answer to ``assign``,)."""
        self._poll.go_on(call, now, *args)

    def enforce_rebalance(self, call: int, args: tuple[Any, ...], _now: int) -> None:
        """Join the group again in the next poll, for (reason,)."""
        member = self._in_group(call)
        if member is not None:
            assert isinstance(member, ConsumerCoordinator), f"{self.name} is no classic member"
            member.request_rejoin(args[0])
            self._reply(call, None)

    def commit_sync(self, call: int, args: tuple[Any, ...], now: int) -> None:
        """Commit (offsets or None for all consumed,) and reply with the outcome.

        ``offsets`` are by partition: an offset, or (offset, metadata).
        """
        member = self._in_group(call)
        if member is None:
            return
        commits = member.commits
        self._run_callbacks()
        timeout = self.config.default_api_timeout_ms * 1000

        def done(error: Errors, _at: int) -> None:
            if not error:
                self._reply(call, None)
            elif error in MEMBER_ERRORS:
                self._refuse(call, CommitFailedError(error.name, self.config.group_id))
            elif error is Errors.REQUEST_TIMED_OUT:
                self._refuse(call, KafkaTimeoutError(error.name, "commit_sync"))
            else:
                self._refuse(call, KafkaError(error.name, "commit_sync"))

        offsets, metadata = self._offsets(args)
        commits.commit(offsets, "sync", timeout, now, done, metadata)

    def commit_async(self, call: int, args: tuple[Any, ...], now: int) -> None:
        """Commit (offsets or None, want_callback) once and reply without waiting.

        ``want_callback`` may be left out. If it is True, -call is replied too, with the offsets or
        the error: in the next poll() or commit after the response, as callbacks are run.
        """
        member = self._in_group(call)
        if member is None:
            return
        offsets, metadata = self._offsets(args)
        wanted = len(args) > 1 and args[1]

        def done(error: Errors, at: int) -> None:
            if not wanted:
                return
            failed: KafkaError | None = None
            if error in MEMBER_ERRORS:
                failed = CommitFailedError(error.name, self.config.group_id)
            elif error:
                retriable = error in RETRIED
                kind = RetriableCommitFailedError if retriable else KafkaError
                failed = kind(error.name, "commit_async")
            committed = None if failed else {tp: offset for tp, (offset, _) in offsets.items()}
            self._callbacks.append(Reply(-call, committed, failed))
            self._poll.wake(at)

        member.commits.commit(offsets, "async", 0, now, done, metadata)
        self._reply(call, None)

    def wakeup(self, call: int, _args: tuple[Any, ...], now: int) -> None:
        """End the outstanding poll(), or the next one, with a WakeupError."""
        self._poll.fail(WakeupError("WAKEUP", self.name))
        self._poll.wake(now)
        self._reply(call, None)

    def seek(self, call: int, args: tuple[Any, ...], now: int) -> None:
        """Move the position of (partition, offset)."""
        if args[1] < 0:
            self._refuse(call, KafkaError("ILLEGAL_ARGUMENT", f"seek to {args[1]}: it is negative"))
            return
        state = self.subscription.assignment.get(TopicPartition(*args[0]))
        if state is None:
            self._refuse(call, KafkaError("ILLEGAL_STATE", f"{args[0]} is not assigned"))
            return
        leader = self.metadata.current_leader(state.tp)
        self.subscription.seek(state, args[1], -1, leader, False)
        self.offset_fetcher.positioned(state, "seek")
        self._reply(call, None)

    def position(self, call: int, args: tuple[Any, ...], now: int) -> None:
        """Reply the position of (partition,) as soon as there is a valid one.

        It may wait for the committed offset, for the reset that a seek has asked for, or for its
        validation (SubscriptionState.validPosition), default.api.timeout.ms at most.
        """
        tp = TopicPartition(*args[0])
        if tp not in self.subscription.assignment:
            self._refuse(call, KafkaError("ILLEGAL_STATE", f"{tp} is not assigned"))
            return

        def look(at: int) -> int | None:
            state = self.subscription.assignment.get(tp)
            if state is None:
                self._poll.fail(KafkaError("ILLEGAL_STATE", f"{tp} is not assigned any more"))
                self._poll.wake(at)
                return None
            if state.state is FetchState.FETCHING:
                return state.position
            self._update_positions(at)
            return None

        timeout_ms = self.config.default_api_timeout_ms
        self._poll.wait_for(call, look, timeout_ms, f"the position of {tp}", now)

    def next_offset(self, call: int, args: tuple[Any, ...], _now: int) -> None:
        """Reply what ConsumerRecords.nextOffsets has of (partition,), None if it is not assigned.

        That is (position, leader epoch of the record before it), KIP-1094.
        """
        state = self.subscription.assignment.get(TopicPartition(*args[0]))
        known = state is not None and state.position >= 0
        self._reply(call, (state.position, state.offset_epoch) if state and known else None)

    def committed(self, call: int, args: tuple[Any, ...], now: int) -> None:
        """Reply the group's committed offsets of (partitions,): {partition: offset or None}.

        With a second argument True: (offset, metadata) in place of an offset.
        """
        partitions = tuple([TopicPartition(*tp) for tp in args[0]])
        with_metadata = len(args) > 1 and args[1]
        member = self._in_group(call)
        if member is not None:
            member.committed.reply(call, partitions, now, with_metadata)

    def group_metadata(self, call: int, _args: tuple[Any, ...], _now: int) -> None:
        """Reply the member's place in its group, for a transaction's offsets (KIP-447)."""
        if self._in_group(call) is None:
            return
        config, (generation_id, member_id) = self.config, self.membership.group_metadata
        metadata = ConsumerGroupMetadata(
            config.group_id, generation_id, member_id, config.group_instance_id
        )
        self._reply(call, metadata)

    def close(self, call: int, args: tuple[Any, ...], now: int) -> None:
        """Commit if auto-commit is on, leave the group, close the connections, reply."""
        self.shut(now, partial(self._reply, call, None))

    def stop(self, now: int, begin: Callable[[], None], done: Callable[[], None]) -> None:
        """Close as soon as the application has handled what the last poll() returned.

        ``begin()`` is called when the close begins, ``done()`` when it is over.
        """
        self._poll.interrupt(now, begin, self.shut, done)

    def shut(self, now: int, done: Callable[[], None]) -> None:
        """Close, then call ``done()``; a second close is over at once."""
        assert not self._poll.outstanding, f"{self.name} is closed inside poll"

        def over() -> None:
            self.metadata.close()
            self.connections.close()
            done()

        def left(at: int) -> None:
            self.coordinator = None
            self.fetcher.close(at, over)

        if self.coordinator is not None:
            self.coordinator.close(now, left)
        else:
            left(now)

    def ground_truth(self) -> list[Any]:
        """Return the positions, for the end of the run."""
        return [
            FinalPosition(
                self.config.group_id,
                self.membership.member_id,
                self.metadata.last_topic_ids.get(tp.topic, ""),
                tp.partition,
                state.position,
            )
            for tp, state in self.subscription.assignment.items()
            if state.position >= 0 and self._tells
        ]

    # The inside.

    def _advance(self, now: int) -> None:
        """Run one pass of poll(): group, positions, records, fetches."""
        if self._callbacks:
            self._run_callbacks()
        ready = self.coordinator is None or self.coordinator.poll(now)
        if not self._poll.outstanding:
            return
        if ready and not self.subscription.has_all_positions:
            self._update_positions(now)
        try:
            records = self.fetcher.collect(now)
        except KafkaError as error:
            self._poll.end_with_error(error)
            return
        self.fetcher.send_fetches(now)
        self._poll.end_or_wait(records, self.fetcher.position_advanced, now)

    def _update_positions(self, now: int) -> None:
        """Find positions: committed offsets first, then the reset policy (updateFetchPositions)."""
        if self.coordinator is not None:
            self.coordinator.committed.initialize_positions(now)
        else:
            policy = self.config.auto_offset_reset
            for state in self.subscription.initializing():
                if policy == "none":
                    self._poll.fail(NoOffsetForPartitionError("NO_OFFSET", f"{state.tp}"))
                    self._poll.wake(now)
                    return
                self.subscription.request_reset(state, policy)
        self.offset_fetcher.update(now)
        self.subscription.update_has_all_positions()

    def _on_metadata(self, now: int) -> None:
        self.offset_fetcher.on_metadata()
        if self.subscription.by_pattern and self.metadata.pattern_answered:
            self.subscription.topics = self.metadata.matching()
        if self.coordinator is not None and self.subscription.auto_assigned:
            self.coordinator.note_changes()
        self._poll.wake(now)

    def _tell_isolation(self) -> None:
        if self.config.isolation_level == "read_committed":
            self.process.out.append(ReadsCommitted(self.config.group_id))

    def _in_group(self, call: int) -> GroupMember | None:
        """Return the member, or refuse the call: there is no group.id."""
        if self.coordinator is None:
            self._refuse(call, KafkaError("INVALID_GROUP_ID", f"{self.name} has no group.id"))
        return self.coordinator

    def _subscriber(self, call: int, kind: str) -> GroupMember | None:
        """Return the member, or refuse that it subscribes in this way (setSubscriptionType)."""
        member = self._in_group(call)
        if member is not None and self.subscription.kind not in ("", kind):
            self._refuse(call, _exclusive())
            return None
        return member

    def _offsets(self, args: tuple[Any, ...]) -> tuple[Offsets, dict[TopicPartition, str]]:
        """Return the offsets to commit, and the metadata of those that have some.

        They are given as offset, (offset, metadata) or (offset, leader epoch, metadata). A position
        that is given without an epoch has that of the record before it.
        """
        if not args or args[0] is None:
            return self.subscription.consumed(), {}
        offsets: Offsets = {}
        metadata: dict[TopicPartition, str] = {}
        for name, given in args[0].items():
            tp = TopicPartition(*name)
            if isinstance(given, tuple) and len(given) == 3:
                offset, epoch, metadata[tp] = given
                offsets[tp] = (offset, epoch)
                continue
            offset = given
            if isinstance(given, tuple):
                offset, metadata[tp] = given
            state = self.subscription.assignment.get(tp)
            same = state is not None and state.position == offset
            offsets[tp] = (offset, state.offset_epoch if same and state is not None else -1)
        return offsets, metadata

    def _run_callbacks(self) -> None:
        """Tell the application of async commits that are over (invokeCompletedOffsetCommit…)."""
        self.process.out.extend(self._callbacks)
        self._callbacks.clear()

    def _reply(self, call: int, result: Any) -> None:
        self.process.out.append(Reply(call, result, None))

    def _refuse(self, call: int, error: KafkaError) -> None:
        self.process.out.append(Reply(call, None, error))
