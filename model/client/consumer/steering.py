"""How an application steers a consumer beside poll(): pause, resume, seek, look things up.

Models the methods of these names of ClassicKafkaConsumer. A paused partition is not fetched, and
what was fetched of it stays buffered; a rebalance that takes it away forgets the pause. Seeking to
the beginning or end is evaluated lazily, by the next poll().
"""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from typing import TYPE_CHECKING, Any

from kafkasim.model.client.consumer.offset_fetcher import isolation_level
from kafkasim.model.client.exceptions import KafkaError, KafkaTimeoutError
from kafkasim.model.effects import Reply
from kafkasim.model.errors import RETRIABLE, Errors
from kafkasim.model.messages import (
    EARLIEST_TIMESTAMP,
    LATEST_TIMESTAMP,
    ListOffsetsPartition,
    ListOffsetsRequest,
    ListOffsetsResponse,
    MetadataRequest,
    MetadataResponse,
)
from kafkasim.model.records import TopicPartition

if TYPE_CHECKING:
    from kafkasim.model.channel import Channel
    from kafkasim.model.client.consumer.poll import Poll
    from kafkasim.model.client.consumer.subscription import SubscriptionState, TopicPartitionState
    from kafkasim.model.client.net.metadata import Metadata
    from kafkasim.model.config import ConsumerConfig

RETRIED_OF_TOPICS = frozenset(RETRIABLE) - {Errors.UNKNOWN_TOPIC_OR_PARTITION}
"""Errors of a topic after which all are asked for again (TopicMetadataFetcher)."""

Method = Callable[[int, tuple[Any, ...], int], None]
"""Called with (call, its arguments, now)."""


class Steering:
    """The calls of one consumer's application that change what is fetched, and from where."""

    def __init__(
        self,
        config: ConsumerConfig,
        metadata: Metadata,
        subscription: SubscriptionState,
        poll: Poll,
    ) -> None:
        self._config = config
        self._metadata = metadata
        self._subscription = subscription
        self._poll = poll
        self._process = poll.process
        self.methods: dict[str, Method] = {
            "pause": self.pause,
            "resume": self.resume,
            "paused": self.paused,
            "assignment": self.assignment,
            "seek_to_beginning": self.seek_to_beginning,
            "seek_to_end": self.seek_to_end,
            "offsets_for_times": self.offsets_for_times,
            "beginning_offsets": partial(self._offsets_at, EARLIEST_TIMESTAMP),
            "end_offsets": partial(self._offsets_at, LATEST_TIMESTAMP),
            "topics": self.topics,
            "partitions_for": self.partitions_for,
            "fetched": self.fetched,
            "current_lag": self.current_lag,
        }

    def pause(self, call: int, args: tuple[Any, ...], _now: int) -> None:
        """Return no records of (partitions,) until they are resumed."""
        self._subscription.pauses = True
        self._each(call, args[0], lambda state: self._subscription.pause(state, True))

    def resume(self, call: int, args: tuple[Any, ...], now: int) -> None:
        """Return records of (partitions,) again."""
        self._each(call, args[0], lambda state: self._subscription.pause(state, False))
        self._poll.wake(now)

    def paused(self, call: int, _args: tuple[Any, ...], _now: int) -> None:
        """Reply the partitions that are paused."""
        states = self._subscription.assignment.values()
        self._reply(call, tuple([state.tp for state in states if state.paused]))

    def assignment(self, call: int, _args: tuple[Any, ...], _now: int) -> None:
        """Reply the partitions that the consumer has."""
        self._reply(call, tuple(self._subscription.assignment))

    def seek_to_beginning(self, call: int, args: tuple[Any, ...], now: int) -> None:
        """Move the positions of (partitions,), or of all, to the first offsets."""
        self._reset(call, args, "earliest", now)

    def seek_to_end(self, call: int, args: tuple[Any, ...], now: int) -> None:
        """Move the positions of (partitions,), or of all, to the last offsets.

        That is the high watermark, and with read_committed the last stable offset.
        """
        self._reset(call, args, "latest", now)

    def _reset(self, call: int, args: tuple[Any, ...], strategy: str, now: int) -> None:
        wanted = args[0] if args and args[0] else tuple(self._subscription.assignment)
        reset = self._subscription.request_reset
        self._each(call, wanted, lambda state: reset(state, strategy))
        self._poll.wake(now)

    def _each(
        self, call: int, partitions: Any, change: Callable[[TopicPartitionState], None]
    ) -> None:
        """Change the state of partitions; of one that is not assigned refuse the call."""
        assignment = self._subscription.assignment
        for tp in [TopicPartition(*each) for each in partitions]:
            if tp not in assignment:
                error = KafkaError("ILLEGAL_STATE", f"No current assignment for partition {tp}")
                self._process.out.append(Reply(call, None, error))
                return
            change(assignment[tp])
        self._reply(call, None)

    def offsets_for_times(self, call: int, args: tuple[Any, ...], now: int) -> None:
        """Reply {partition: (offset, timestamp in ms) or None} of ({partition: timestamp in ms},).

        It is the first record with this timestamp or a later one; None if there is none.
        """
        negative = [tp for tp, timestamp in args[0].items() if timestamp < 0]
        if negative:
            error = KafkaError("ILLEGAL_ARGUMENT", f"the time for {negative[0]} is negative")
            self._process.out.append(Reply(call, None, error))
            return
        self._look_up(call, args[0], _both, now)

    def _offsets_at(self, end: int, call: int, args: tuple[Any, ...], now: int) -> None:
        """Reply {partition: offset} of (partitions,): where each begins, or where it ends."""
        self._look_up(call, dict.fromkeys(args[0], end), _offset, now)

    def _look_up(self, call: int, times: Any, shown: Callable[[Any], Any], now: int) -> None:
        wanted = {TopicPartition(*tp): timestamp for tp, timestamp in times.items()}
        self._metadata.add_topics(tuple(dict.fromkeys([tp.topic for tp in wanted])), now)
        OffsetsForTimes(self, call, wanted, shown, now).ask(now)

    def topics(self, call: int, _args: tuple[Any, ...], now: int) -> None:
        """Reply the sorted names of all topics, internal ones too (listTopics)."""
        deadline = now + self.timeout_us

        def ask(at: int) -> None:
            channel = self._metadata.connections.least_loaded(at)
            if channel is None:
                self.try_again(call, deadline, ask, at, "topics")
            else:
                channel.send(MetadataRequest(None), at, answered)

        def answered(response: Any, at: int) -> None:
            known = response.topics if isinstance(response, MetadataResponse) else None
            if known is None or any(topic.error in RETRIED_OF_TOPICS for topic in known):
                self.try_again(call, deadline, ask, at, "topics")
            else:
                self._reply(call, sorted([topic.topic for topic in known if not topic.error]))

        ask(now)

    def partitions_for(self, call: int, args: tuple[Any, ...], _now: int) -> None:
        """Reply how many partitions the metadata has of (topic,), None if it has none."""
        self._reply(call, self._metadata.partition_counts.get(args[0]))

    def fetched(self, call: int, args: tuple[Any, ...], _now: int) -> None:
        """Reply what fetches of (partition,) have told, None if it is not assigned.

        That is (high watermark, last stable offset, time of the last fetch in µs), each −1 before.
        """
        state = self._subscription.assignment.get(TopicPartition(*args[0]))
        told = state and (state.high_watermark, state.last_stable_offset, state.fetched_us)
        self._reply(call, told)

    def current_lag(self, call: int, args: tuple[Any, ...], _now: int) -> None:
        """Reply {partition: records behind the position, None if unknown} of (partitions,).

        Models KafkaConsumer.currentLag: the end is that of the last fetch response, the last stable
        offset with read_committed.
        """
        committed = self._config.isolation_level == "read_committed"
        found: dict[TopicPartition, int | None] = {}
        for tp in [TopicPartition(*each) for each in args[0]]:
            state = self._subscription.assignment.get(tp)
            end = -1
            if state is not None and state.position >= 0:
                end = state.last_stable_offset if committed else state.high_watermark
            found[tp] = None if state is None or end < 0 else end - state.position
        self._reply(call, found)

    def _reply(self, call: int, result: Any) -> None:
        self._process.out.append(Reply(call, result, None))

    # For OffsetsForTimes.

    def list_offsets(
        self,
        call: int,
        wanted: dict[TopicPartition, int],
        done: Callable[[Any, int], None],
        now: int,
    ) -> int:
        """Ask the leaders of partitions, each as soon as it takes requests (KIP-219); return how
        many are asked."""
        by_leader: dict[int, list[ListOffsetsPartition]] = {}
        for tp, timestamp in wanted.items():
            known = self._metadata.leaders.get(tp)
            if known is not None and known.leader in self._metadata.brokers:
                part = ListOffsetsPartition(tp, known.epoch, timestamp)
                by_leader.setdefault(known.leader, []).append(part)
        level = isolation_level(self._config)
        for leader, parts in by_leader.items():
            address = self._metadata.brokers[leader]
            channel = self._metadata.connections.channel(leader, address)
            request = ListOffsetsRequest(-1, level, tuple(parts))
            if channel.throttled_until <= now:
                channel.send(request, now, done)
            else:
                key = ("throttled", self._poll.name, call, leader)
                send = partial(_send, channel, request, done)
                self._process.timers.arm(key, channel.throttled_until, "main", send)
        return len(by_leader)

    def try_again(
        self, call: int, deadline: int, ask: Callable[[int], None], now: int, what: str
    ) -> None:
        """Ask again after the backoff with newer metadata, or reply a timeout."""
        self._metadata.request_update(now)
        at = now + self._config.retry_backoff_ms * 1000
        if at >= deadline:
            error = KafkaTimeoutError("REQUEST_TIMED_OUT", what)
            self._process.out.append(Reply(call, None, error))
        else:
            self._process.timers.arm(("offsets", self._poll.name, call), at, "main", ask)

    @property
    def timeout_us(self) -> int:
        """How long a call may take: default.api.timeout.ms."""
        return self._config.default_api_timeout_ms * 1000

    def reply(self, call: int, result: Any) -> None:
        """Give the application the result of a call."""
        self._reply(call, result)


class OffsetsForTimes:
    """One call of offsetsForTimes, beginningOffsets or endOffsets.

    Leaders are asked until each partition has an answer.
    """

    def __init__(
        self,
        steering: Steering,
        call: int,
        wanted: dict[TopicPartition, int],
        shown: Callable[[Any], Any],
        now: int,
    ) -> None:
        self._steering = steering
        self._call = call
        self._wanted = wanted
        self._shown = shown  # what the application gets of an answer
        self._deadline = now + steering.timeout_us
        self._found: dict[TopicPartition, tuple[int, int] | None] = {}
        self._outstanding = 0

    def ask(self, now: int) -> None:
        """Ask for what has no answer yet."""
        missing = {tp: at for tp, at in self._wanted.items() if tp not in self._found}
        self._outstanding = self._steering.list_offsets(self._call, missing, self._on_response, now)
        if not self._outstanding:
            self._go_on(now)

    def _on_response(self, response: Any, now: int) -> None:
        self._outstanding -= 1
        if isinstance(response, ListOffsetsResponse):
            for part in response.partitions:
                if part.error not in RETRIABLE:
                    known = not part.error and part.offset >= 0
                    self._found[part.tp] = (part.offset, part.timestamp) if known else None
        if not self._outstanding:
            self._go_on(now)

    def _go_on(self, now: int) -> None:
        if len(self._found) == len(self._wanted):
            self._steering.reply(
                self._call, {tp: self._shown(self._found[tp]) for tp in self._wanted}
            )
        else:
            self._steering.try_again(self._call, self._deadline, self.ask, now, "offsets_for_times")


def _both(found: tuple[int, int] | None) -> tuple[int, int] | None:
    return found


def _offset(found: tuple[int, int] | None) -> int | None:
    return None if found is None else found[0]


def _send(channel: Channel, request: Any, done: Callable[[Any, int], None], now: int) -> None:
    channel.send(request, now, done)
