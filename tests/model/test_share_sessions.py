"""Share sessions at both ends, and the codes of ShareFetch and ShareAcknowledge (KIP-932)."""

from __future__ import annotations

from dataclasses import replace
from types import SimpleNamespace
from typing import Any

import pytest

from kafkasim.model.broker.common.share.apis import ShareApis
from kafkasim.model.client.consumer.share.session import ShareSessionHandler
from kafkasim.model.config import ConsumerConfig
from kafkasim.model.effects import Request
from kafkasim.model.errors import Errors
from kafkasim.model.messages.share import (
    ACCEPT,
    AcknowledgementBatch,
    AcquiredRecords,
    ShareAcknowledgePartition,
    ShareAcknowledgeRequest,
    ShareAcknowledgeResponse,
    ShareFetchRequest,
    ShareFetchResponse,
    SharePartitionRequest,
    SharePartitionResponse,
)
from kafkasim.model.records import Record, TopicPartition, batch_of
from kafkasim.model.replication.share.sessions import LAST_EPOCH, ShareSession, ShareSessionCache
from kafkasim.model.timers import Timers

NONE = Errors.NONE
TP, OTHER = TopicPartition("orders", 0), TopicPartition("orders", 1)
KEY, OTHER_KEY = ("T", TP), ("T", OTHER)
MEMBER, STRANGER = "m" * 21 + "A", "n" * 21 + "A"  # Uuids
DONE = (AcknowledgementBatch(0, 3, (ACCEPT,)),)
ASKED = SharePartitionRequest(TP, "T")


def fetch(epoch: int, *asked: SharePartitionRequest, member: str = MEMBER) -> ShareFetchRequest:
    return ShareFetchRequest("g", member, epoch, 500, 1, 1000, 10, 10, asked)


def acknowledge(epoch: int, *asked: SharePartitionRequest) -> ShareAcknowledgeRequest:
    return ShareAcknowledgeRequest("g", MEMBER, epoch, asked)


# ------------------------------------------------------------------------------- at the broker


def test_a_deleted_topic_is_forgotten_by_its_id() -> None:
    """librdkafka acknowledges and forgets in one request, when the topic has no name any more."""
    cache = ShareSessionCache(1)
    session, _ = cache.open(fetch(0, ASKED), 7)
    assert session is not None
    nameless = TopicPartition("?T", 0)
    asked = SharePartitionRequest(nameless, "T", DONE)
    assert cache.open(replace(fetch(1, asked), forgotten=(("T", nameless),)), 7)[1] is NONE
    assert session.partitions == {}


def test_a_session_begins_at_epoch_1_and_takes_changes_over() -> None:
    cache = ShareSessionCache(1)
    session, _ = cache.open(fetch(0, ASKED), 7)
    assert session is not None
    assert (session.epoch, list(session.partitions)) == (1, [KEY])
    added = replace(fetch(1, SharePartitionRequest(OTHER, "T")), forgotten=(KEY,))
    assert cache.open(added, 7) == (session, NONE)
    assert (session.epoch, session.partitions) == (2, {OTHER_KEY: True})
    again, _ = cache.open(fetch(0, ASKED), 8)
    assert again is not session
    assert cache.sessions == {("g", MEMBER): again}


def test_a_full_cache_gives_way_to_nobody() -> None:
    cache = ShareSessionCache(1)
    cache.open(fetch(0), 7)
    assert cache.open(fetch(0, member=STRANGER), 8) == (None, Errors.SHARE_SESSION_LIMIT_REACHED)
    assert (cache.members("g"), cache.members("h")) == (1, 0)
    assert cache.disconnected(8) is None
    assert cache.disconnected(7) == ("g", MEMBER)
    assert cache.disconnected(7) is None


def test_epoch_1_follows_the_last() -> None:
    cache = ShareSessionCache(1)
    session, _ = cache.open(fetch(0), 7)
    assert session is not None
    session.epoch = LAST_EPOCH
    assert cache.acknowledge(acknowledge(LAST_EPOCH)) is NONE
    assert session.epoch == 1


def test_a_response_names_partitions_with_news_alone() -> None:
    session = ShareSession(("g", MEMBER), [KEY])
    quiet = SharePartitionResponse(TP, "T", NONE)
    failed = replace(quiet, error=Errors.NOT_LEADER_OR_FOLLOWER)
    full = replace(
        quiet, batches=(batch_of((Record(None, 1, 10, 0),)),), acquired=(AcquiredRecords(0, 0, 1),)
    )
    assert session.answers(0, [quiet]) == (NONE, [quiet])  # it opens the session
    session.epoch = 2
    assert session.answers(1, [quiet]) == (NONE, [])
    assert session.answers(1, [full]) == (NONE, [full])
    assert session.answers(1, [failed]) == (NONE, [failed])
    assert session.answers(1, [quiet]) == (NONE, [quiet])  # that it goes well again
    assert session.answers(1, [quiet]) == (NONE, [])
    stranger = SharePartitionResponse(OTHER, "T", NONE)
    assert session.answers(1, [stranger]) == (NONE, [stranger])
    session.update([OTHER_KEY], ())
    assert session.answers(1, [stranger]) == (NONE, [stranger])  # it has just joined
    assert session.answers(1, [stranger]) == (NONE, [])
    assert session.answers(0 + 2, [full]) == (Errors.INVALID_SHARE_SESSION_EPOCH, [])


class Bench:
    """The handlers of a broker whose share partitions answer at once."""

    def __init__(self, sessions: int = 1, enabled: bool = True) -> None:
        self.process = SimpleNamespace(timers=Timers(), watched={})
        self.answers: list[Any] = []
        self.released: list[tuple[str, str]] = []
        self.result = NONE  # of each acknowledgement
        shares: Any = SimpleNamespace(
            sessions=ShareSessionCache(sessions), disconnected=lambda *_: None,
            lock_duration_ms=lambda _: 30_000, release_session=self._release,
            acknowledge=self._acknowledge, fetch=self._fetch,
        )  # fmt: skip
        hosted: Any = SimpleNamespace(
            cache=SimpleNamespace(
                knows_topic_id=lambda topic_id: topic_id == "T",
                knows_partition=lambda tp: tp in (TP, OTHER),
            ),
            current_leader=lambda _: (2, 5),
        )
        self.apis = ShareApis(
            self.process, shares, hosted, lambda: enabled,
            lambda _, message: self.answers.append(message),
        )  # fmt: skip

    def _release(self, key: tuple[str, str], _now: int) -> None:
        self.released.append(key)

    def _acknowledge(self, _g: str, _m: str, batches: Any, done: Any, now: int) -> None:
        done(dict.fromkeys(batches, self.result), now)

    def _fetch(self, _request: Any, partitions: Any, answer: Any, now: int) -> None:
        answer([SharePartitionResponse(tp, of, NONE) for of, tp in partitions], now)

    def get(self, message: Any) -> Any:
        self.answers.clear()
        self.apis.handlers[type(message)](Request(7, 1, message, 0), 0)
        return self.answers[0] if self.answers else None


def bench(**settings: Any) -> Bench:
    """Return a broker at which the member has a session of epoch 1 with one partition."""
    found = Bench(**settings)
    assert found.get(fetch(0, ASKED)) == answered(quiet())
    return found


def quiet(tp: TopicPartition = TP, **fields: Any) -> SharePartitionResponse:
    return replace(SharePartitionResponse(tp, "T", NONE), **fields)


def answered(*partitions: SharePartitionResponse, error: Errors = NONE) -> ShareFetchResponse:
    return ShareFetchResponse(error, partitions, 30_000)


REFUSED: list[tuple[Any, Errors]] = [
    (fetch(5), Errors.INVALID_SHARE_SESSION_EPOCH),
    (fetch(1, member=STRANGER), Errors.SHARE_SESSION_NOT_FOUND),
    (fetch(-1, member=STRANGER), Errors.SHARE_SESSION_NOT_FOUND),
    (fetch(0, replace(ASKED, acknowledgements=DONE)), Errors.INVALID_REQUEST),
    (acknowledge(0), Errors.INVALID_SHARE_SESSION_EPOCH),
    (acknowledge(3), Errors.INVALID_SHARE_SESSION_EPOCH),
    (replace(acknowledge(1), member_id=STRANGER), Errors.SHARE_SESSION_NOT_FOUND),
    (replace(acknowledge(-1), member_id=STRANGER), Errors.SHARE_SESSION_NOT_FOUND),
]


@pytest.mark.parametrize(("request_", "error"), REFUSED)
def test_a_request_that_its_session_refuses(request_: Any, error: Errors) -> None:
    kind = ShareFetchResponse if type(request_) is ShareFetchRequest else ShareAcknowledgeResponse
    assert bench().get(request_) == kind(error)


def test_share_groups_that_are_off_are_no_version_of_the_broker() -> None:
    off = Bench(enabled=False)
    assert off.get(fetch(0)) == ShareFetchResponse(Errors.UNSUPPORTED_VERSION)
    assert off.get(acknowledge(1)) == ShareAcknowledgeResponse(Errors.UNSUPPORTED_VERSION)


def test_a_member_without_room_for_its_session_hears_of_it_after_max_wait() -> None:
    full = bench()
    assert full.get(fetch(0, ASKED, member=STRANGER)) is None
    deadline = full.process.timers.next_deadline()
    assert deadline == 500_000
    due = full.process.timers.pop_due(deadline)
    assert due is not None
    full.process.timers.fire(due[0], due[1], deadline)
    assert full.answers == [ShareFetchResponse(Errors.SHARE_SESSION_LIMIT_REACHED)]


MALFORMED = [
    (AcknowledgementBatch(3, 2, (ACCEPT,)),),
    (AcknowledgementBatch(4, 5, (ACCEPT,)), AcknowledgementBatch(2, 3, (ACCEPT,))),
    (AcknowledgementBatch(0, 3, ()),),
    (AcknowledgementBatch(0, 3, (ACCEPT, ACCEPT)),),
    (AcknowledgementBatch(0, 3, (4,)),),
]


@pytest.mark.parametrize("batches", MALFORMED)
def test_acknowledgements_that_are_malformed(batches: tuple[AcknowledgementBatch, ...]) -> None:
    asked = replace(ASKED, acknowledgements=batches)
    invalid = Errors.INVALID_REQUEST
    assert bench().get(fetch(1, asked)) == answered(quiet(acknowledge_error=invalid))
    answer = ShareAcknowledgeResponse(NONE, (ShareAcknowledgePartition(TP, "T", invalid),))
    assert bench().get(acknowledge(1, asked)) == answer


def test_each_partition_of_an_acknowledgement_has_its_result() -> None:
    at = bench()
    at.result = Errors.NOT_LEADER_OR_FOLLOWER
    asked = [
        replace(ASKED, acknowledgements=DONE),
        SharePartitionRequest(OTHER, "T"),  # nothing is acknowledged
        SharePartitionRequest(TopicPartition("orders", 9), "T", DONE),
        SharePartitionRequest(TP, "gone", DONE),
    ]
    answer = at.get(acknowledge(1, *asked))
    assert {(each.topic_id, each.tp): (each.error, each.current_leader)
            for each in answer.partitions} == {
        KEY: (Errors.NOT_LEADER_OR_FOLLOWER, (2, 5)),
        OTHER_KEY: (NONE, None),
        ("T", TopicPartition("orders", 9)): (Errors.UNKNOWN_TOPIC_OR_PARTITION, None),
        ("gone", TP): (Errors.UNKNOWN_TOPIC_ID, None),
    }  # fmt: skip


def test_the_result_of_an_acknowledgement_comes_with_the_fetch() -> None:
    at = bench()
    assert at.get(fetch(1, replace(ASKED, acknowledgements=DONE))) == answered(quiet())
    at.result = Errors.INVALID_RECORD_STATE
    failed = answered(quiet(acknowledge_error=Errors.INVALID_RECORD_STATE))
    assert at.get(fetch(2, replace(ASKED, acknowledgements=DONE))) == failed


def test_a_partition_that_metadata_does_not_know_fails_alone_but_an_id_fails_all() -> None:
    missing = SharePartitionRequest(TopicPartition("orders", 9), "T")
    unknown = quiet(missing.tp, error=Errors.UNKNOWN_TOPIC_OR_PARTITION)
    assert bench().get(fetch(1, missing)) == answered(unknown)
    gone = SharePartitionRequest(TP, "gone")
    assert bench().get(fetch(1, gone)) == ShareFetchResponse(Errors.UNKNOWN_SERVER_ERROR)


@pytest.mark.parametrize("request_", [fetch(-1), acknowledge(-1)])
def test_the_last_request_of_a_session_releases_what_its_member_holds(request_: Any) -> None:
    at = bench()
    assert at.get(request_).error is NONE
    assert at.released == [("g", MEMBER)]


# ------------------------------------------------------------------------------- at the client


def handler(epoch: int = 0) -> ShareSessionHandler:
    found = ShareSessionHandler(ConsumerConfig(group_id="g"), MEMBER)
    found.epoch = epoch
    return found


def test_a_fetch_tells_what_joins_and_leaves_the_session() -> None:
    session = handler()
    first = session.fetch([KEY, OTHER_KEY], {})
    assert (first.session_epoch, len(first.partitions), first.forgotten) == (0, 2, ())
    assert session.on_response(NONE)
    second = session.fetch([OTHER_KEY], {KEY: {4: ACCEPT}})
    accepted = SharePartitionRequest(TP, "T", (AcknowledgementBatch(4, 4, (ACCEPT,)),))
    assert (second.session_epoch, second.partitions, second.forgotten) == (1, (accepted,), (KEY,))


@pytest.mark.parametrize(
    ("epoch", "error", "after", "counts"),
    [
        (1, NONE, 2, True),
        (LAST_EPOCH, NONE, 1, True),
        (1, Errors.UNKNOWN_SERVER_ERROR, 2, False),
        (3, Errors.SHARE_SESSION_NOT_FOUND, 0, False),
        (3, Errors.INVALID_SHARE_SESSION_EPOCH, 0, False),
        (0, Errors.SHARE_SESSION_LIMIT_REACHED, 0, False),
    ],
)
def test_the_epoch_after_a_response(epoch: int, error: Errors, after: int, counts: bool) -> None:
    session = handler(epoch)
    assert (session.on_response(error), session.epoch) == (counts, after)


def test_a_request_without_an_answer_begins_the_session_anew() -> None:
    session = handler(4)
    session.on_failure()
    assert session.is_new


def test_the_last_acknowledgement_closes_the_session() -> None:
    session = handler(4)
    assert session.acknowledge({KEY: {0: ACCEPT}}, close=False).session_epoch == 4
    assert session.acknowledge({}, close=True).session_epoch == -1
    assert session.on_response(NONE)
    assert session.epoch == -1
