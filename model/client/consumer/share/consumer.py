"""The share consumer as an application sees it: Kafka's ShareConsumerImpl (KIP-932).

With share.acknowledgement.mode=implicit the next poll(), commit or close() accepts what the last
poll() returned. With explicit the application acknowledges each record before the next poll().
An application that asked for its acknowledgements' results (``report_acknowledgements``, Kafka's
AcknowledgementCommitCallback) gets them as the event ``("acknowledged", {partition: error})`` with
which a poll() ends; it goes on by ``continue``.
"""

from __future__ import annotations

from functools import partial
from typing import TYPE_CHECKING, Any

from kafkasim.model.client.consumer.modern.epoch_membership import EpochMembership
from kafkasim.model.client.consumer.poll import Poll
from kafkasim.model.client.consumer.share.acknowledgements import merge
from kafkasim.model.client.consumer.share.fetched import InFlight, ShareRecord
from kafkasim.model.client.consumer.share.membership import ShareGroupMember
from kafkasim.model.client.consumer.share.requests import ShareConsumeRequestManager
from kafkasim.model.client.consumer.subscription import SubscriptionState
from kafkasim.model.client.exceptions import KafkaError, WakeupError
from kafkasim.model.client.net.connections import Connections
from kafkasim.model.client.net.metadata import Metadata
from kafkasim.model.effects import Reply
from kafkasim.model.errors import Errors
from kafkasim.model.facts import ShareAcknowledged, SharePolled
from kafkasim.model.messages.share import ACCEPT
from kafkasim.model.records import TopicPartition
from kafkasim.model.values import random_uuid

if TYPE_CHECKING:
    from collections.abc import Callable

    from kafkasim.model.client.consumer.share.acknowledgements import (
        Acknowledgements,
        TopicIdPartition,
    )
    from kafkasim.model.client.rules import ClientRules
    from kafkasim.model.config import ShareConsumerConfig
    from kafkasim.model.effects import Process

NONE = Errors.NONE
REFRESHING = (
    Errors.NOT_LEADER_OR_FOLLOWER,
    Errors.REPLICA_NOT_AVAILABLE,
    Errors.KAFKA_STORAGE_ERROR,
    Errors.FENCED_LEADER_EPOCH,
    Errors.OFFSET_NOT_AVAILABLE,
    Errors.UNKNOWN_TOPIC_OR_PARTITION,
    Errors.UNKNOWN_TOPIC_ID,
    Errors.INCONSISTENT_TOPIC_ID,
)
"""Errors of a partition after which a consumer asks for metadata (handleInitializeErrors)."""
IGNORED = (Errors.UNKNOWN_LEADER_EPOCH, Errors.UNKNOWN_SERVER_ERROR)
"""Errors of a partition that a consumer only logs."""
CLOSE_TIMEOUT_MS = 30_000


class KafkaShareConsumer:
    """One share consumer of a client process."""

    def __init__(
        self,
        process: Process,
        name: str,
        config: ShareConsumerConfig,
        bootstrap: tuple[str, ...],
        rules: ClientRules,
    ) -> None:
        self.process = process
        self.name = name
        self.config = config
        self.connections = Connections(process, name, config, bootstrap, "fetch", rules)
        self.metadata = metadata = Metadata(
            self.connections, rules, config.allow_auto_create_topics
        )
        metadata.listeners.append(self._on_metadata)
        self.subscription = subscription = SubscriptionState()
        self.membership = membership = EpochMembership(random_uuid(process.rng))
        self._poll = poll = Poll(process, name, self._advance)
        metadata.on_refused = poll.fail_for_topics
        self._requests = ShareConsumeRequestManager(
            config, membership.member_id, metadata, subscription, poll, self._on_acknowledged
        )
        self._member = ShareGroupMember(config, rules, metadata, subscription, membership, poll)
        self._in_flight = InFlight()
        self._explicit = config.share_acknowledgement_mode == "explicit"
        self._reports = False
        self._results: dict[TopicPartition, str] = {}  # of acknowledgements, for the application
        self._closed = False
        self.methods: dict[str, Callable[[int, tuple[Any, ...], int], None]] = {
            "subscribe": self.subscribe,
            "poll": self.poll,
            "continue": self.continue_poll,
            "acknowledge": self.acknowledge,
            "commit_sync": self.commit_sync,
            "commit_async": self.commit_async,
            "report_acknowledgements": self.report_acknowledgements,
            "wakeup": self.wakeup,
            "close": self.close,
        }

    # Calls.

    def subscribe(self, call: int, args: tuple[Any, ...], now: int) -> None:
        """Subscribe to (topics,) as a member of the group."""
        self.subscription.topics = topics = tuple(sorted(args[0]))
        self.subscription.auto_assigned = True
        self.metadata.set_topics(topics, now)
        self._member.on_subscribed()
        self._reply(call, None)

    def poll(self, call: int, args: tuple[Any, ...], now: int) -> None:
        """Poll for at most (timeout_ms,): {partition: records} (ShareRecord)."""
        self._accept_implicitly()
        self._poll.begin(call, args[0], now)

    def continue_poll(self, call: int, _args: tuple[Any, ...], now: int) -> None:
        """Go on with the poll that returned the results of acknowledgements."""
        self._poll.go_on(call, now)

    def acknowledge(self, call: int, args: tuple[Any, ...], _now: int) -> None:
        """Acknowledge the record of (partition, offset, type); type 1 accept if left out."""
        tp, offset = TopicPartition(*args[0]), args[1]
        kind = args[2] if len(args) > 2 else ACCEPT
        if not self._explicit:
            self._refuse(call, KafkaError("ILLEGAL_STATE", "acknowledgement is implicit"))
            return
        topic_id = self.metadata.last_topic_ids.get(tp.topic, "")
        if self._in_flight.acknowledge((topic_id, tp), offset, kind):
            self._reply(call, None)
        else:
            self._refuse(call, KafkaError("ILLEGAL_STATE", f"{tp} {offset} is not held"))

    def commit_sync(self, call: int, _args: tuple[Any, ...], now: int) -> None:
        """Send the acknowledgements; reply {partition: name of the error or None}."""
        self._accept_implicitly()

        def done(results: dict[TopicIdPartition, Errors], _at: int) -> None:
            named = {tp: error.name if error else None for (_, tp), error in results.items()}
            self._reply(call, named)

        deadline = now + self.config.default_api_timeout_ms * 1000
        self._requests.commit_sync(self._in_flight.take_acknowledged(), deadline, done, now)

    def commit_async(self, call: int, _args: tuple[Any, ...], now: int) -> None:
        """Send the acknowledgements and reply at once."""
        self._accept_implicitly()
        self._requests.commit_async(self._in_flight.take_acknowledged(), now)
        self._reply(call, None)

    def report_acknowledgements(self, call: int, args: tuple[Any, ...], _now: int) -> None:
        """End a poll() with results of acknowledgements, or no more: (wanted,)."""
        self._reports = bool(args[0])
        self._results.clear()
        self._reply(call, None)

    def wakeup(self, call: int, _args: tuple[Any, ...], now: int) -> None:
        """End the outstanding poll(), or the next one, with a WakeupError."""
        self._poll.fail(WakeupError("WAKEUP", self.name))
        self._poll.wake(now)
        self._reply(call, None)

    def close(self, call: int, _args: tuple[Any, ...], now: int) -> None:
        """Acknowledge, close the sessions, leave the group, close the connections, reply."""
        self.shut(now, partial(self._reply, call, None))

    def stop(self, now: int, begin: Callable[[], None], done: Callable[[], None]) -> None:
        """Close as soon as the application has handled what the last poll() returned.

        ``begin()`` is called when the close begins, ``done()`` when it is over.
        """
        self._poll.interrupt(now, begin, self.shut, done)

    def shut(self, now: int, done: Callable[[], None]) -> None:
        """Close, then call ``done()``; it takes 30 s or request.timeout.ms at most."""
        assert not self._poll.outstanding, f"{self.name} is closed inside poll"
        if self._closed:
            done()
            return
        self._closed = True
        key = ("close", self.name)
        over = False

        def finished(_at: int) -> None:
            nonlocal over
            if not over:
                over = True
                self.process.timers.cancel(key)
                self.metadata.close()
                self.connections.close()
                done()

        limit = min(CLOSE_TIMEOUT_MS, self.config.request_timeout_ms) * 1000
        self.process.timers.arm(key, now + limit, "main", finished)
        self._accept_implicitly()
        left = self._in_flight.take_acknowledged()
        self._requests.close(left, now + limit, lambda at: self._member.close(at, finished), now)

    def ground_truth(self) -> list[Any]:
        """Return nothing: the leaders know the group's state."""
        return []

    # The inside.

    def _advance(self, now: int) -> None:
        """Run one pass of poll(): the group, acknowledgements, records (pollForFetches)."""
        self._member.poll(now)
        if self._results:
            results, self._results = self._results, {}
            self._poll.end_with_event("acknowledged", results, _ignore)
            return
        if not self._poll.outstanding:
            return
        acknowledged = self._in_flight.take_acknowledged()
        if not self._in_flight.is_empty:
            self._requests.commit_async(acknowledged, now)
            error = KafkaError("ILLEGAL_STATE", "records of the last poll are not acknowledged")
            self._poll.end_with_error(error)
            return
        try:
            self._collect(now)
        except KafkaError as error:
            self._poll.end_with_error(error)
            return
        records = self._in_flight.records()
        if records:
            self._requests.commit_async(acknowledged, now)
        else:
            for node_id, gaps in self._in_flight.take_acknowledged().items():
                merge(acknowledged.setdefault(node_id, {}), gaps)
            self._requests.fetch(acknowledged, now)
        by_partition = {tp: found for (_, tp), found in records.items()}
        self._poll.end_or_wait(by_partition, False, now)

    def _collect(self, now: int) -> None:
        """Take up to max.poll.records of what was fetched (ShareFetchCollector.collect).

        Raises:
            KafkaError: the leader of a partition refused the fetch for good. Of a corrupt batch
                poll() tells when it has returned what came before. Any other error, Kafka's
                IllegalStateException, takes that with it, and is told once more by the next poll():
                the records stay acquired until their lock ends.
        """
        self._in_flight = flight = InFlight()
        room = self.config.max_poll_records
        completed = self._requests.completed
        polled: list[tuple[TopicIdPartition, list[ShareRecord]]] = []
        while completed and room > 0:
            fetch = completed[0]
            if self._is_refused(fetch.error, now):
                if flight.is_empty:
                    completed.popleft()
                elif fetch.error is Errors.CORRUPT_MESSAGE:
                    break
                self._in_flight = InFlight()
                raise KafkaError(fetch.error.name, f"share fetch of {fetch.key[1]}")
            if fetch.error is not NONE:
                completed.popleft()
                continue
            records, gaps = fetch.take(room)
            if fetch.consumed:
                completed.popleft()
            flight.add(fetch.key, fetch.node_id, records, gaps)
            room -= len(records)
            if records:
                polled.append((fetch.key, records))
        for key, records in polled:
            self._tell_polled(key, records)

    def _is_refused(self, error: Errors, now: int) -> bool:
        """Return whether poll() has to raise an error; ask for metadata if it may explain it."""
        if error in REFRESHING:
            self.metadata.request_update(now)
            return False
        return error is not NONE and error not in IGNORED

    def _tell_polled(self, key: TopicIdPartition, records: list[ShareRecord]) -> None:
        self.process.out.append(
            SharePolled(
                self.config.group_id,
                self.membership.member_id,
                key[0],
                key[1].partition,
                tuple([record[0] for record in records]),
                tuple([record[1] for record in records]),
                tuple([record[4] for record in records]),
            )
        )

    def _on_acknowledged(
        self, key: TopicIdPartition, acknowledged: Acknowledgements, error: Errors, now: int
    ) -> None:
        fact = ShareAcknowledged(
            self.config.group_id,
            self.membership.member_id,
            key[0],
            key[1].partition,
            tuple(acknowledged),
            tuple(acknowledged.values()),
            error.name,
        )
        self.process.out.append(fact)
        if self._reports:
            self._results[key[1]] = error.name
            self._poll.wake(now)

    def _accept_implicitly(self) -> None:
        if not self._explicit:
            self._in_flight.acknowledge_all(ACCEPT)

    def _on_metadata(self, now: int) -> None:
        self._requests.advance(now)
        self._poll.wake(now)

    def _reply(self, call: int, result: Any) -> None:
        self.process.out.append(Reply(call, result, None))

    def _refuse(self, call: int, error: KafkaError) -> None:
        self.process.out.append(Reply(call, None, error))


def _ignore(_now: int) -> None:
    """Do nothing."""
