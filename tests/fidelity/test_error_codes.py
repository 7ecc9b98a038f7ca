"""Which error codes of the model real Kafka was brought to answer, and why not the others.

A code that a committed answer has must leave ``WITHOUT_ANSWER``, and none may enter it without a
reason. ``python -m tests.fidelity`` asks for the answers.
"""

from __future__ import annotations

import re
from pathlib import Path

from kafkasim.model.errors import Errors

HERE = Path(__file__).parent

PARTS = ("answers", "quorum", "control", "consumer_groups", "refusals", "share_groups")
"""The directories whose files have answers to raw requests."""

CLIENT = "a client's own: no broker answers it to a request that the model has"
NOT_MODELLED = "the model knows the code and never answers it"
NO_REFUSAL = "Kafka fails to write a refusal of FetchSnapshot: UNKNOWN_SERVER_ERROR stands for it"

WITHOUT_ANSWER: dict[Errors, str] = {
    Errors.REPLICA_NOT_AVAILABLE: CLIENT,
    Errors.NETWORK_EXCEPTION: CLIENT,
    Errors.NOT_ENOUGH_REPLICAS_AFTER_APPEND: (
        "the ISR must shrink between two steps of one request: below min.insync.replicas the high"
        " watermark stands still, and the request times out"
    ),
    Errors.UNSUPPORTED_FOR_MESSAGE_FORMAT: "of logs before magic 2, which the model has not",
    Errors.DUPLICATE_SEQUENCE_NUMBER: CLIENT,
    Errors.UNKNOWN_PRODUCER_ID: CLIENT,
    Errors.SNAPSHOT_NOT_FOUND: NO_REFUSAL,
    Errors.POSITION_OUT_OF_RANGE: NO_REFUSAL,
    Errors.THROTTLING_QUOTA_EXCEEDED: NOT_MODELLED,
    Errors.INCONSISTENT_CLUSTER_ID: (
        "a simulation has one cluster: the id, in nine kinds of requests, would never differ"
    ),
}
"""The codes without a committed answer, each with its reason."""


def test_every_other_code_was_answered_by_kafka() -> None:
    answered = {
        word
        for part in PARTS
        for file in sorted((HERE / part).glob("*.txt"))
        for word in re.findall(r"\b[A-Z][A-Z_]+\b", file.read_text())
    }
    without = [error.name for error in Errors if error.name not in answered]
    assert without == [error.name for error in Errors if error in WITHOUT_ANSWER]
