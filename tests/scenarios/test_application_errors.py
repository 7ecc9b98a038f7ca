"""The errors that applications catch: aiokafka's names and what Kafka's error codes become."""

from __future__ import annotations

import pytest

from kafkasim.model.client import exceptions
from kafkasim.model.errors import INVALID_METADATA, RETRIABLE, Errors
from kafkasim.scenarios.applications.loading import _client_modules
from kafkasim.scenarios.applications.types.errors import (
    BrokerResponseError,
    KafkaError,
    for_code,
    kafka_errors,
    names,
    translated,
)

OLD_NAMES = {  # aiokafka keeps the names that Kafka had
    -1: "UNKNOWN",
    0: "NO_ERROR",
    6: "NOT_LEADER_FOR_PARTITION",
    10: "MESSAGE_SIZE_TOO_LARGE",
    13: "STALE_LEADER_EPOCH_CODE",
    17: "INVALID_TOPIC",
    39: "INVALID_REPLICATION_ASSIGNMENT",
}
NOT_BY_CODE = {
    Errors.PRODUCER_FENCED: "ProducerFenced",
    Errors.NETWORK_EXCEPTION: "KafkaConnectionError",
}
HAS_CODE = [code for code in Errors if code not in NOT_BY_CODE and code != Errors.NONE]


def test_every_code_from_0_to_72_and_that_of_a_member_without_id_has_a_class() -> None:
    assert sorted(kafka_errors) == [*range(-1, 73), 79]
    for errno, kind in kafka_errors.items():
        assert issubclass(kind, BrokerResponseError)
        assert (kind.errno, names()[kind.__name__], for_code(errno)) == (errno, kind, kind)


def test_the_table_agrees_with_kafkas_error_codes() -> None:
    for code in Errors:
        kind = kafka_errors.get(code)
        if kind is None or code is Errors.NETWORK_EXCEPTION:
            continue
        assert kind.message == OLD_NAMES.get(code, code.name)
        assert not kind.retriable or code in RETRIABLE, code
        assert not kind.invalid_metadata or code in INVALID_METADATA, code


@pytest.mark.parametrize("code", HAS_CODE, ids=lambda code: code.name)
def test_an_error_code_reaches_the_application_as_its_class(code: Errors) -> None:
    told = translated(exceptions.KafkaError(code.name, "topic orders"))
    known = kafka_errors.get(code)
    assert type(told) is (known or names()["UnknownError"])
    assert (told.code, told.errno) == (code.name, code if known else -1)
    assert str(told).startswith(f"[Error {told.errno}] {type(told).__name__}: {code.name}")


def test_codes_that_stand_for_another_class() -> None:
    for code, name in NOT_BY_CODE.items():
        told = translated(exceptions.KafkaError(code.name))
        assert (type(told), told.code) == (names()[name], code.name)
    told = translated(exceptions.KafkaError("CLOSED", "producer is closed"))
    assert type(told) is names()["ProducerClosed"]


def test_the_exceptions_of_javas_client_have_their_class() -> None:
    for kind, name in [
        (exceptions.KafkaTimeoutError, "KafkaTimeoutError"),
        (exceptions.BufferExhaustedError, "KafkaTimeoutError"),
        (exceptions.CommitFailedError, "CommitFailedError"),
        (exceptions.ProducerFencedError, "ProducerFenced"),
        (exceptions.IllegalStateError, "IllegalStateError"),
        (exceptions.NoOffsetForPartitionError, "NoOffsetForPartitionError"),
        (exceptions.OffsetOutOfRangeError, "OffsetOutOfRangeError"),
        (exceptions.LogTruncationError, "OffsetOutOfRangeError"),
    ]:
        assert type(translated(kind("SOME_REASON"))) is names()[name]


def test_what_may_be_tried_again_is_what_aiokafka_says() -> None:
    retriable = {name for name, kind in names().items() if getattr(kind, "retriable", False)}
    assert retriable == {
        "Cancelled", "CoordinatorLoadInProgressError", "CoordinatorNotAvailableError",
        "CorrelationIdError", "GroupCoordinatorNotAvailableError", "GroupLoadInProgressError",
        "KafkaConnectionError", "KafkaProtocolError", "KafkaStorageError",
        "LeaderNotAvailableError", "MetadataEmptyBrokerList", "NoBrokersAvailable",
        "NodeNotReadyError", "NotControllerError", "NotCoordinatorError",
        "NotCoordinatorForGroupError", "NotEnoughReplicasAfterAppendError",
        "NotEnoughReplicasError", "NotLeaderForPartitionError", "RequestTimedOutError",
        "RetriableCommitError", "StaleMetadata", "TooManyInFlightRequests",
        "UnknownTopicOrPartitionError",
    }  # fmt: skip


def test_the_stand_in_offers_all_of_them() -> None:
    errors = _client_modules()["aiokafka.errors"]
    assert len([each for each in vars(errors).values() if isinstance(each, type)]) > 100
    assert errors.MessageSizeTooLargeError is kafka_errors[10]
    assert errors.CoordinatorNotAvailableError is errors.GroupCoordinatorNotAvailableError
    assert issubclass(errors.KafkaError, RuntimeError)
    assert issubclass(errors.CorrelationIdError, errors.KafkaProtocolError)
    for outside in (errors.ConsumerStoppedError, errors.IllegalOperation):
        assert not issubclass(outside, KafkaError)
