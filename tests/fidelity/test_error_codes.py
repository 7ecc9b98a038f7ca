"""Which error codes of the model real Kafka was brought to answer, and why not the others.

A code that a committed answer has must leave ``WITHOUT_ANSWER``, and none may enter it without a
reason. ``python -m tests.fidelity`` asks for the answers.
"""

from __future__ import annotations

import re
from pathlib import Path

from kafkasim.model.errors import Errors

HERE = Path(__file__).parent

PARTS = ("answers", "quorum", "control", "consumer_groups", "refusals", "share_groups", "access")
"""The directories whose files have answers to raw requests."""

NO_BROKER = "no class of a broker makes it: 2.8.0, 3.9.1 and 4.0.0 to 4.2.0 only know it"
NO_REFUSAL = "Kafka fails to write a refusal of FetchSnapshot: UNKNOWN_SERVER_ERROR stands for it"

WITHOUT_ANSWER: dict[Errors, str] = {
    Errors.REPLICA_NOT_AVAILABLE: (
        "an answer to version 0 of Metadata and to AlterReplicaLogDirs, which the model has not"
        " (KRaftMetadataCache.getPartitionMetadata, ReplicaManager.alterReplicaLogDirs)"
    ),
    Errors.NETWORK_EXCEPTION: (
        "brokers answer another code in its place: NOT_ENOUGH_REPLICAS to Produce"
        " (ReplicaManager.handleProduceAppend), COORDINATOR_LOAD_IN_PROGRESS to TxnOffsetCommit"
        " (CoordinatorOperationExceptionHelper)"
    ),
    Errors.NOT_ENOUGH_REPLICAS_AFTER_APPEND: (
        "min.insync.replicas must rise while a batch is validated, which takes the model no time"
        " (between Partition.appendRecordsToLeader and checkEnoughReplicasReachOffset): once it is"
        " appended, the high watermark stands still below the minimum, and the request times out"
    ),
    Errors.UNSUPPORTED_FOR_MESSAGE_FORMAT: (
        "of logs before magic 2, which the model has not (LogValidator.validateBatch)"
    ),
    Errors.DUPLICATE_SEQUENCE_NUMBER: NO_BROKER,
    Errors.UNKNOWN_PRODUCER_ID: NO_BROKER,
    Errors.SNAPSHOT_NOT_FOUND: NO_REFUSAL,
    Errors.POSITION_OUT_OF_RANGE: NO_REFUSAL,
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
