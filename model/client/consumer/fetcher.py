"""Fetching records: Kafka's Fetcher and AbstractFetch.

For each node one fetch is in flight at most. What it returns is buffered until poll() takes it, and
a buffered partition is not fetched again. Nor is its node, as the partition would leave the node's
fetch session for the time (KAFKA-17182). Fetches are sent from poll() only, so that the next one is
under way while the application works.

A leader may name a preferred read replica (KIP-392). The consumer fetches from that replica for
metadata.max.age.ms, or until an error, a lost connection, or an offset that the replica does not
have.
"""

from __future__ import annotations

from collections import deque
from functools import partial
from typing import TYPE_CHECKING, Any

from kafkasim.model.client.consumer.completed_fetch import CompletedFetch, RecordTuple
from kafkasim.model.client.consumer.offset_fetcher import isolation_level
from kafkasim.model.client.consumer.subscription import FetchState
from kafkasim.model.client.exceptions import KafkaError, OffsetOutOfRangeError
from kafkasim.model.errors import INVALID_METADATA, Errors
from kafkasim.model.facts import Polled, ReadReplica
from kafkasim.model.fetch_session import (
    FINAL_EPOCH,
    NO_CHANGES,
    Changes,
    FetchSessionHandler,
)
from kafkasim.model.messages import FetchPartition, FetchRequest, FetchResponse

if TYPE_CHECKING:
    from collections.abc import Callable

    from kafkasim.model.channel import Channel
    from kafkasim.model.client.consumer.group.membership import Membership
    from kafkasim.model.client.consumer.poll import Poll
    from kafkasim.model.client.consumer.subscription import SubscriptionState, TopicPartitionState
    from kafkasim.model.client.net.metadata import Metadata
    from kafkasim.model.client.rules import ClientRules
    from kafkasim.model.config import ConsumerConfig
    from kafkasim.model.messages import FetchPartitionResponse
    from kafkasim.model.records import TopicPartition

NEVER = 2**62
STALE = (-1, -1, -1)
NAMES_LEADER = (Errors.NOT_LEADER_OR_FOLLOWER, Errors.FENCED_LEADER_EPOCH)
"""Errors with which a broker may name the newer leader."""
FETCHING = FetchState.FETCHING


class NodeFetch:
    """The fetches from one node: at most one is in flight."""

    __slots__ = (
        "answered",
        "channel",
        "done",
        "fetcher",
        "in_flight",
        "node_id",
        "regrouped",
        "requested",
        "session",
        "states",
    )

    def __init__(
        self, fetcher: Fetcher, node_id: int, channel: Channel, session: FetchSessionHandler
    ) -> None:
        self.fetcher = fetcher
        self.node_id = node_id
        self.channel = channel
        self.session = session
        self.in_flight = False
        self.states: list[TopicPartitionState] = []  # of the partitions to fetch from it
        self.regrouped = True  # since the last fetch: ``states``, or which of them may be fetched
        # of the partitions of the fetch in flight
        self.requested: dict[TopicPartition, TopicPartitionState] = {}
        self.answered: list[TopicPartition] = []  # with records or an error, since the last fetch
        self.done = self._on_response

    def _on_response(self, response: Any, now: int) -> None:
        self.in_flight = False
        fetcher, session = self.fetcher, self.session
        if type(response) is FetchResponse:
            if session.accept(response):
                self._take(response, now)
            elif response.error is Errors.FETCH_SESSION_TOPIC_ID_ERROR:
                fetcher.refresh_metadata(now)
            if response.throttle_time_ms:
                self.channel.throttle(response.throttle_time_ms, now)
        else:
            session.connection_lost()
            for state in self.requested.values():
                fetcher.use_leader(state)
        fetcher.poll.wake(now)

    def _take(self, response: FetchResponse, now: int) -> None:
        fetcher, asked = self.fetcher, self.session.partitions
        moved: list[FetchPartitionResponse] = []
        for part in response.partitions:
            tp = part.tp
            state = self.requested[tp]
            state.fetched_us = now
            if part.batches or part.error:
                state.buffered = True
                self.answered.append(tp)
                fetcher.completed.append(CompletedFetch(state, asked[tp], part))
                if part.error in NAMES_LEADER:
                    moved.append(part)
            else:
                state.high_watermark = part.high_watermark
                state.last_stable_offset = part.last_stable_offset
                if part.preferred_read_replica >= 0:
                    fetcher.use_preferred_replica(state, part.preferred_read_replica, now)
        for part in moved:
            fetcher.use_named_leader(part, now)


class Fetcher:
    """Fetches and buffers the records of one consumer."""

    def __init__(
        self,
        config: ConsumerConfig,
        rules: ClientRules,
        metadata: Metadata,
        subscription: SubscriptionState,
        membership: Membership,
        poll: Poll,
    ) -> None:
        self.poll = poll
        self.completed: deque[CompletedFetch] = deque()  # buffered, in the order of arrival
        self.position_advanced = False  # by the last collect(), with or without records
        self.tells = True  # the trace of what is polled
        self._config = config
        self._rules = rules
        self._connections = metadata.connections
        self._metadata = metadata
        self._subscription = subscription
        self._membership = membership
        self._process = poll.process
        self._isolation_level = isolation_level(config)
        self._nodes: dict[int, NodeFetch] = {}
        # Versions of metadata, assignment and leaders that _nodes is made from.
        self._grouped = STALE
        self._leaderless: list[TopicPartitionState] = []  # of positions that know no leader
        self._lease_ends_us = NEVER  # when the first use of a preferred read replica is over

    def send_fetches(self, now: int) -> None:
        """Fetch from every node that has no fetch in flight and partitions to fetch."""
        subscription = self._subscription
        versions = (self._metadata.version, subscription.version, subscription.fetchable_version)
        if self._grouped != versions or now >= self._lease_ends_us:
            self._group(now)
        if self._leaderless and any(map(self._fetchable, self._leaderless)):
            self._metadata.request_update(now)
        for node in self._nodes.values():
            if not node.in_flight:
                self._fetch_from(node, now)

    def _fetch_from(self, node: NodeFetch, now: int) -> None:
        """Fetch all fetchable partitions of a node (prepareFetchRequests).

        If the same ones are fetchable as in the last fetch, only those that it brought something
        of have moved.
        """
        requested, session = node.requested, node.session
        spares = self._rules.spares_nodes_of_buffered()
        if spares and not node.regrouped:
            for fetch in self.completed:
                if requested.get(fetch.state.tp) is fetch.state:
                    return
            if not self._may_send(node, now):
                return
            moved = [tp for tp in sorted(node.answered) if self._ask(requested[tp])]
            changes = session.next_request_of(requested, moved)
        else:
            requested = {state.tp: state for state in node.states if self._fetchable(state)}
            for state in [each for each in requested.values() if each.buffered]:
                if spares:
                    return
                del requested[state.tp]
            if not requested:
                return
            node.requested = requested
            if not self._may_send(node, now):
                return
            for state in requested.values():
                self._ask(state)
            changes = session.next_request({tp: state.asked for tp, state in requested.items()})
        node.answered.clear()
        node.regrouped = False
        node.in_flight = True
        node.channel.send(self._request(session, changes, session.epoch), now, node.done)

    def _ask(self, state: TopicPartitionState) -> bool:
        """Ask for a partition in the next fetch; return whether that differs from the last one."""
        asked, tp = state.asked, state.tp
        topic_id, epoch = self._metadata.topic_ids[tp.topic], state.leader.epoch
        if (
            asked.fetch_offset == state.position
            and asked.current_leader_epoch == epoch
            and asked.topic_id == topic_id
        ):
            return False
        limit = self._config.max_partition_fetch_bytes
        state.asked = FetchPartition(tp, topic_id, state.position, -1, epoch, -1, limit)
        return True

    def _fetchable(self, state: TopicPartitionState) -> bool:
        if state.state is not FETCHING or state.paused:
            return False
        return not (state.pending_revocation and self._rules.pauses_pending_revocation())

    def _may_send(self, node: NodeFetch, now: int) -> bool:
        """Return whether a node can be asked now; if not, poll again when it can."""
        channel = node.channel
        if channel.connection is None and now < channel.not_before:
            self.poll.wake_at(channel.not_before)
            return False
        if channel.throttled_until > now:
            self.poll.wake_at(channel.throttled_until)
            return False
        return True

    def _request(self, session: FetchSessionHandler, changes: Changes, epoch: int) -> FetchRequest:
        config = self._config
        asked, forgotten = changes
        return FetchRequest(
            -1,
            -1,
            config.fetch_max_wait_ms,
            config.fetch_min_bytes,
            config.fetch_max_bytes,
            self._isolation_level,
            asked,
            session.id,
            epoch,
            config.client_rack,
            forgotten,
            config.client_id,
        )

    def close(self, now: int, done: Callable[[], None]) -> None:
        """Close the fetch sessions of all nodes, then call ``done()`` (KAFKA-7109).

        A node answers behind the fetch in flight, so that takes up to fetch.max.wait.ms.
        """
        waiting = dict.fromkeys(
            [node for node in self._nodes.values() if node.channel.connection is not None]
        )

        def closed(node: NodeFetch, _response: Any, _at: int) -> None:
            waiting.pop(node, None)
            if not waiting:
                done()

        for node in waiting:
            node.channel.send(
                self._request(node.session, NO_CHANGES, FINAL_EPOCH),
                now,
                partial(closed, node),
            )
        if not waiting:
            done()

    def collect(self, now: int) -> dict[TopicPartition, tuple[RecordTuple, ...]]:
        """Take up to max.poll.records buffered records and advance the positions.

        What was fetched of paused partitions stays, behind the others.

        Raises:
            OffsetOutOfRangeError: a position is out of range, and auto.offset.reset is none.
            KafkaError: the next batch is corrupt, or the leader refused the fetch for good.
        """
        self.position_advanced = False
        if not self.completed:
            return {}
        if not self._subscription.pauses:
            return self._collect(now)
        fetched = list(self.completed)
        held = [each for each in fetched if each.state.paused and not each.response.error]
        self.completed = deque([each for each in fetched if each not in held])
        try:
            return self._collect(now)
        finally:
            self.completed.extend(held)

    def _collect(self, now: int) -> dict[TopicPartition, tuple[RecordTuple, ...]]:
        room = self._config.max_poll_records
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
                try:
                    self._on_error(fetch, now)
                except KafkaError:
                    if polled or self.position_advanced:
                        break  # the next poll() raises it
                    self._drop_first()
                    raise
                self._drop_first()
                continue
            records = fetch.take(room)
            if len(records) == room and not self._rules.resumes_within_batch():
                fetch.drop_rest_of_batch()
            advanced = fetch.next_offset > state.position
            state.position = fetch.next_offset
            if not records and fetch.corrupt:
                if polled:
                    break
                # It stays first: every poll() fails until the application seeks past it.
                raise KafkaError("CORRUPT_MESSAGE", f"{state.tp} at {fetch.next_offset}")
            state.high_watermark = response.high_watermark
            state.last_stable_offset = response.last_stable_offset
            if fetch.consumed:
                self._drop_first()
            if advanced:
                self.position_advanced = True
                if self.tells:
                    self._tell_polled(fetch, records)
            if records:
                room -= len(records)
                tp = state.tp
                polled[tp] = polled[tp] + tuple(records) if tp in polled else tuple(records)
        return polled

    def _tell_polled(self, fetch: CompletedFetch, records: list[RecordTuple]) -> None:
        """Tell of records, with the id of the topic that they are of: it may be gone by now."""
        state = fetch.state
        offsets, record_ids, _, _ = zip(*records) if records else ((), (), (), ())
        self._process.out.append(
            Polled(
                self._config.group_id,
                self._membership.member_id,
                fetch.topic_id,
                state.tp.partition,
                state.position,
                state.high_watermark,
                offsets,
                record_ids,
            )
        )

    def _usable(self, fetch: CompletedFetch) -> bool:
        """Return whether a partition is still to be read where the fetch goes on."""
        state = fetch.state
        if self._subscription.assignment.get(state.tp) is not state:
            return False
        if state.state is not FETCHING or state.position != fetch.next_offset:
            return False
        return not (state.pending_revocation and self._rules.pauses_pending_revocation())

    def _drop_first(self) -> None:
        self.completed.popleft().state.buffered = False

    def _on_error(self, fetch: CompletedFetch, now: int) -> None:
        error = fetch.response.error
        state = fetch.state
        if error is Errors.OFFSET_OUT_OF_RANGE:
            if self.use_leader(state):
                return  # out of a follower's range: ask the leader before the reset policy
            policy = self._config.auto_offset_reset
            if policy == "none":
                raise OffsetOutOfRangeError("OFFSET_OUT_OF_RANGE", f"{state.tp}")
            self._subscription.request_reset(state, policy)
            self.poll.wake(now)
        elif error in INVALID_METADATA or error is Errors.OFFSET_NOT_AVAILABLE:
            self.use_leader(state)
            self._metadata.request_update(now)
            # Like Kafka, fetch again at once, without a backoff.
        elif error not in (Errors.UNKNOWN_LEADER_EPOCH, Errors.UNKNOWN_SERVER_ERROR):
            raise KafkaError(error.name, f"fetch of {state.tp}")

    def use_preferred_replica(self, state: TopicPartitionState, replica: int, now: int) -> None:
        """Fetch from the replica that the leader named, for metadata.max.age.ms."""
        state.preferred_replica = replica
        state.preferred_until_us = now + self._config.metadata_max_age_ms * 1000
        self._grouped = STALE
        self._tell_replica(state, replica)

    def use_leader(self, state: TopicPartitionState) -> bool:
        """Fetch from the leader again; return whether it was another replica before."""
        changed = state.clear_preferred_replica()
        if changed:
            self._grouped = STALE
            self._tell_replica(state, -1)
        return changed

    def use_named_leader(self, part: FetchPartitionResponse, now: int) -> None:
        """Take the newer leader that a refusal names (KIP-951).

        A position that has to be validated there is not fetched meanwhile, and its refusal is not
        looked at: only without validation does it ask for new metadata.
        """
        self._metadata.update_leader(part.tp, part.current_leader, now)

    def refresh_metadata(self, now: int) -> None:
        """Ask for new metadata: a node refused a session for its topics' ids."""
        self._metadata.request_update(now)

    def _tell_replica(self, state: TopicPartitionState, replica: int) -> None:
        tp = state.tp
        topic_id = self._metadata.last_topic_ids.get(tp.topic, "")
        self._process.out.append(
            ReadReplica(self._config.group_id, topic_id, tp.partition, replica)
        )

    def _read_replica(self, state: TopicPartitionState, now: int) -> int:
        """Return the id of the node to fetch from, −1 for none (selectReadReplica)."""
        preferred = state.preferred_replica
        if preferred >= 0:
            if now < state.preferred_until_us and preferred in self._metadata.brokers:
                self._lease_ends_us = min(self._lease_ends_us, state.preferred_until_us)
                return preferred
            if now < state.preferred_until_us:
                self._metadata.request_update(now)
            state.clear_preferred_replica()
            self._tell_replica(state, -1)
        return state.leader.leader

    def _group(self, now: int) -> None:
        """Group the assigned partitions by the node that they are fetched from.

        That is the leader of the position, which metadata may not name any more. A topic without an
        id is left out: Kafka would fetch it by name (Fetch 12), as long as metadata does not know
        it, and be refused.
        """
        metadata, subscription = self._metadata, self._subscription
        self._grouped = (metadata.version, subscription.version, subscription.fetchable_version)
        self._lease_ends_us = NEVER
        self._leaderless = []
        for node in self._nodes.values():
            node.states = []
            node.regrouped = True
        for tp, state in subscription.assignment.items():
            if state.leader.leader < 0:
                self._leaderless.append(state)
                continue
            node_id = self._read_replica(state, now)
            address = metadata.brokers.get(node_id) or self._connections.known_address(node_id)
            if address is None or tp.topic not in metadata.topic_ids:
                continue
            channel = self._connections.channel(node_id, address)
            known = self._nodes.get(node_id)
            if known is None or known.channel is not channel:
                session = FetchSessionHandler() if known is None else known.session
                known = self._nodes[node_id] = NodeFetch(self, node_id, channel, session)
            known.states.append(state)
