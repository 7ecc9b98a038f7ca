"""FetchSessionHandler: the fetching side of an incremental fetch session (KIP-227).

Followers and consumers have one for each node that they fetch from. The first request is full and
opens a session; the following ones name what changed. After a lost connection or a refused session
the next request is full again. A broker with no room for a session answers a full fetch without
one, and the next fetch is full, too. The broker's side is
:mod:`kafkasim.model.replication.requests.fetch_sessions`.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Protocol, TypeAlias

from kafkasim.model.errors import NONE, Errors

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping

    from kafkasim.model.messages import FetchPartition, FetchResponse
    from kafkasim.model.records import TopicPartition

INITIAL_EPOCH = 0
"""The session epoch of a full fetch that opens a session."""
FINAL_EPOCH = -1
"""The session epoch of a full fetch without a session."""


class Fetched(Protocol):
    """A partition as its fetcher keeps it."""

    asked: FetchPartition  # for the next fetch


Changes: TypeAlias = "tuple[tuple[FetchPartition, ...], tuple[tuple[str, TopicPartition], ...]]"
"""What a request names: what it fetches, and (topic id, partition) of what leaves the session;
Kafka's toSend, and its toForget and toReplace."""

NO_CHANGES: Changes = ((), ())


class FetchSessionHandler:
    """One session with one node."""

    __slots__ = ("epoch", "id", "partitions")

    def __init__(self) -> None:
        self.id = 0  # 0: none
        self.epoch = INITIAL_EPOCH  # of the next request
        self.partitions: dict[TopicPartition, FetchPartition] = {}  # as the node knows them

    def next_request(self, wanted: Mapping[TopicPartition, FetchPartition]) -> Changes:
        """Return the next request that fetches ``wanted``; the node knows all changes then."""
        known = self.partitions
        if self.epoch == INITIAL_EPOCH:
            self.partitions = dict(wanted)
            return tuple(wanted.values()), ()
        asked: list[FetchPartition] = []
        forgotten: list[tuple[str, TopicPartition]] = []
        for tp, now in wanted.items():
            before = known.get(tp)
            if before is now:
                continue
            if before is not None and before.fetch_offset == now.fetch_offset and before == now:
                continue
            if before is not None and before.topic_id != now.topic_id:
                forgotten.append((before.topic_id, tp))
            known[tp] = now
            asked.append(now)
        if len(known) > len(wanted):
            for tp in [tp for tp in known if tp not in wanted]:
                forgotten.append((known.pop(tp).topic_id, tp))
        return tuple(asked), tuple(forgotten)

    def next_request_of(
        self, fetching: Mapping[TopicPartition, Fetched], changed: Iterable[TopicPartition]
    ) -> Changes:
        """Return the next request; only the ``changed`` partitions differ from the last one's."""
        known = self.partitions
        if self.epoch == INITIAL_EPOCH:
            return self.next_request({tp: state.asked for tp, state in fetching.items()})
        asked: list[FetchPartition] = []
        forgotten: list[tuple[str, TopicPartition]] = []
        for tp in changed:
            state = fetching.get(tp)
            before = known.get(tp)
            if before is not None and (state is None or before.topic_id != state.asked.topic_id):
                forgotten.append((before.topic_id, tp))
                del known[tp]
            if state is not None:
                known[tp] = state.asked
                asked.append(state.asked)
        return tuple(asked), tuple(forgotten)

    def connection_lost(self) -> None:
        """Open a session with the next request, which closes the old one if the node has it."""
        self.epoch = INITIAL_EPOCH

    def accept(self, response: FetchResponse) -> bool:
        """Take note of a response; return False if nothing of it can be used (handleResponse).

        The node refused the session, or a full response lacks partitions.
        """
        if response.error is not NONE:
            if response.error is Errors.FETCH_SESSION_ID_NOT_FOUND:
                self.id = 0
            self.epoch = INITIAL_EPOCH
            return False
        if self.epoch == INITIAL_EPOCH and len(response.partitions) != len(self.partitions):
            self.id = 0
            return False
        self.id = response.session_id
        # Without a session (the last partition left the one before) the next fetch is full.
        self.epoch = self.epoch + 1 if self.id else INITIAL_EPOCH
        return True
