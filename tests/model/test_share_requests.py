"""The requests of a share consumer to one leader, and what becomes of its acknowledgements."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any

import pytest

from kafkasim.model.client.consumer.share.requests import ShareConsumeRequestManager
from kafkasim.model.config import ConsumerConfig
from kafkasim.model.errors import Errors
from kafkasim.model.messages.share import (
    ACCEPT,
    AcquiredRecords,
    ShareAcknowledgePartition,
    ShareAcknowledgeRequest,
    ShareAcknowledgeResponse,
    ShareFetchRequest,
    ShareFetchResponse,
    SharePartitionResponse,
)
from kafkasim.model.records import TopicPartition
from kafkasim.model.timers import Timers

NONE = Errors.NONE
TP, OTHER = TopicPartition("t", 0), TopicPartition("t", 1)
KEY, OTHER_KEY = ("T", TP), ("T", OTHER)
BACKOFF_US = 100_000
DEADLINE = 5_000_000
BROKEN = "the connection is closed"
"""What is no response."""


class Client:
    """A share consumer that reads a partition of broker 1; the test answers its requests."""

    def __init__(self) -> None:
        self.leaders = {TP: 1, OTHER: 1}
        self.told: list[tuple[Any, Errors]] = []
        self.sent: list[Any] = []
        self.waiting: list[Any] = []  # who hears the answer
        self.updates = 0
        self.learned: list[Any] = []
        self.timers = Timers()
        channel = SimpleNamespace(connection=1, not_before=0, send=self._send)
        connections = SimpleNamespace(
            channel=lambda *_: channel, known_address=lambda _: None,
            backoff=SimpleNamespace(after_us=lambda _: BACKOFF_US),
        )  # fmt: skip
        metadata: Any = SimpleNamespace(
            brokers={1: "broker-1", 2: "broker-2"}, topic_ids={"t": "T"}, connections=connections,
            current_leader=lambda tp: SimpleNamespace(leader=self.leaders[tp]),
            request_update=self._update, update_leader=lambda *told: self.learned.append(told[:2]),
        )  # fmt: skip
        process = SimpleNamespace(timers=self.timers)
        poll: Any = SimpleNamespace(process=process, name="m", wake=lambda _: None)
        subscription: Any = SimpleNamespace(assignment={TP: None})
        config = ConsumerConfig(group_id="g")
        self.requests = ShareConsumeRequestManager(
            config, "m", metadata, subscription, poll,
            lambda key, _acks, error, _now: self.told.append((key, error)),
        )  # fmt: skip

    def _send(self, message: Any, _now: int, answer: Any) -> None:
        self.sent.append(message)
        self.waiting.append(answer)

    def _update(self, _now: int) -> None:
        self.updates += 1

    def answer(self, message: Any, now: int = 0) -> None:
        self.waiting.pop(0)(message, now)

    def last(self) -> Any:
        return self.sent[-1]


@pytest.fixture
def client() -> Client:
    """Return a client whose session is open, with one record to acknowledge."""
    found = Client()
    found.requests.fetch({}, 0)
    found.answer(ShareFetchResponse(NONE, (fetched(),)))
    assert len(found.requests.completed) == 1
    assert len(found.sent) == 1  # it has records
    return found


def fetched(**fields: Any) -> SharePartitionResponse:
    given: Any = {"error": NONE, "acquired": (AcquiredRecords(0, 0, 1),), **fields}
    return SharePartitionResponse(TP, "T", **given)


def acknowledged(error: Errors = NONE, tp: TopicPartition = TP, leader: Any = None) -> Any:
    return ShareAcknowledgeResponse(NONE, (ShareAcknowledgePartition(tp, "T", error, leader),))


def to_do(*keys: Any) -> Any:
    return {1: {key: {0: ACCEPT} for key in keys or (KEY,)}}


# ----------------------------------------------------------------------- with the next fetch


def test_acknowledgements_go_with_the_next_fetch(client: Client) -> None:
    client.requests.fetch(to_do(), 0)
    request: ShareFetchRequest = client.last()
    assert (request.session_epoch, [each.tp for each in request.partitions]) == (1, [TP])
    client.answer(ShareFetchResponse(NONE, (fetched(acknowledge_error=Errors.INVALID_REQUEST),)))
    assert client.told == [(KEY, Errors.INVALID_REQUEST)]


@pytest.mark.parametrize(
    ("response", "error"),
    [
        (BROKEN, Errors.NETWORK_EXCEPTION),
        (ShareFetchResponse(Errors.SHARE_SESSION_NOT_FOUND), Errors.SHARE_SESSION_NOT_FOUND),
        (ShareFetchResponse(Errors.UNKNOWN_TOPIC_ID), Errors.UNKNOWN_TOPIC_ID),
        (ShareFetchResponse(NONE), Errors.INVALID_RECORD_STATE),  # it does not name the partition
    ],
)
def test_a_fetch_that_fails_fails_its_acknowledgements(
    client: Client, response: Any, error: Errors
) -> None:
    client.requests.fetch(to_do(), 0)
    client.answer(response)
    assert client.told == [(KEY, error)]
    assert client.updates == (1 if error is Errors.UNKNOWN_TOPIC_ID else 0)
    begins_anew = response is BROKEN or error is Errors.SHARE_SESSION_NOT_FOUND
    assert client.last().session_epoch == (0 if begins_anew else 2)


def test_a_fetch_that_opens_a_session_acknowledges_nothing() -> None:
    client = Client()
    client.requests.fetch(to_do(), 0)
    assert client.told == [(KEY, Errors.INVALID_SHARE_SESSION_EPOCH)]
    assert [each.acknowledgements for each in client.last().partitions] == [()]


def test_what_was_fetched_from_a_former_leader_fails(client: Client) -> None:
    client.leaders[TP] = 2
    client.requests.fetch(to_do(), 0)
    assert client.told == [(KEY, Errors.NOT_LEADER_OR_FOLLOWER)]


def test_a_fetch_names_the_new_leader(client: Client) -> None:
    client.requests.fetch({}, 0)
    moved = fetched(error=Errors.NOT_LEADER_OR_FOLLOWER, current_leader=(2, 7), acquired=())
    client.answer(ShareFetchResponse(NONE, (moved,)))
    assert client.learned == [(TP, (2, 7))]


def test_a_partition_without_a_leader_waits_for_metadata() -> None:
    client = Client()
    client.leaders[TP] = -1
    client.requests.fetch({}, 0)
    assert (client.sent, client.updates) == ([], 1)


# -------------------------------------------------------------------------- ShareAcknowledge


def commit(client: Client, *keys: Any, now: int = 0) -> list[Any]:
    """Acknowledge with commitSync; what it returns is in the list, once it returns."""
    results: list[Any] = []
    client.requests.commit_sync(to_do(*keys), DEADLINE, lambda found, _: results.append(found), now)
    return results


def test_commit_sync_returns_the_result_of_each_partition(client: Client) -> None:
    results = commit(client, KEY, OTHER_KEY)
    request: ShareAcknowledgeRequest = client.last()
    assert (request.session_epoch, len(request.partitions)) == (1, 2)
    client.answer(acknowledged())  # the other one is not named
    assert results == [{KEY: NONE, OTHER_KEY: Errors.INVALID_RECORD_STATE}]


def test_a_commit_of_nothing_that_is_led_here_returns_at_once(client: Client) -> None:
    client.leaders[TP] = 2
    assert commit(client) == [{}]
    assert client.told == [(KEY, Errors.NOT_LEADER_OR_FOLLOWER)]


def test_a_partition_is_tried_again_after_an_error_that_may_pass(client: Client) -> None:
    results = commit(client)
    client.answer(acknowledged(Errors.COORDINATOR_NOT_AVAILABLE))
    assert (results, len(client.sent)) == ([], 2)
    client.requests.advance(BACKOFF_US - 1)
    assert len(client.sent) == 2
    client.requests.advance(BACKOFF_US)
    assert client.last().session_epoch == 2
    client.answer(acknowledged())
    assert results == [{KEY: NONE}]


def test_a_new_leader_is_learned_and_not_asked(client: Client) -> None:
    results = commit(client)
    client.answer(acknowledged(Errors.NOT_LEADER_OR_FOLLOWER, leader=(2, 7)))
    assert results == [{KEY: Errors.NOT_LEADER_OR_FOLLOWER}]
    assert client.learned == [(TP, (2, 7))]


@pytest.mark.parametrize(
    ("response", "error", "epoch"),
    [
        (BROKEN, Errors.NETWORK_EXCEPTION, 0),
        (ShareAcknowledgeResponse(Errors.UNSUPPORTED_VERSION), Errors.UNSUPPORTED_VERSION, 2),
    ],
)
def test_a_refused_acknowledgement_is_over(
    client: Client, response: Any, error: Errors, epoch: int
) -> None:
    results = commit(client)
    client.answer(response)
    assert results == [{KEY: error}]
    client.requests.fetch({}, BACKOFF_US)
    assert client.last().session_epoch == epoch


def test_an_acknowledgement_does_not_survive_its_session(client: Client) -> None:
    """The error may pass, so it is tried again, but a new session cannot acknowledge."""
    results = commit(client)
    client.answer(ShareAcknowledgeResponse(Errors.INVALID_SHARE_SESSION_EPOCH))
    assert results == []
    client.requests.advance(BACKOFF_US)
    assert results == [{KEY: Errors.SHARE_SESSION_NOT_FOUND}]


def test_time_is_over_between_two_attempts(client: Client) -> None:
    results = commit(client)
    client.answer(acknowledged(Errors.COORDINATOR_NOT_AVAILABLE))
    client.requests.advance(DEADLINE)
    assert results == [{KEY: Errors.REQUEST_TIMED_OUT}]


def test_nothing_is_acknowledged_before_a_session_is_open() -> None:
    client = Client()
    assert commit(client) == [{KEY: Errors.SHARE_SESSION_NOT_FOUND}]
    assert client.sent == []


def test_commits_without_waiting_gather_while_one_is_in_flight(client: Client) -> None:
    client.requests.commit_async(to_do(), 0)
    client.requests.commit_async(to_do(OTHER_KEY), 0)
    assert len(client.sent) == 2
    client.answer(acknowledged())
    assert [each.tp for each in client.last().partitions] == [OTHER]
    client.answer(acknowledged(tp=OTHER))
    assert client.told == [(KEY, NONE), (OTHER_KEY, NONE)]


@pytest.mark.parametrize(
    ("response", "error"),
    [
        (acknowledged(), NONE),
        (BROKEN, Errors.NETWORK_EXCEPTION),
        (ShareAcknowledgeResponse(NONE), Errors.INVALID_RECORD_STATE),
    ],
)
def test_close_ends_the_session_whatever_the_answer(
    client: Client, response: Any, error: Errors
) -> None:
    closed: list[int] = []
    client.requests.close(to_do(), DEADLINE, closed.append, 0)
    assert client.last().session_epoch == -1
    assert closed == []
    client.answer(response, 9)
    assert (client.told, closed) == ([(KEY, error)], [9])
    assert client.timers.next_deadline() is None


def test_close_gives_up_at_its_deadline(client: Client) -> None:
    closed: list[int] = []
    client.requests.close(to_do(), DEADLINE, closed.append, 0)
    due = client.timers.pop_due(DEADLINE)
    assert due is not None
    client.timers.fire(due[0], due[1], DEADLINE)
    assert closed == [DEADLINE]
