"""The consumer as an application sees it: Kafka's ClassicKafkaConsumer with poll() as a machine.

poll() is one outstanding call that every event moves on: membership first, then positions, then
records. It ends with records, when its time is over (no records), or with an event of a rebalance
(``("revoked" | "lost" | "assigned", partitions)``), which is where Kafka calls the rebalance
listener: the application does what its listener would (commit_sync, seek), then calls ``continue``,
which goes on with the same poll.

close() has no listener: it commits if auto-commit is on, gives its partitions up, and leaves.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from kafkasim.model.client.consumer.commits import CommittedCall, OffsetCommits, Offsets
from kafkasim.model.client.consumer.coordinator import ConsumerCoordinator
from kafkasim.model.client.consumer.fetcher import Fetcher
from kafkasim.model.client.consumer.heartbeat import Heartbeat
from kafkasim.model.client.consumer.offsets import OffsetFetcher
from kafkasim.model.client.consumer.subscription import FETCHING, INITIALIZING, SubscriptionState
from kafkasim.model.client.exceptions import (
    CommitFailedError,
    KafkaError,
    KafkaTimeoutError,
    NoOffsetForPartitionError,
)
from kafkasim.model.client.net.connections import Connections
from kafkasim.model.client.net.metadata import Metadata
from kafkasim.model.effects import Reply
from kafkasim.model.errors import Errors
from kafkasim.model.facts import FinalPosition
from kafkasim.model.records import TopicPartition

if TYPE_CHECKING:
    from collections.abc import Callable

    from kafkasim.model.client.rules import ClientRules
    from kafkasim.model.config import ConsumerConfig
    from kafkasim.model.effects import Process
    from kafkasim.model.messages import OffsetFetchPartition

CLOSE_TIMEOUT_US = 30_000_000
FENCED = (Errors.UNKNOWN_MEMBER_ID, Errors.ILLEGAL_GENERATION, Errors.FENCED_INSTANCE_ID)


class KafkaConsumer:
    """One consumer of a client process."""

    def __init__(
        self,
        process: Process,
        name: str,
        config: ConsumerConfig,
        bootstrap: tuple[str, ...],
        rules: ClientRules,
    ) -> None:
        self.process = process
        self.name = name
        self.config = config
        self.rules = rules
        self.connections = Connections(process, name, config, bootstrap, "fetch")
        self.metadata = Metadata(self.connections, rules, config.allow_auto_create_topics)
        self.metadata.listeners.append(self._on_metadata)
        self.subscription = SubscriptionState()
        self.offsets = OffsetFetcher(self)
        self.fetcher = Fetcher(self)
        self.coordinator: ConsumerCoordinator | None = None
        if config.group_id:
            self.coordinator = coordinator = ConsumerCoordinator(self)
            coordinator.heartbeat = Heartbeat(coordinator)
            coordinator.commits = OffsetCommits(coordinator)
        self.failed: KafkaError | None = None  # what the next poll() raises
        self._poll: int | None = None
        self._deadline = 0
        self._then: Callable[[int], None] | None = None  # what continue does
        self._positions_pending = False
        self._stepping = False
        self._again = False
        self._closed = False
        self._key = ("poll", name)
        self.methods = {
            "subscribe": self.subscribe,
            "assign": self.assign,
            "poll": self.poll,
            "continue": self.go_on,
            "commit_sync": self.commit_sync,
            "commit_async": self.commit_async,
            "seek": self.seek,
            "position": self.position,
            "committed": self.committed,
            "close": self.close,
        }

    # Calls.

    def subscribe(self, call: int, args: tuple[Any, ...], now: int) -> None:
        """Subscribe to (topics,) as a member of the group."""
        assert self.coordinator is not None, f"{self.name} has no group.id"
        topics = tuple(sorted(args[0]))
        self.subscription.topics = topics
        self.subscription.auto_assigned = True
        self.coordinator.rejoin_needed = True
        self.metadata.set_topics(topics, now)
        self._reply(call, None)

    def assign(self, call: int, args: tuple[Any, ...], now: int) -> None:
        """Take (partitions,) without a group."""
        partitions = tuple([TopicPartition(*tp) for tp in args[0]])
        self.subscription.auto_assigned = False
        self.subscription.assign(partitions)
        self._positions_pending = True
        topics = tuple(dict.fromkeys([tp.topic for tp in partitions]))
        self.metadata.set_topics(topics, now)
        self._reply(call, None)

    def poll(self, call: int, args: tuple[Any, ...], now: int) -> None:
        """Poll for at most (timeout_ms,)."""
        assert self._poll is None, f"{self.name} is polled twice at a time"
        self._poll = call
        self._deadline = now + args[0] * 1000
        coordinator = self.coordinator
        if coordinator is not None:
            coordinator.heartbeat.last_poll_us = now
        if self._then is not None:
            self._resume(now)
        self._step(now)

    def go_on(self, call: int, args: tuple[Any, ...], now: int) -> None:
        """Go on with the poll that returned an event."""
        assert self._then is not None, f"{self.name} has no event to go on from"
        self._poll = call
        self._resume(now)
        self._step(now)

    def commit_sync(self, call: int, args: tuple[Any, ...], now: int) -> None:
        """Commit (offsets or None for all consumed,) and reply with the outcome."""
        commits = self._commits()
        timeout = self.config.default_api_timeout_ms * 1000

        def done(error: Errors, _at: int) -> None:
            if not error:
                self._reply(call, None)
            elif error in FENCED:
                self._refuse(call, CommitFailedError(error.name, self.config.group_id))
            elif error is Errors.REQUEST_TIMED_OUT:
                self._refuse(call, KafkaTimeoutError(error.name, "commit_sync"))
            else:
                self._refuse(call, KafkaError(error.name, "commit_sync"))

        commits.commit(self._offsets(args), "sync", timeout, now, done)

    def commit_async(self, call: int, args: tuple[Any, ...], now: int) -> None:
        """Commit (offsets or None,) without waiting; never repeated. The outcome is a fact."""
        self._commits().commit(self._offsets(args), "async", 0, now, _ignore)
        self._reply(call, None)

    def seek(self, call: int, args: tuple[Any, ...], now: int) -> None:
        """Move the position of (partition, offset)."""
        state = self.subscription.assignment.get(TopicPartition(*args[0]))
        if state is None:
            self._refuse(call, KafkaError("ILLEGAL_STATE", f"{args[0]} is not assigned"))
            return
        leader = self.metadata.leaders.get(state.tp, (-1, -1))
        state.seek(args[1], -1, leader[1], False)
        self.offsets.positioned(state, "seek")
        self._reply(call, None)

    def position(self, call: int, args: tuple[Any, ...], now: int) -> None:
        """Reply the position of (partition,); None while there is none."""
        state = self.subscription.assignment.get(TopicPartition(*args[0]))
        known = state is not None and state.position >= 0
        self._reply(call, state.position if known and state is not None else None)

    def committed(self, call: int, args: tuple[Any, ...], now: int) -> None:
        """Reply the group's committed offsets of (partitions,): {partition: offset or None}."""
        partitions = tuple([TopicPartition(*tp) for tp in args[0]])
        CommittedCall(self._commits(), call, partitions, now).ask(now)

    def close(self, call: int, args: tuple[Any, ...], now: int) -> None:
        """Commit if auto-commit is on, leave the group, close the connections, reply."""
        assert self._poll is None, f"{self.name} is closed inside poll"
        coordinator = self.coordinator
        if coordinator is None or not self.subscription.auto_assigned:
            self._shut(call)
            return

        def left(_answer: Any, _at: int) -> None:
            self._shut(call)

        def committed(_error: Errors, at: int) -> None:
            partitions = tuple(self.subscription.assignment)
            generation, member_id = coordinator.generation_id, coordinator.member_id
            lost = generation < 0 or not member_id
            if partitions:
                coordinator.drop_assignment(partitions, lost, generation, member_id)
            if not coordinator.leave("the consumer is being closed", at, left):
                self._shut(call)

        if coordinator.commits.auto and coordinator.state == "STABLE":
            consumed = self.subscription.consumed()
            coordinator.commits.commit(consumed, "auto", CLOSE_TIMEOUT_US, now, committed)
        else:
            committed(Errors.NONE, now)

    def ground_truth(self) -> list[Any]:
        """Return the positions, for the end of the run."""
        return [
            FinalPosition(
                self.config.group_id,
                self.member_id,
                self.metadata.last_topic_ids.get(tp.topic, ""),
                tp.partition,
                state.position,
            )
            for tp, state in self.subscription.assignment.items()
            if state.position >= 0
        ]

    # For the parts.

    @property
    def member_id(self) -> str:
        """The member id in the group, empty outside."""
        return self.coordinator.member_id if self.coordinator is not None else ""

    @property
    def polling(self) -> bool:
        """Whether the application is inside poll()."""
        return self._poll is not None

    def wake(self, now: int) -> None:
        """Something happened: go on with the outstanding poll, if there is one."""
        if self._poll is not None:
            self._step(now)

    def wake_at(self, deadline: int) -> None:
        """Go on with the outstanding poll at ``deadline`` at the latest."""
        if self._poll is None:
            return
        deadline = min(deadline, self._deadline)
        armed = self.process.timers.deadline(self._key)
        if armed is None or deadline < armed:
            self.process.timers.arm(self._key, deadline, "main", self._step)

    def positions_changed(self) -> None:
        """Some partition has no valid position: look at them in the next step."""
        self._positions_pending = self._again = True

    def event(
        self, kind: str, partitions: tuple[TopicPartition, ...], then: Callable[[int], None]
    ) -> None:
        """End the poll with an event of a rebalance; ``then`` runs when the application goes on."""
        call = self._poll
        assert call is not None, (self.name, kind)
        self._poll = None
        self._then = then
        self.process.timers.cancel(self._key)
        self._reply(call, (kind, partitions))

    def on_committed(self, parts: tuple[OffsetFetchPartition, ...], now: int) -> None:
        """The committed offsets are known: take them as positions, or reset."""
        for part in parts:
            state = self.subscription.assignment.get(part.tp)
            if state is None or state.state is not INITIALIZING:
                continue
            leader_epoch = self.metadata.leaders.get(part.tp, (-1, -1))[1]
            if part.offset >= 0:
                validate = self.rules.validates_position()
                state.seek(part.offset, part.leader_epoch, leader_epoch, validate)
                self.metadata.epoch_seen(part.tp, part.leader_epoch, now)
                self.offsets.positioned(state, "committed")
            elif self.config.auto_offset_reset == "none":
                self.failed = NoOffsetForPartitionError("NO_OFFSET", f"{part.tp}")
            else:
                state.await_reset(self.config.auto_offset_reset)

    # The inside.

    def _resume(self, now: int) -> None:
        then, self._then = self._then, None
        assert then is not None
        then(now)

    def _step(self, now: int) -> None:
        """Move the outstanding poll on; what it sets off may ask for another turn."""
        if self._stepping:
            self._again = True
            return
        self._stepping = True
        self._again = True
        while self._again and self._poll is not None:
            self._again = False
            self._advance(now)
        self._stepping = False

    def _advance(self, now: int) -> None:
        if self.failed is not None:
            self._finish_error(self.failed)
            return
        coordinator = self.coordinator
        ready = True
        if coordinator is not None:
            if self.subscription.auto_assigned:
                if not coordinator.settled:
                    ready = coordinator.step(now)
                    if self._poll is None:
                        return
            elif coordinator.channel is None:
                coordinator.find(now)
            if ready:
                coordinator.commits.auto_commit(now)
        if self._positions_pending and ready:
            self._update_positions(now)
        try:
            records = self.fetcher.collect(now)
        except KafkaError as error:
            self._finish_error(error)
            return
        self.fetcher.send_fetches(now)
        call = self._poll
        if call is None:
            return
        if records or now >= self._deadline:
            self._poll = None
            self.process.timers.cancel(self._key)
            self.process.out.append(Reply(call, ("records", records), None))
        elif not self.process.timers.armed(self._key):
            self.process.timers.arm(self._key, self._deadline, "main", self._step)

    def _update_positions(self, now: int) -> None:
        assignment = self.subscription.assignment
        if self.coordinator is not None:
            self.coordinator.commits.fetch_positions(now)
        else:
            for state in assignment.values():
                if state.state is INITIALIZING:
                    policy = self.config.auto_offset_reset
                    if policy == "none":
                        self.failed = NoOffsetForPartitionError("NO_OFFSET", f"{state.tp}")
                        self._again = True
                        return
                    state.await_reset(policy)
        self.offsets.update(now)
        self._positions_pending = any(s.state is not FETCHING for s in assignment.values())

    def _on_metadata(self, now: int) -> None:
        self.offsets.on_metadata()
        if self.coordinator is not None and self.subscription.auto_assigned:
            self.coordinator.on_metadata()
        self.wake(now)

    def _commits(self) -> OffsetCommits:
        assert self.coordinator is not None, f"{self.name} has no group.id"
        return self.coordinator.commits

    def _offsets(self, args: tuple[Any, ...]) -> Offsets:
        if not args or args[0] is None:
            return self.subscription.consumed()
        offsets: Offsets = {}
        for name, offset in args[0].items():
            tp = TopicPartition(*name)
            state = self.subscription.assignment.get(tp)
            same = state is not None and state.position == offset
            offsets[tp] = (offset, state.offset_epoch if same and state is not None else -1)
        return offsets

    def _shut(self, call: int) -> None:
        self._closed = True
        self.metadata.close()
        if self.coordinator is not None:
            self.coordinator.close()
        self.connections.close()
        self._reply(call, None)

    def _finish_error(self, error: KafkaError) -> None:
        call = self._poll
        assert call is not None
        self._poll = None
        self.failed = None
        self.process.timers.cancel(self._key)
        self._refuse(call, error)

    def _reply(self, call: int, result: Any) -> None:
        self.process.out.append(Reply(call, result, None))

    def _refuse(self, call: int, error: KafkaError) -> None:
        self.process.out.append(Reply(call, None, error))


def _ignore(error: Errors, now: int) -> None:
    """An async commit has no one waiting."""
