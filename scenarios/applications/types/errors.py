"""aiokafka.errors: what an application catches.

Names, bases, ``errno``, ``message``, ``retriable`` and ``invalid_metadata`` are those of aiokafka
0.14, so that an application's ``except`` and its decision to try again mean the same here. The
simulated clients behave as Java's, which knows more: RecordDeserializationError, WakeupError and
RetriableCommitError have no counterpart in aiokafka. ``code`` names Kafka's error and is ours too.
"""

from __future__ import annotations

import inspect
from typing import Any

from kafkasim.model.client import exceptions
from kafkasim.model.errors import Errors
from kafkasim.model.records import TopicPartition


class KafkaError(RuntimeError):
    """An error of a client. ``code`` is the name of Kafka's error code."""

    code = "UNKNOWN_SERVER_ERROR"
    retriable = False  # whether the same call may succeed when it is tried again
    invalid_metadata = False  # whether the client has to refresh its metadata

    def __str__(self) -> str:
        name = type(self).__name__
        return f"{name}: {super().__str__()}" if self.args else name


class IllegalStateError(KafkaError):
    """The call does not go with the state of the client."""


class IllegalArgumentError(KafkaError):
    """An argument of the call is not allowed."""


class NoBrokersAvailable(KafkaError):
    """No bootstrap server can be reached."""

    retriable = True
    invalid_metadata = True


class NodeNotReadyError(KafkaError):
    """There is no connection to the node yet."""

    retriable = True


class KafkaProtocolError(KafkaError):
    """An answer does not keep to the protocol."""

    retriable = True


class CorrelationIdError(KafkaProtocolError):
    """An answer is to another request."""


class Cancelled(KafkaError):
    """A request was given up."""

    retriable = True


class TooManyInFlightRequests(KafkaError):
    """The connection takes no further request now."""

    retriable = True


class StaleMetadata(KafkaError):
    """The metadata is too old for the call."""

    retriable = True
    invalid_metadata = True


class MetadataEmptyBrokerList(KafkaError):
    """The metadata names no broker."""

    retriable = True


class UnrecognizedBrokerVersion(KafkaError):
    """The broker's version cannot be told."""


class IncompatibleBrokerVersion(KafkaError):
    """The broker is too old for the call."""


class CommitFailedError(KafkaError):
    """The group has gone on without this member: its partitions belong to others now."""


class AuthenticationMethodNotSupported(KafkaError):
    """The broker does not take this way to authenticate."""


class AuthenticationFailedError(KafkaError):
    """The broker refused the credentials."""


class KafkaUnavailableError(KafkaError):
    """Kafka cannot be reached."""


class KafkaTimeoutError(KafkaError):
    """A call did not end in its time."""


class KafkaConnectionError(KafkaError):
    """A connection was lost, or could not be made."""

    retriable = True
    invalid_metadata = True


class UnsupportedCodecError(KafkaError):
    """There is no such compression."""


class KafkaConfigurationError(KafkaError):
    """A setting is wrong."""


class QuotaViolationError(KafkaError):
    """A quota was exceeded."""


class ConsumerStoppedError(Exception):
    """The consumer is stopped."""


class IllegalOperation(Exception):
    """The client was not made for this call, as a commit without a group."""


class NoOffsetForPartitionError(KafkaError):
    """There is no committed offset, and auto.offset.reset is none."""


class RecordTooLargeError(KafkaError):
    """A record is larger than a fetch may be."""


class ProducerClosed(KafkaError):
    """The producer is stopped."""


class ProducerFenced(KafkaError):
    """Another producer has this one's transactional id."""


class RecordDeserializationError(KafkaError):
    """A record's key or value cannot be read (Java: RecordDeserializationException, KIP-334).

    The consumer stays at the record: it raises again until it seeks past ``offset``.
    """

    def __init__(self, partition: TopicPartition, offset: int) -> None:
        super().__init__(
            f"Error deserializing key or value for partition {partition} at offset {offset}."
            " If needed, please seek past the record to continue consumption."
        )
        self.partition = partition
        self.offset = offset


class WakeupError(KafkaError):
    """Another task has called wakeup() (Java: WakeupException)."""


class RetriableCommitError(KafkaError):
    """An async commit failed for now (Java: RetriableCommitFailedException)."""

    retriable = True


class BrokerResponseError(KafkaError):
    """A broker answered with an error code: ``errno``, which aiokafka calls ``message``."""

    errno: int
    message: str
    description = ""

    def __str__(self) -> str:
        return f"[Error {self.errno}] {super().__str__()}"


_TABLE = """
-1 UnknownError UNKNOWN
0 NoError NO_ERROR
1 OffsetOutOfRangeError OFFSET_OUT_OF_RANGE
2 CorruptRecordException CORRUPT_MESSAGE
3 UnknownTopicOrPartitionError UNKNOWN_TOPIC_OR_PARTITION retriable metadata
4 InvalidFetchRequestError INVALID_FETCH_SIZE
5 LeaderNotAvailableError LEADER_NOT_AVAILABLE retriable metadata
6 NotLeaderForPartitionError NOT_LEADER_FOR_PARTITION retriable metadata
7 RequestTimedOutError REQUEST_TIMED_OUT retriable
8 BrokerNotAvailableError BROKER_NOT_AVAILABLE
9 ReplicaNotAvailableError REPLICA_NOT_AVAILABLE
10 MessageSizeTooLargeError MESSAGE_SIZE_TOO_LARGE
11 StaleControllerEpochError STALE_CONTROLLER_EPOCH
12 OffsetMetadataTooLargeError OFFSET_METADATA_TOO_LARGE
13 StaleLeaderEpochCodeError STALE_LEADER_EPOCH_CODE
14 GroupLoadInProgressError COORDINATOR_LOAD_IN_PROGRESS retriable
15 GroupCoordinatorNotAvailableError COORDINATOR_NOT_AVAILABLE retriable
16 NotCoordinatorForGroupError NOT_COORDINATOR retriable
17 InvalidTopicError INVALID_TOPIC
18 RecordListTooLargeError RECORD_LIST_TOO_LARGE
19 NotEnoughReplicasError NOT_ENOUGH_REPLICAS retriable
20 NotEnoughReplicasAfterAppendError NOT_ENOUGH_REPLICAS_AFTER_APPEND retriable
21 InvalidRequiredAcksError INVALID_REQUIRED_ACKS
22 IllegalGenerationError ILLEGAL_GENERATION
23 InconsistentGroupProtocolError INCONSISTENT_GROUP_PROTOCOL
24 InvalidGroupIdError INVALID_GROUP_ID
25 UnknownMemberIdError UNKNOWN_MEMBER_ID
26 InvalidSessionTimeoutError INVALID_SESSION_TIMEOUT
27 RebalanceInProgressError REBALANCE_IN_PROGRESS
28 InvalidCommitOffsetSizeError INVALID_COMMIT_OFFSET_SIZE
29 TopicAuthorizationFailedError TOPIC_AUTHORIZATION_FAILED
30 GroupAuthorizationFailedError GROUP_AUTHORIZATION_FAILED
31 ClusterAuthorizationFailedError CLUSTER_AUTHORIZATION_FAILED
32 InvalidTimestampError INVALID_TIMESTAMP
33 UnsupportedSaslMechanismError UNSUPPORTED_SASL_MECHANISM
34 IllegalSaslStateError ILLEGAL_SASL_STATE
35 UnsupportedVersionError UNSUPPORTED_VERSION
36 TopicAlreadyExistsError TOPIC_ALREADY_EXISTS
37 InvalidPartitionsError INVALID_PARTITIONS
38 InvalidReplicationFactorError INVALID_REPLICATION_FACTOR
39 InvalidReplicationAssignmentError INVALID_REPLICATION_ASSIGNMENT
40 InvalidConfigurationError INVALID_CONFIG
41 NotControllerError NOT_CONTROLLER retriable
42 InvalidRequestError INVALID_REQUEST
43 UnsupportedForMessageFormatError UNSUPPORTED_FOR_MESSAGE_FORMAT
44 PolicyViolationError POLICY_VIOLATION
45 OutOfOrderSequenceNumber OUT_OF_ORDER_SEQUENCE_NUMBER
46 DuplicateSequenceNumber DUPLICATE_SEQUENCE_NUMBER
47 InvalidProducerEpoch INVALID_PRODUCER_EPOCH
48 InvalidTxnState INVALID_TXN_STATE
49 InvalidProducerIdMapping INVALID_PRODUCER_ID_MAPPING
50 InvalidTransactionTimeout INVALID_TRANSACTION_TIMEOUT
51 ConcurrentTransactions CONCURRENT_TRANSACTIONS
52 TransactionCoordinatorFenced TRANSACTION_COORDINATOR_FENCED
53 TransactionalIdAuthorizationFailed TRANSACTIONAL_ID_AUTHORIZATION_FAILED
54 SecurityDisabled SECURITY_DISABLED
55 OperationNotAttempted OPERATION_NOT_ATTEMPTED
56 KafkaStorageError KAFKA_STORAGE_ERROR retriable metadata
57 LogDirNotFound LOG_DIR_NOT_FOUND
58 SaslAuthenticationFailed SASL_AUTHENTICATION_FAILED
59 UnknownProducerId UNKNOWN_PRODUCER_ID
60 ReassignmentInProgress REASSIGNMENT_IN_PROGRESS
61 DelegationTokenAuthDisabled DELEGATION_TOKEN_AUTH_DISABLED
62 DelegationTokenNotFound DELEGATION_TOKEN_NOT_FOUND
63 DelegationTokenOwnerMismatch DELEGATION_TOKEN_OWNER_MISMATCH
64 DelegationTokenRequestNotAllowed DELEGATION_TOKEN_REQUEST_NOT_ALLOWED
65 DelegationTokenAuthorizationFailed DELEGATION_TOKEN_AUTHORIZATION_FAILED
66 DelegationTokenExpired DELEGATION_TOKEN_EXPIRED
67 InvalidPrincipalType INVALID_PRINCIPAL_TYPE
68 NonEmptyGroup NON_EMPTY_GROUP
69 GroupIdNotFound GROUP_ID_NOT_FOUND
70 FetchSessionIdNotFound FETCH_SESSION_ID_NOT_FOUND
71 InvalidFetchSessionEpoch INVALID_FETCH_SESSION_EPOCH
72 ListenerNotFound LISTENER_NOT_FOUND
79 MemberIdRequired MEMBER_ID_REQUIRED
"""
"""Code, class, ``message``, and what is retriable or asks for new metadata: a line each."""


def _class_of(line: str) -> type[BrokerResponseError]:
    errno, name, message, *flags = line.split()
    told = {"errno": int(errno), "message": message, "__doc__": f"Error code {errno}: {message}."}
    can = {"retriable": "retriable" in flags, "invalid_metadata": "metadata" in flags}
    return type(name, (BrokerResponseError,), {"__module__": __name__, **told, **can})


kafka_errors = {each.errno: each for each in map(_class_of, _TABLE.strip().splitlines())}


def for_code(error_code: int) -> type[BrokerResponseError]:
    """Return the class of an error code: UnknownError for codes that aiokafka does not know."""
    return kafka_errors.get(error_code, kafka_errors[-1])


_ALIASES = {
    "InvalidMessageError": 2,
    "CoordinatorLoadInProgressError": 14,
    "CoordinatorNotAvailableError": 15,
    "NotCoordinatorError": 16,
}


def names() -> dict[str, Any]:
    """Return what the module ``aiokafka.errors`` has."""
    here = [each for each in globals().values() if inspect.isclass(each)]
    found: dict[str, Any] = {each.__name__: each for each in here if issubclass(each, Exception)}
    found |= {each.__name__: each for each in kafka_errors.values()}
    found |= {alias: kafka_errors[code] for alias, code in _ALIASES.items()}
    return {**found, "kafka_errors": kafka_errors, "for_code": for_code}


_CLASSES: dict[type[exceptions.KafkaError], type[KafkaError]] = {
    exceptions.KafkaTimeoutError: KafkaTimeoutError,
    exceptions.BufferExhaustedError: KafkaTimeoutError,
    exceptions.CommitFailedError: CommitFailedError,
    exceptions.ProducerFencedError: ProducerFenced,
    exceptions.IllegalStateError: IllegalStateError,
    exceptions.WakeupError: WakeupError,
    exceptions.RetriableCommitFailedError: RetriableCommitError,
    exceptions.NoOffsetForPartitionError: NoOffsetForPartitionError,
    exceptions.OffsetOutOfRangeError: kafka_errors[Errors.OFFSET_OUT_OF_RANGE],
    exceptions.LogTruncationError: kafka_errors[Errors.OFFSET_OUT_OF_RANGE],  # as in Java
}

_NAMES: dict[str, type[KafkaError]] = {
    "ILLEGAL_STATE": IllegalStateError,
    "CLOSED": ProducerClosed,
    "PRODUCER_FENCED": ProducerFenced,
    "NETWORK_EXCEPTION": KafkaConnectionError,  # code 13, which aiokafka has another name for
}


def translated(error: exceptions.KafkaError) -> KafkaError:
    """Return a model's error as the application catches it.

    Its class follows from the exception that Java's client throws, or else from the error code.
    """
    name = error.error
    kind = _NAMES.get(name) or _CLASSES.get(type(error))
    if kind is None:
        kind = for_code(Errors[name]) if name in Errors.__members__ else KafkaError
    told = kind(str(error))
    told.code = name
    return told
