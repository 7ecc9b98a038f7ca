"""Every error code that an API of a coordinator can answer is answered by that API in some test.

``KAFKA`` is read from Kafka's source: what each API of each of the three coordinators can answer.
The answers of real Kafka to raw requests (tests/fidelity), which the model repeats, show most of
them. The rest is answered in ``coordinator_answers.py``, by the coordinator itself. The table and
the answers check each other: a code that real Kafka answered and the table does not have is an
error of the table.

Not in the table: what authorization and old versions of a request add, and a null group id, which
the model's messages do not have.
"""

from __future__ import annotations

import re
from functools import cache
from pathlib import Path
from typing import Any

import pytest

from kafkasim.model.errors import Errors
from tests.fidelity import test_consumer_group_requests, test_requests
from tests.fidelity.conversations import CONVERSATIONS, consumer_groups
from tests.fidelity.conversations.talk import Talk
from tests.fidelity.sides import ModelSide
from tests.model.coordinator_answers import HERE, Api

FIDELITY = Path(test_requests.__file__).parent

_SHARD = "NOT_COORDINATOR COORDINATOR_LOAD_IN_PROGRESS"
"""Without an active shard (CoordinatorRuntime.withActiveContextOrThrow)."""

_APPEND = "COORDINATOR_NOT_AVAILABLE UNKNOWN_SERVER_ERROR"
"""After a failed append (CoordinatorOperationExceptionHelper.handleOperationException)."""

_MEMBER = "UNKNOWN_MEMBER_ID FENCED_INSTANCE_ID ILLEGAL_GENERATION"
"""What checks a member of a classic group (ClassicGroup.validateMember, validateOffsetCommit)."""

_PRODUCER = "INVALID_REQUEST INVALID_PRODUCER_ID_MAPPING PRODUCER_FENCED CONCURRENT_TRANSACTIONS"

_TABLE: dict[str, dict[str, str]] = {
    # GroupCoordinatorService, GroupMetadataManager.classicGroup…, OffsetMetadataManager
    "classic": {
        "JoinGroup": f"{_SHARD} {_APPEND} INVALID_GROUP_ID INVALID_SESSION_TIMEOUT"
        " INCONSISTENT_GROUP_PROTOCOL UNKNOWN_MEMBER_ID FENCED_INSTANCE_ID MEMBER_ID_REQUIRED"
        " GROUP_MAX_SIZE_REACHED REBALANCE_IN_PROGRESS",  # the last: convertToConsumerGroup
        "SyncGroup": f"{_SHARD} {_APPEND} {_MEMBER} INVALID_GROUP_ID INCONSISTENT_GROUP_PROTOCOL"
        " REBALANCE_IN_PROGRESS",
        # The service answers NONE while the group is loading.
        "Heartbeat": f"NOT_COORDINATOR {_MEMBER} INVALID_GROUP_ID REBALANCE_IN_PROGRESS",
        "LeaveGroup": f"{_SHARD} INVALID_GROUP_ID UNKNOWN_MEMBER_ID FENCED_INSTANCE_ID",
        "OffsetCommit": f"{_SHARD} {_APPEND} {_MEMBER} GROUP_ID_NOT_FOUND REBALANCE_IN_PROGRESS"
        " OFFSET_METADATA_TOO_LARGE UNKNOWN_TOPIC_OR_PARTITION",
        "OffsetFetch": f"{_SHARD} UNSTABLE_OFFSET_COMMIT",
        "OffsetDelete": f"{_SHARD} {_APPEND} INVALID_GROUP_ID GROUP_ID_NOT_FOUND NON_EMPTY_GROUP"
        " GROUP_SUBSCRIBED_TO_TOPIC UNKNOWN_TOPIC_OR_PARTITION",
        # The last three: the verification of the transaction (KIP-890).
        "TxnOffsetCommit": f"{_SHARD} {_APPEND} {_MEMBER} INVALID_GROUP_ID"
        " OFFSET_METADATA_TOO_LARGE UNKNOWN_TOPIC_OR_PARTITION INVALID_PRODUCER_ID_MAPPING"
        " INVALID_PRODUCER_EPOCH TRANSACTION_ABORTABLE",
        "DescribeGroups": f"{_SHARD} GROUP_ID_NOT_FOUND",
        "ListGroups": "COORDINATOR_LOAD_IN_PROGRESS",
        "DeleteGroups": f"{_SHARD} {_APPEND} GROUP_ID_NOT_FOUND NON_EMPTY_GROUP",
    },
    # GroupMetadataManager.consumerGroup… and classicGroup…ToConsumerGroup, ConsumerGroup
    "consumer": {
        "ConsumerGroupHeartbeat": f"{_SHARD} {_APPEND} UNSUPPORTED_VERSION INVALID_REQUEST"
        " UNSUPPORTED_ASSIGNOR INVALID_REGULAR_EXPRESSION GROUP_ID_NOT_FOUND UNKNOWN_MEMBER_ID"
        " FENCED_MEMBER_EPOCH FENCED_INSTANCE_ID UNRELEASED_INSTANCE_ID GROUP_MAX_SIZE_REACHED",
        "ConsumerGroupDescribe": f"{_SHARD} UNSUPPORTED_VERSION GROUP_ID_NOT_FOUND"
        " UNKNOWN_SERVER_ERROR",  # with an empty group id the answer cannot be written
        "JoinGroup": f"{_APPEND} INVALID_SESSION_TIMEOUT INCONSISTENT_GROUP_PROTOCOL"
        " UNKNOWN_MEMBER_ID FENCED_INSTANCE_ID MEMBER_ID_REQUIRED GROUP_MAX_SIZE_REACHED",
        "SyncGroup": f"{_MEMBER} INCONSISTENT_GROUP_PROTOCOL REBALANCE_IN_PROGRESS",
        "Heartbeat": f"{_MEMBER} REBALANCE_IN_PROGRESS",
        "LeaveGroup": f"{_APPEND} UNKNOWN_MEMBER_ID FENCED_INSTANCE_ID",
        "OffsetCommit": "UNKNOWN_MEMBER_ID STALE_MEMBER_EPOCH ILLEGAL_GENERATION",
        "TxnOffsetCommit": "UNKNOWN_MEMBER_ID ILLEGAL_GENERATION",  # for a stale epoch
        "OffsetDelete": "GROUP_SUBSCRIBED_TO_TOPIC",
        "DescribeGroups": "GROUP_ID_NOT_FOUND",
        "DeleteGroups": "NON_EMPTY_GROUP",
    },
    # TransactionCoordinator, TransactionStateManager, KafkaApis.handleAddPartitionsToTxnRequest
    "transaction": {
        "InitProducerId": f"{_SHARD} {_APPEND} INVALID_REQUEST INVALID_TRANSACTION_TIMEOUT"
        " CONCURRENT_TRANSACTIONS PRODUCER_FENCED",
        "AddPartitionsToTxn": f"{_SHARD} {_APPEND} {_PRODUCER} TRANSACTION_ABORTABLE"
        " UNKNOWN_TOPIC_OR_PARTITION OPERATION_NOT_ATTEMPTED",
        "AddOffsetsToTxn": f"{_SHARD} {_APPEND} {_PRODUCER}",
        "EndTxn": f"{_SHARD} {_APPEND} {_PRODUCER} INVALID_TXN_STATE",
        "DescribeTransactions": f"{_SHARD} INVALID_REQUEST TRANSACTIONAL_ID_NOT_FOUND",
        "ListTransactions": "COORDINATOR_LOAD_IN_PROGRESS",
    },
}

KAFKA: dict[Api, frozenset[str]] = {
    (who, api): frozenset(codes.split())
    for who, apis in _TABLE.items()
    for api, codes in apis.items()
}

CLASSIC = ("groups", "members", "static members", "committed offsets", "administering groups")
OF_TRANSACTIONS = ("transactions", "transactions of version 2")
GROUP_APIS = ("TxnOffsetCommit", "OffsetCommit", "OffsetFetch")


# --------------------------------------------------------------- what real Kafka has answered


class _Heard(list[str]):
    """The lines of a conversation; it notes by which API each of them was answered."""

    def __init__(self, side: _Asked) -> None:
        super().__init__()
        self.side = side

    def append(self, line: str) -> None:
        """Take a line."""
        self.side.apis[line.split(": ", 1)[0]] = self.side.last
        super().append(line)


class _Asked(ModelSide):
    """The model, and which API was asked last."""

    def __init__(self) -> None:
        super().__init__()
        self.last = ""
        self.apis: dict[str, str] = {}  # line -> API

    def ask(self, node: int, message: Any, user: str = "") -> Any:
        """Ask the model."""
        self.last = type(message).__name__.removesuffix("Request")
        return super().ask(node, message, user)


@cache
def raw_codes() -> dict[Api, dict[str, str]]:
    """Return which codes real Kafka answered, and to which raw request."""
    found: dict[Api, dict[str, str]] = {}
    for names, table, file, differ in (
        ((*CLASSIC, *OF_TRANSACTIONS), CONVERSATIONS, "answers", test_requests.DIFFERENT["4.0.0"]),
        (
            tuple(consumer_groups.CONVERSATIONS), consumer_groups.CONVERSATIONS, "consumer_groups",
            test_consumer_group_requests.DIFFERENT,
        ),
    ):  # fmt: skip
        side = _Asked()
        for name in names:
            talk = Talk(side, name)
            talk.lines = _Heard(side)
            table[name](talk)
        for line in (FIDELITY / file / "4.0.0.txt").read_text().splitlines():
            label, answer = line.split(": ", 1)
            if label not in side.apis or label in differ:
                continue
            who = _coordinator(label, side.apis[label], file)
            for code in re.findall(r"\b[A-Z][A-Z_]{6,}\b", answer):
                if code in Errors.__members__:
                    found.setdefault((who, side.apis[label]), {}).setdefault(code, label)
    return found


def _coordinator(label: str, api: str, file: str) -> str:
    name = label.split(" / ")[0]
    if file == "consumer_groups":
        return "classic" if name == "classic groups" else "consumer"
    return "transaction" if name in OF_TRANSACTIONS and api not in GROUP_APIS else "classic"


@pytest.mark.parametrize("api", KAFKA, ids=" ".join)
def test_every_code_that_an_api_can_answer_is_answered(api: Api) -> None:
    shown = {*raw_codes().get(api, {}), *HERE.get(api, {})}
    assert sorted(KAFKA[api] - shown) == []


def test_the_table_has_every_code_that_real_kafka_answered() -> None:
    assert {
        api: sorted({*found} - KAFKA[api])
        for api, found in raw_codes().items()
        if api in KAFKA and {*found} - KAFKA[api]
    } == {}


def test_nothing_is_answered_here_that_the_table_does_not_have_or_real_kafka_has_answered() -> None:
    for api, answers in HERE.items():
        assert sorted({*answers} - KAFKA[api]) == [], api
        assert sorted({*answers} & {*raw_codes().get(api, {})}) == [], api


@pytest.mark.parametrize(
    ("api", "code"),
    [(api, code) for api, some in HERE.items() for code in some],
    ids=lambda each: each if isinstance(each, str) else " ".join(each),
)
def test_the_code_is_answered(api: Api, code: str) -> None:
    assert code in re.findall(r"Errors\.([A-Z_]+)", repr(HERE[api][code]()))
