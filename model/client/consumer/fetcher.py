"""Fetching records: Kafka's Fetcher, AbstractFetch and CompletedFetch.

One fetch per node is in flight; what it brings is buffered until poll() takes it, and a
buffered partition is not fetched again. Sent from poll() only, so that the next fetch travels while
the application works.

A leader may name a preferred read replica (KIP-392): it is fetched from for metadata.max.age.ms, or
until an error, a new leader epoch or an offset that it does not have.

Not modelled: fetch sessions (KIP-227), filtering of aborted transactions (it comes with the
transactions).
"""

from __future__ import annotations

from collections import deque
from typing import TYPE_CHECKING, Any

from kafkasim.model.client.consumer.subscription import FETCHING, PartitionState
from kafkasim.model.client.exceptions import KafkaError, NoOffsetForPartitionError
from kafkasim.model.errors import INVALID_METADATA, Errors
from kafkasim.model.facts import Polled, ReadReplica
from kafkasim.model.messages import (
    FetchPartition,
    FetchPartitionResponse,
    FetchRequest,
    FetchResponse,
)
from kafkasim.model.records import RecordBatch, TopicPartition

if TYPE_CHECKING:
    from kafkasim.model.channel import Channel
    from kafkasim.model.client.consumer.consumer import KafkaConsumer

NEVER = 2**62
RecordTuple = tuple[int, Any, Any, int]  # offset, record id, key, timestamp


class CompletedFetch:
    """A partition's response, from arrival until all its records are polled."""

    __slots__ = ("batch", "next_offset", "response", "state")

    def __init__(
        self, state: PartitionState, fetch_offset: int, response: FetchPartitionResponse
    ) -> None:
        self.state = state
        self.next_offset = fetch_offset
        self.response = response
        self.batch = 0

    def take(self, limit: int) -> list[RecordTuple]:
        """Return up to ``limit`` records and advance ``next_offset`` past them and gaps."""
        taken: list[RecordTuple] = []
        batches = self.response.batches
        while self.batch < len(batches):
            batch = batches[self.batch]
            if type(batch) is not RecordBatch:
                break
            start = self.next_offset
            if not batch.control and batch.last_offset >= start:
                base = batch.base_offset
                deltas = batch.offset_deltas
                records = batch.records
                if deltas is None:
                    first = start - base if start > base else 0
                    chosen = records[first : first + limit - len(taken)]
                    taken += [
                        (offset, r.value, r.key, r.timestamp_ms)
                        for offset, r in enumerate(chosen, base + first)
                    ]
                    more = first + len(chosen) < len(records)
                else:
                    pairs = [p for p in zip(deltas, records, strict=True) if base + p[0] >= start]
                    room = limit - len(taken)
                    taken += [(base + d, r.value, r.key, r.timestamp_ms) for d, r in pairs[:room]]
                    more = len(pairs) > room
                self.state.offset_epoch = batch.leader_epoch
                if more:
                    if taken:
                        self.next_offset = taken[-1][0] + 1
                    return taken
            if batch.last_offset >= start:
                self.next_offset = batch.last_offset + 1
            self.batch += 1
            if len(taken) >= limit:
                break
        return taken

    @property
    def corrupt(self) -> bool:
        """Whether the next batch has a wrong CRC (check.crcs, bit rot at the leader)."""
        batches = self.response.batches
        return self.batch < len(batches) and type(batches[self.batch]) is not RecordBatch

    @property
    def exhausted(self) -> bool:
        """Whether nothing is left."""
        return self.batch >= len(self.response.batches)


class NodeFetch:
    """The fetches to one node: at most one in flight."""

    __slots__ = ("channel", "done", "fetcher", "in_flight", "node_id", "requested", "states")

    def __init__(self, fetcher: Fetcher, node_id: int, channel: Channel) -> None:
        self.fetcher = fetcher
        self.node_id = node_id
        self.channel = channel
        self.in_flight = False
        self.states: list[PartitionState] = []  # partitions fetched from it
        self.requested: dict[TopicPartition, tuple[PartitionState, int]] = {}
        self.done = self._on_answer

    def _on_answer(self, answer: Any, now: int) -> None:
        self.in_flight = False
        requested = self.requested
        fetcher = self.fetcher
        if type(answer) is FetchResponse and not answer.error:
            completed = fetcher.completed
            for response in answer.partitions:
                entry = requested.get(response.tp)
                if entry is None:
                    continue
                state, offset = entry
                if response.batches or response.error:
                    state.buffered = True
                    completed.append(CompletedFetch(state, offset, response))
                else:
                    state.high_watermark = response.high_watermark
                    if response.preferred_read_replica >= 0:
                        fetcher.prefer(state, response.preferred_read_replica, now)
        else:  # no answer, or a refused fetch: back to the leaders
            for state, _ in requested.values():
                fetcher.go_to_leader(state)
        fetcher.consumer.wake(now)


class Fetcher:
    """Buffers and fetches for one consumer."""

    def __init__(self, consumer: KafkaConsumer) -> None:
        self.consumer = consumer
        self.config = consumer.config
        self.process = consumer.process
        self.metadata = consumer.metadata
        self.subscription = consumer.subscription
        self.isolation_level = int(self.config.isolation_level == "read_committed")
        self.completed: deque[CompletedFetch] = deque()
        self.nodes: dict[int, NodeFetch] = {}
        self._grouped = (-1, -1)
        self._lease_ends_us = NEVER  # the first lease of a preferred read replica that ends

    def send_fetches(self, now: int) -> None:
        """Fetch from every node that has no fetch in flight and something to fetch."""
        if (
            self._grouped != (self.metadata.version, self.subscription.version)
            or now >= self._lease_ends_us
        ):
            self._group(now)
        pauses = self.consumer.rules.pauses_pending_revocation()
        for node in self.nodes.values():
            if node.in_flight:
                continue
            parts: list[FetchPartition] = []
            requested: dict[TopicPartition, tuple[PartitionState, int]] = {}
            for state in node.states:
                if state.state is not FETCHING or state.buffered:
                    continue
                if state.pending_revocation and pauses:
                    continue
                tp = state.tp
                offset = state.position
                requested[tp] = (state, offset)
                parts.append(
                    FetchPartition(
                        tp,
                        self.metadata.topic_ids[tp.topic],
                        offset,
                        -1,
                        self.metadata.leaders[tp][1],
                        -1,
                        self.config.max_partition_fetch_bytes,
                    )
                )
            if parts:
                node.requested = requested
                self._send(node, parts, now)

    def _send(self, node: NodeFetch, parts: list[FetchPartition], now: int) -> None:
        channel = node.channel
        if channel.connection is None and now < channel.not_before:
            self.consumer.wake_at(channel.not_before)
            return
        node.in_flight = True
        config = self.config
        channel.send(
            FetchRequest(
                -1,
                -1,
                config.fetch_max_wait_ms,
                config.fetch_min_bytes,
                config.fetch_max_bytes,
                self.isolation_level,
                tuple(parts),
                rack_id=config.client_rack,
            ),
            now,
            node.done,
        )

    def collect(self, now: int) -> dict[TopicPartition, tuple[RecordTuple, ...]]:
        """Take up to max.poll.records buffered records and advance the positions.

        Raises:
            KafkaError: the position is out of range and auto.offset.reset is none, or the next
                batch is damaged.
        """
        room = self.config.max_poll_records
        polled: dict[TopicPartition, tuple[RecordTuple, ...]] = {}
        completed = self.completed
        while completed and room > 0:
            fetch = completed[0]
            state = fetch.state
            if not self._usable(fetch):
                self._drop_first()
                continue
            response = fetch.response
            if response.error:
                if polled:
                    break
                self._drop_first()
                self._on_error(fetch, now)
                continue
            records = fetch.take(room)
            state.position = fetch.next_offset
            if not records and fetch.corrupt:
                if polled:
                    break
                # It stays first: every poll() fails until the application seeks past it.
                raise KafkaError("CORRUPT_MESSAGE", f"{state.tp} at {fetch.next_offset}")
            state.high_watermark = response.high_watermark
            if fetch.exhausted:
                self._drop_first()
            if records:
                room -= len(records)
                tp = state.tp
                polled[tp] = polled[tp] + tuple(records) if tp in polled else tuple(records)
                self._record(state, records)
        return polled

    def _record(self, state: PartitionState, records: list[RecordTuple]) -> None:
        tp = state.tp
        self.process.out.append(
            Polled(
                self.config.group_id,
                self.consumer.member_id,
                self.metadata.last_topic_ids.get(tp.topic, ""),
                tp.partition,
                state.position,
                state.high_watermark,
                tuple([r[0] for r in records]),
                tuple([r[1] for r in records]),
            )
        )

    def _usable(self, fetch: CompletedFetch) -> bool:
        state = fetch.state
        if self.subscription.assignment.get(state.tp) is not state:
            return False
        if state.state is not FETCHING or state.position != fetch.next_offset:
            return False
        return not (state.pending_revocation and self.consumer.rules.pauses_pending_revocation())

    def _drop_first(self) -> None:
        self.completed.popleft().state.buffered = False

    def _on_error(self, fetch: CompletedFetch, now: int) -> None:
        error = fetch.response.error
        state = fetch.state
        if error is Errors.OFFSET_OUT_OF_RANGE:
            if self.go_to_leader(state):
                return  # a follower's range: the leader decides before the reset policy does
            policy = self.config.auto_offset_reset
            if policy == "none":
                raise NoOffsetForPartitionError("OFFSET_OUT_OF_RANGE", f"{state.tp}")
            state.await_reset(policy)
            self.consumer.positions_changed()
        elif error in INVALID_METADATA or error is Errors.OFFSET_NOT_AVAILABLE:
            self.go_to_leader(state)
            self.metadata.update_leader(state.tp, fetch.response.current_leader, now)
            self.metadata.request_update(now)
            # Kafka fetches again at once; a fetch that is refused again costs a round trip only.
        elif error not in (Errors.UNKNOWN_LEADER_EPOCH, Errors.UNKNOWN_SERVER_ERROR):
            raise KafkaError(error.name, f"fetch of {state.tp}")

    def prefer(self, state: PartitionState, replica: int, now: int) -> None:
        """The leader sends us to another replica for metadata.max.age.ms."""
        state.preferred_replica = replica
        state.preferred_until_us = now + self.config.metadata_max_age_ms * 1000
        self._grouped = (-1, -1)
        self._record_replica(state, replica)

    def go_to_leader(self, state: PartitionState) -> bool:
        """Fetch from the leader again; return whether it was another replica before."""
        changed = state.clear_preferred_replica()
        if changed:
            self._grouped = (-1, -1)
            self._record_replica(state, -1)
        return changed

    def _record_replica(self, state: PartitionState, replica: int) -> None:
        tp = state.tp
        topic_id = self.metadata.last_topic_ids.get(tp.topic, "")
        self.process.out.append(ReadReplica(self.config.group_id, topic_id, tp.partition, replica))

    def _read_replica(self, state: PartitionState, now: int) -> int:
        """Return the node to fetch a partition from, −1 for none (selectReadReplica)."""
        preferred = state.preferred_replica
        if preferred >= 0:
            if now < state.preferred_until_us and preferred in self.metadata.brokers:
                self._lease_ends_us = min(self._lease_ends_us, state.preferred_until_us)
                return preferred
            if now < state.preferred_until_us:
                self.metadata.request_update(now)
            state.clear_preferred_replica()
        return self.metadata.leaders.get(state.tp, (-1, -1))[0]

    def _group(self, now: int) -> None:
        """Group the assigned partitions by the node that they are fetched from."""
        self._grouped = (self.metadata.version, self.subscription.version)
        self._lease_ends_us = NEVER
        for node in self.nodes.values():
            node.states = []
        for tp, state in self.subscription.assignment.items():
            node_id = self._read_replica(state, now)
            address = self.metadata.brokers.get(node_id)
            if address is None or tp not in self.metadata.leaders:
                continue
            channel = self.consumer.connections.channel(node_id, address)
            known = self.nodes.get(node_id)
            if known is None or known.channel is not channel:
                known = self.nodes[node_id] = NodeFetch(self, node_id, channel)
            known.states.append(state)
