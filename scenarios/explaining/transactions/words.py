"""The facts of transactions as sentences, with the sections of KAFKA.md behind them."""

from __future__ import annotations

from collections.abc import Callable

from kafkasim.scenarios.explaining.facts import Facts, record
from kafkasim.scenarios.showing.state import Row

Said = tuple[str, str]

OUTCOMES = {
    "committed": "it is committed",
    "aborted": "it is aborted",
    "fenced": "another producer has its transactional id",
    "failed": "the producer does not know its outcome",
}
REASONS = {
    "end": "its producer asked for that",
    "timeout": "it had been open for longer than its timeout",
    "fence": "another producer was initialized with its transactional id",
    "markers": "every marker is written",
    "init": "a producer is initialized",
    "add": "partitions are added",
    "expired": "nobody has used it for transactional.id.expiration.ms",
}


def name(row: Row) -> str:
    """Return a transaction as its producer counts it."""
    return f"transaction {row['number']} of {row['transactional_id']}"


def _rewritten(facts: Facts, row: Row) -> Said:
    place = facts.name((row["topic_id"], row["partition"]))
    text = f"{row['node']} has a gap in {place}, and numbers its in-flight batches from 0"
    return f"{text} in epoch {row['producer_epoch']}", "4.2"


def _begun(_: Facts, row: Row) -> Said:
    producer = f"producer id {row['producer_id']}, epoch {row['producer_epoch']}"
    return f"{row['node']} begins {name(row)} ({producer})", "4.4"


def _sent(facts: Facts, row: Row) -> Said:
    place = facts.name((row["topic_id"], row["partition"]))
    return f"{row['node']} sends {record(row['record_id'])} to {place} in {name(row)}", "4.4"


def _offsets(_: Facts, row: Row) -> Said:
    place = f"{row['topic']}-{row['partition']}"
    text = f"{row['node']} takes offset {row['offset']} of group {row['group']} in {place}"
    return f"{text} into {name(row)}", "4.4"


def _ending(_: Facts, row: Row) -> Said:
    wish = "commit" if row["committing"] else "abort"
    return f"the application of {row['node']} asks to {wish} {name(row)}", "4.4"


def _ended(_: Facts, row: Row) -> Said:
    outcome = OUTCOMES.get(row["outcome"], row["outcome"])
    return f"{row['node']} is told of {name(row)}: {outcome}", "4.4"


def _loaded(_: Facts, row: Row) -> Said:
    does = "coordinates" if row["loaded"] else "no longer coordinates"
    place = f"__transaction_state-{row['partition']}"
    epoch = f"leader epoch {row['leader_epoch']}"
    return f"{row['node']} {does} the transactional ids of {place} ({epoch})", "4.4"


def _reads(_: Facts, row: Row) -> Said:
    return f"{row['node']} reads committed records only, for group {row['group']}", "4.4"


def _processor(_: Facts, row: Row) -> Said:
    topics = ", ".join(row["topics"])
    text = f"{row['node']} processes {topics} into {row['topic']} as group {row['group']}"
    return f"{text}: {row['guarantee']}", ""


def _state(_: Facts, row: Row) -> Said:
    producer = f"producer id {row['producer_id']}, epoch {row['producer_epoch']}"
    text = f"{row['node']}, coordinator of {row['transactional_id']}: {row['before']} becomes"
    why = REASONS.get(row["reason"], row["reason"])
    return f"{text} {row['state']} ({producer}): {why}", "4.4"


def _marker(facts: Facts, row: Row) -> Said:
    kind = "COMMIT" if row["committed"] else "ABORT"
    place = facts.name((row["topic_id"], row["partition"]))
    producer = f"producer id {row['producer_id']}, epoch {row['producer_epoch']}"
    text = f"{row['node']}, leader of {place}, writes the {kind} marker of {producer}"
    return f"{text} at offset {row['offset']}", "4.4"


def _unverified(facts: Facts, row: Row) -> Said:
    place = facts.name((row["topic_id"], row["partition"]))
    text = f"{row['node']}, leader of {place}, does not know that producer id"
    text += f" {row['producer_id']}, epoch {row['producer_epoch']}, has a transaction there"
    return f"{text}, and refuses sequence {row['base_sequence']} ({row['error']})", "4.4"


def _skipped_verification(facts: Facts, row: Row) -> Said:
    place = facts.name((row["topic_id"], row["partition"]))
    text = f"{row['node']}, leader of {place}, appends a batch of producer id {row['producer_id']},"
    text += f" epoch {row['producer_epoch']}, without verifying its transaction"
    return f"{text} (before KIP-890)", "4.4"


def _given_up(_: Facts, row: Row) -> Said:
    text = f"{row['node']}, coordinator of {row['transactional_id']}, gives up the marker for"
    text += f" {row['topic']}-{row['partition']} ({row['error']}: producer id {row['producer_id']},"
    return f"{text} epoch {row['producer_epoch']}); the transaction is never complete", "4.4"


def _skipped(_: Facts, row: Row) -> Said:
    text = f"{row['node']}, coordinator of {row['transactional_id']}, knows no leader of"
    text += f" {row['topic']}-{row['partition']} and sends no marker there (producer id"
    return f"{text} {row['producer_id']}, epoch {row['producer_epoch']})", "4.4"


def _exhausted(_: Facts, row: Row) -> Said:
    text = f"{row['node']}, coordinator of {row['transactional_id']}, cannot end its transaction"
    text += f" (producer id {row['producer_id']}, epoch {row['producer_epoch']}): the next epoch"
    return f"{text} overflows", "4.4"


WORDS: dict[str, Callable[[Facts, Row], Said]] = {
    "SequencesRewritten": _rewritten,
    "TransactionBegun": _begun,
    "TransactionSent": _sent,
    "TransactionOffsets": _offsets,
    "TransactionEnding": _ending,
    "TransactionEnded": _ended,
    "TransactionsLoaded": _loaded,
    "ReadsCommitted": _reads,
    "ProcessorStarted": _processor,
    "TransactionState": _state,
    "BatchUnverified": _unverified,
    "VerificationSkipped": _skipped_verification,
    "EpochsExhausted": _exhausted,
    "MarkerGivenUp": _given_up,
    "MarkerSkipped": _skipped,
    "MarkerWritten": _marker,
}
"""For each kind of fact the function that says it."""
