"""Share sessions: which partitions a member of a share group fetches from a broker (KIP-932).

Models ShareSession, ShareSessionCache, ShareSessionContext and SharePartitionManager.newContext. A
session belongs to (group, member). Its epoch rises with each request, so a request that was sent
twice or lost is noticed. There is no eviction: when the cache is full, nobody gets a session.
A session ends when its member closes it, or with the connection that opened it.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, TypeAlias

from kafkasim.model.errors import Errors
from kafkasim.model.messages.share import (
    FINAL_SHARE_EPOCH,
    INITIAL_SHARE_EPOCH,
    ShareAcknowledgeRequest,
    ShareFetchRequest,
    SharePartitionResponse,
)

if TYPE_CHECKING:
    from kafkasim.model.records import TopicPartition

NONE = Errors.NONE
LAST_EPOCH = 2**31 - 1

SessionKey: TypeAlias = tuple[str, str]
"""Group id and member id."""

TopicIdPartition: TypeAlias = "tuple[str, TopicPartition]"
"""Topic id, and the partition by the topic's name."""


def next_epoch(epoch: int) -> int:
    """Return the epoch after this one; 1 follows the last (ShareRequestMetadata.nextEpoch)."""
    if epoch < 0:
        return FINAL_SHARE_EPOCH
    return 1 if epoch == LAST_EPOCH else epoch + 1


class ShareSession:
    """The partitions that a member fetches here."""

    __slots__ = ("epoch", "key", "partitions")

    def __init__(self, key: SessionKey, partitions: list[TopicIdPartition]) -> None:
        self.key = key
        self.epoch = next_epoch(INITIAL_SHARE_EPOCH)
        # Whether the next response has to name the partition although it has no records.
        self.partitions: dict[TopicIdPartition, bool] = dict.fromkeys(partitions, False)

    def update(
        self, added: list[TopicIdPartition], forgotten: tuple[TopicIdPartition, ...]
    ) -> None:
        """Take over what a request changes."""
        for each in added:
            self.partitions.setdefault(self._known(each), True)
        for each in forgotten:
            self.partitions.pop(self._known(each), None)

    def _known(self, asked: TopicIdPartition) -> TopicIdPartition:
        """Return a partition as the session names it: a topic that was deleted has no name any more
        (CachedSharePartition compares ids)."""
        if asked in self.partitions:
            return asked
        topic_id, number = asked[0], asked[1].partition
        for each in self.partitions:
            if each[0] == topic_id and each[1].partition == number:
                return each
        return asked

    def answers(
        self, request_epoch: int, found: list[SharePartitionResponse]
    ) -> tuple[Errors, list[SharePartitionResponse]]:
        """Return the partitions of a response that have news, or the session's error.

        The response that opens a session has all of them. A session that went on with another
        request meanwhile refuses the older one.
        """
        if request_epoch == INITIAL_SHARE_EPOCH:
            return NONE, found
        if self.epoch != next_epoch(request_epoch):
            return Errors.INVALID_SHARE_SESSION_EPOCH, []
        news: list[SharePartitionResponse] = []
        for answer in found:
            key = (answer.topic_id, answer.tp)
            owed = self.partitions.get(key)
            if owed is None:
                news.append(answer)
                continue
            failed = answer.error is not NONE
            self.partitions[key] = failed
            if answer.batches or owed or failed:
                news.append(answer)
        return NONE, news


class ShareSessionCache:
    """The share sessions of one broker."""

    def __init__(self, max_entries: int) -> None:
        self._max_entries = max_entries  # group.share.max.share.sessions
        self.sessions: dict[SessionKey, ShareSession] = {}
        self._by_connection: dict[int, SessionKey] = {}

    def members(self, group_id: str) -> int:
        """Return how many members of a group have a session here."""
        return sum(group == group_id for group, _ in self.sessions)

    def open(
        self, request: ShareFetchRequest, connection: int
    ) -> tuple[ShareSession | None, Errors]:
        """Return the session of a fetch, updated by it, or the error that refuses it.

        No session and no error: the request closes its session. SHARE_SESSION_LIMIT_REACHED:
        there is no room for a new session.
        """
        key = (request.group_id, request.member_id)
        session = self.sessions.get(key)
        asked = [(each.topic_id, each.tp) for each in request.partitions]
        if request.session_epoch == FINAL_SHARE_EPOCH:
            return None, NONE if session is not None else Errors.SHARE_SESSION_NOT_FOUND
        if request.session_epoch == INITIAL_SHARE_EPOCH:
            if any(each.acknowledgements for each in request.partitions):
                return None, Errors.INVALID_REQUEST
            self.sessions.pop(key, None)
            if len(self.sessions) >= self._max_entries:
                return None, Errors.SHARE_SESSION_LIMIT_REACHED
            session = self.sessions[key] = ShareSession(key, asked)
            self._by_connection[connection] = key
            return session, NONE
        error = self._advance(session, request.session_epoch)
        if session is None or error is not NONE:
            return None, error
        session.update(asked, request.forgotten)
        return session, NONE

    def acknowledge(self, request: ShareAcknowledgeRequest) -> Errors:
        """Let a session's epoch rise with an acknowledgement (acknowledgeSessionUpdate)."""
        if request.session_epoch == INITIAL_SHARE_EPOCH:
            return Errors.INVALID_SHARE_SESSION_EPOCH
        session = self.sessions.get((request.group_id, request.member_id))
        if request.session_epoch == FINAL_SHARE_EPOCH:
            return NONE if session is not None else Errors.SHARE_SESSION_NOT_FOUND
        return self._advance(session, request.session_epoch)

    def _advance(self, session: ShareSession | None, epoch: int) -> Errors:
        if session is None:
            return Errors.SHARE_SESSION_NOT_FOUND
        if session.epoch != epoch:
            return Errors.INVALID_SHARE_SESSION_EPOCH
        session.epoch = next_epoch(epoch)
        return NONE

    def remove(self, key: SessionKey) -> ShareSession | None:
        """End a session; return it, None if there is none."""
        return self.sessions.pop(key, None)

    def disconnected(self, connection: int) -> SessionKey | None:
        """Return whose session the connection opened, None if it opened none."""
        return self._by_connection.pop(connection, None)
