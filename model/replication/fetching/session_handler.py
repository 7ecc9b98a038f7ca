"""FetchSessionHandler: a follower's side of an incremental fetch session (KIP-227).

The first request is full and opens a session, the following ones name what changed. After a
lost connection or a refused session the next one is full again.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, TypeAlias

from kafkasim.model.errors import Errors
from kafkasim.model.messages import FetchPartition
from kafkasim.model.records import TopicPartition
from kafkasim.model.replication.requests.fetch_sessions import INITIAL_EPOCH

if TYPE_CHECKING:
    from kafkasim.model.messages import FetchResponse
    from kafkasim.model.replication.fetching.fetch_state import FetchStates

Changes: TypeAlias = tuple[tuple[FetchPartition, ...], tuple[TopicPartition, ...]]
"""What a request asks for, and what it removes from the session."""


class FetchSessionHandler:
    """One session with one leader."""

    __slots__ = ("epoch", "id", "partitions")

    def __init__(self) -> None:
        self.id = 0  # 0: none
        self.epoch = INITIAL_EPOCH  # of the next request
        self.partitions: dict[TopicPartition, FetchPartition] = {}  # as the leader knows them

    def next_request(self, states: FetchStates) -> Changes:
        """Return the partitions of the next request; the leader knows all changes then."""
        fetching, partitions = states.fetching, self.partitions
        asked: list[FetchPartition] = []
        forgotten: list[TopicPartition] = []
        if self.epoch == INITIAL_EPOCH:
            self.partitions = {tp: state.asked for tp, state in fetching.items()}
            asked.extend(self.partitions.values())
        else:
            for tp in states.changed:
                state = fetching.get(tp)
                if state is not None:
                    partitions[tp] = state.asked
                    asked.append(state.asked)
                elif partitions.pop(tp, None) is not None:
                    forgotten.append(tp)
        states.changed.clear()
        return tuple(asked), tuple(forgotten)

    def connection_lost(self) -> None:
        """Open a session with the next request, which closes the old one if the leader has it."""
        self.epoch = INITIAL_EPOCH

    def accept(self, response: FetchResponse) -> bool:
        """Take note of a response; return False if the leader refused the session."""
        if response.error is Errors.NONE:
            self.id = response.session_id
            # Without a session (the last partition left the one before) the next fetch is full.
            self.epoch = self.epoch + 1 if self.id else INITIAL_EPOCH
            return True
        if response.error is Errors.FETCH_SESSION_ID_NOT_FOUND:
            self.id = 0
        self.epoch = INITIAL_EPOCH
        return False
