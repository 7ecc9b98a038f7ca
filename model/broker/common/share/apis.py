"""ShareFetch and ShareAcknowledge at a broker (KafkaApis.handleShareFetchRequest, KIP-932).

A share fetch acknowledges what its member fetched before, then fetches; its answer waits for both.
The checks come in Kafka's order: the feature, the form of the member id, the session, the
acknowledgements, the partitions. A member id that is no Uuid is an exception of the handler. Left
out: authorization and quotas.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from typing import TYPE_CHECKING, Any, Protocol, TypeAlias

from kafkasim.model.errors import Errors
from kafkasim.model.messages.share import (
    FINAL_SHARE_EPOCH,
    GAP,
    REJECT,
    AcknowledgementBatch,
    ShareAcknowledgePartition,
    ShareAcknowledgeRequest,
    ShareAcknowledgeResponse,
    ShareFetchRequest,
    ShareFetchResponse,
    SharePartitionRequest,
    SharePartitionResponse,
)
from kafkasim.model.values import is_uuid

if TYPE_CHECKING:
    from kafkasim.model.effects import Request
    from kafkasim.model.records import TopicPartition
    from kafkasim.model.replication.partitions.hosted import HostedPartitions
    from kafkasim.model.replication.share.manager import SharePartitionManager
    from kafkasim.model.replication.share.sessions import ShareSession, TopicIdPartition
    from kafkasim.model.timers import Timers

NONE = Errors.NONE
NETWORK = "network"
IDLE = "purgatory"

Results: TypeAlias = "dict[TopicIdPartition, Errors]"


class Watcher(Protocol):
    """The process, as far as it hears of the ends of its clients' connections."""

    timers: Timers
    watched: dict[int, tuple[str, Callable[[int, int], None]]]


class ShareApis:
    """Serves what members of share groups ask of a partition's leader."""

    def __init__(
        self,
        process: Watcher,
        shares: SharePartitionManager,
        hosted: HostedPartitions,
        enabled: Callable[[], bool],
        respond: Callable[[Request, Any], None],
    ) -> None:
        self._process = process
        self._shares = shares
        self._hosted = hosted
        self._enabled = enabled
        self._respond = respond
        # What is wrong with the topic of a request, for its sender; None: nothing ever.
        self.refuses: Callable[[Request], Callable[[str], Errors]] | None = None
        self.handlers: dict[type, Callable[[Request, int], None]] = {
            ShareFetchRequest: self.on_share_fetch,
            ShareAcknowledgeRequest: self.on_share_acknowledge,
        }

    # ------------------------------------------------------------------------------ ShareFetch

    def on_share_fetch(self, item: Request, now: int) -> None:
        """Acknowledge, fetch, and answer when both are done."""
        request: ShareFetchRequest = item.message
        if not self._enabled():
            self._respond(item, ShareFetchResponse(Errors.UNSUPPORTED_VERSION))
            return
        if not is_uuid(request.member_id):
            self._respond(item, ShareFetchResponse(Errors.UNKNOWN_SERVER_ERROR))
            return
        session, error = self._shares.sessions.open(request, item.connection)
        if error is Errors.SHARE_SESSION_LIMIT_REACHED:
            self._refuse_later(item, error, now)
            return
        if error is not NONE:
            self._respond(item, ShareFetchResponse(error))
            return
        if session is not None:
            self._process.watched[item.connection] = (NETWORK, self._shares.disconnected)
        _Fetch(self, item, session).start(now)

    def _refuse_later(self, item: Request, error: Errors, now: int) -> None:
        """Answer after max_wait_ms: a client without a session asks again at once."""

        def refuse(_at: int) -> None:
            self._respond(item, ShareFetchResponse(error))

        wait_us = item.message.max_wait_ms * 1000
        self._process.timers.arm(("idle-share-fetch", item.connection), now + wait_us, IDLE, refuse)

    def answer(
        self,
        item: Request,
        session: ShareSession | None,
        found: list[SharePartitionResponse],
        acknowledged: Results,
        now: int,
    ) -> None:
        """Answer a share fetch; the errors of acknowledgements join those of the fetch."""
        request: ShareFetchRequest = item.message
        error = NONE
        if session is not None:
            error, found = session.answers(request.session_epoch, found)
        if any(each.error is Errors.UNKNOWN_TOPIC_ID for each in found):
            # BrokerTopicStats.updateBytesOut finds no name, and a NullPointerException ends it all.
            self._respond(item, ShareFetchResponse(Errors.UNKNOWN_SERVER_ERROR))
            return
        answers = {(each.topic_id, each.tp): each for each in found}
        for key, failure in acknowledged.items():
            known = answers.get(key) or SharePartitionResponse(key[1], key[0], NONE)
            answers[key] = replace(known, acknowledge_error=failure)
        if request.session_epoch == FINAL_SHARE_EPOCH:
            self._shares.release_session((request.group_id, request.member_id), now)
        lock_ms = self._shares.lock_duration_ms(request.group_id)
        self._respond(item, ShareFetchResponse(error, tuple(answers.values()), lock_ms))

    def fetch(
        self,
        item: Request,
        session: ShareSession | None,
        answer: Callable[[list[SharePartitionResponse], int], None],
        now: int,
    ) -> None:
        """Fetch the session's partitions; those that the metadata cache does not know fail."""
        wanted: list[TopicIdPartition] = []
        unknown: list[SharePartitionResponse] = []
        refuses = self._refuses(item)
        for key in [] if session is None else session.partitions:
            error = self._error_of(key, refuses)
            if error is NONE:
                wanted.append(key)
            else:
                unknown.append(SharePartitionResponse(key[1], key[0], error))
        if not wanted:
            answer(unknown, now)
            return
        self._shares.fetch(
            item.message, wanted, lambda found, at: answer([*found, *unknown], at), now
        )

    def _refuses(self, item: Request) -> Callable[[str], Errors]:
        return _nothing if self.refuses is None else self.refuses(item)

    def _error_of(self, key: TopicIdPartition, refuses: Callable[[str], Errors]) -> Errors:
        cache = self._hosted.cache
        if not cache.knows_topic_id(key[0]):
            return Errors.UNKNOWN_TOPIC_ID
        error = refuses(key[1].topic)
        if error is not NONE:
            return error
        if not cache.knows_partition(key[1]):
            return Errors.UNKNOWN_TOPIC_OR_PARTITION
        return NONE

    # ------------------------------------------------------------------------ acknowledgements

    def on_share_acknowledge(self, item: Request, now: int) -> None:
        """Acknowledge, and answer when the state is persisted."""
        request: ShareAcknowledgeRequest = item.message
        if not self._enabled():
            self._respond(item, ShareAcknowledgeResponse(Errors.UNSUPPORTED_VERSION))
            return
        if not is_uuid(request.member_id):
            self._respond(item, ShareAcknowledgeResponse(Errors.UNKNOWN_SERVER_ERROR))
            return
        error = self._shares.sessions.acknowledge(request)
        if error is not NONE:
            self._respond(item, ShareAcknowledgeResponse(error))
            return

        def done(results: Results, at: int) -> None:
            if request.session_epoch == FINAL_SHARE_EPOCH:
                self._shares.release_session((request.group_id, request.member_id), at)
            partitions = tuple(
                [
                    ShareAcknowledgePartition(tp, topic_id, failure, self._leader(tp, failure))
                    for (topic_id, tp), failure in results.items()
                ]
            )
            self._respond(item, ShareAcknowledgeResponse(NONE, partitions))

        self.acknowledge(item, request.partitions, done, now)

    def _leader(self, tp: TopicPartition, error: Errors) -> tuple[int, int] | None:
        if error in (Errors.NOT_LEADER_OR_FOLLOWER, Errors.FENCED_LEADER_EPOCH):
            return self._hosted.current_leader(tp)
        return None

    def acknowledge(
        self,
        item: Request,
        partitions: tuple[SharePartitionRequest, ...],
        done: Callable[[Results, int], None],
        now: int,
    ) -> None:
        """Acknowledge what is well formed; ``done`` is called with the result of each partition.

        A partition without acknowledgements has a result only beside one that is acknowledged.
        Kafka: getAcknowledgeBatchesFromShareFetchRequest, validateAcknowledgementBatches,
        handleAcknowledgements.
        """
        request: ShareFetchRequest | ShareAcknowledgeRequest = item.message
        refuses = self._refuses(item)
        refused: Results = {}
        empty: Results = {}
        batches: dict[TopicIdPartition, tuple[AcknowledgementBatch, ...]] = {}
        for asked in partitions:
            key = (asked.topic_id, asked.tp)
            error = self._error_of(key, refuses)
            if error is not Errors.UNKNOWN_TOPIC_ID and not _is_valid(asked.acknowledgements):
                error = Errors.INVALID_REQUEST
            if error is not NONE:
                refused[key] = error
            elif asked.acknowledgements:
                batches[key] = asked.acknowledgements
            else:
                empty[key] = NONE
        if not batches:
            done(refused, now)
            return

        def served(results: Results, at: int) -> None:
            done({**results, **refused, **empty}, at)

        self._shares.acknowledge(request.group_id, request.member_id, batches, served, now)


class _Fetch:
    """One share fetch: its answer waits for the acknowledgements and for the records."""

    def __init__(self, apis: ShareApis, item: Request, session: ShareSession | None) -> None:
        self._apis = apis
        self._item = item
        self._session = session
        self._acknowledged: Results | None = None
        self._found: list[SharePartitionResponse] | None = None

    def start(self, now: int) -> None:
        """Acknowledge first, then fetch."""
        request: ShareFetchRequest = self._item.message
        apis = self._apis
        acknowledges = any(each.acknowledgements for each in request.partitions)
        partitions = request.partitions if acknowledges else ()
        apis.acknowledge(self._item, partitions, self._on_results, now)
        apis.fetch(self._item, self._session, self._on_records, now)

    def _on_results(self, results: Results, now: int) -> None:
        self._acknowledged = results
        self._maybe_answer(now)

    def _on_records(self, found: list[SharePartitionResponse], now: int) -> None:
        self._found = found
        self._maybe_answer(now)

    def _maybe_answer(self, now: int) -> None:
        if self._acknowledged is not None and self._found is not None:
            self._apis.answer(self._item, self._session, self._found, self._acknowledged, now)


def _nothing(_topic: str) -> Errors:
    return NONE


def _is_valid(batches: tuple[AcknowledgementBatch, ...]) -> bool:
    """Return whether batches rise, do not overlap, and have a type for each offset or one."""
    end = -1
    for batch in batches:
        if batch.first_offset > batch.last_offset or batch.first_offset < end:
            return False
        if not batch.types:
            return False
        count = batch.last_offset - batch.first_offset + 1
        if len(batch.types) > 1 and len(batch.types) != count:
            return False
        if any(not GAP <= each <= REJECT for each in batch.types):
            return False
        end = batch.last_offset
    return True
