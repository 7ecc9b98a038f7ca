"""What a leader refuses in a client's batch for its timestamps, and how it compresses a batch."""

from __future__ import annotations

from dataclasses import replace

from kafkasim.model.config import BrokerConfig
from kafkasim.model.errors import NONE, Errors
from kafkasim.model.records import EndTransactionMarker, end_transaction_marker
from kafkasim.model.storage.log.validation import AppendOrigin
from tests.model.storage_support import batch, config, make_log

HOUR_MS = 3_600_000


def test_a_timestamp_more_than_an_hour_ahead_is_refused() -> None:  # KIP-1030
    log = make_log()
    assert log.append_as_leader(batch(1, timestamp=HOUR_MS + 5), 0, 5).error is NONE
    refused = log.append_as_leader(batch(2, timestamp=HOUR_MS + 6), 0, 5)
    assert (refused.error, log.log_end_offset) == (Errors.INVALID_TIMESTAMP, 1)
    assert (
        log.append_as_leader(batch(2, timestamp=HOUR_MS + 6), 0, 5, AppendOrigin.RAFT_LEADER).error
        is NONE
    )


def test_a_timestamp_too_far_back_is_refused_where_a_bound_is_set() -> None:
    log = make_log(settings=config(message_timestamp_before_max_ms=1000))
    assert log.append_as_leader(batch(1, timestamp=4000), 0, 5000).error is NONE
    refused = log.append_as_leader(batch(2, timestamp=3999), 0, 5000)
    assert refused.error is Errors.INVALID_TIMESTAMP


def test_log_append_time_asks_nobody_for_the_time() -> None:
    log = make_log(settings=config(message_timestamp_type="LogAppendTime"))
    assert log.append_as_leader(batch(1, timestamp=10 * HOUR_MS), 0, 5).error is NONE


def test_the_bounds_are_the_brokers_unless_a_topic_has_its_own() -> None:
    broker = BrokerConfig.from_properties({"log.message.timestamp.after.max.ms": 7})
    assert broker.topic_config({}).message_timestamp_after_max_ms == 7
    own = broker.topic_config({"message.timestamp.after.max.ms": "9"})
    assert own.message_timestamp_after_max_ms == 9


def test_the_codec_of_the_topic_decides_the_size_of_a_clients_batch() -> None:  # LogValidator
    sent = replace(batch(*range(10)), size=200)  # 10 records of 39 bytes, as a producer packed them
    sizes = {}
    for codec in ("producer", "uncompressed", "gzip"):
        log = make_log(settings=config(compression_type=codec))
        log.append_as_leader(sent, 0, 5)
        sizes[codec] = log.size
    assert sizes == {"producer": 200, "uncompressed": 61 + 390, "gzip": 61 + 136}


def test_a_batch_that_is_too_large_once_uncompressed_is_refused() -> None:
    settings = config(compression_type="uncompressed", max_message_bytes=300)
    log = make_log(settings=settings)
    refused = log.append_as_leader(replace(batch(*range(10)), size=200), 0, 5)
    assert (refused.error, log.log_end_offset) == (Errors.MESSAGE_TOO_LARGE, 0)


def test_a_control_batch_is_not_compressed() -> None:
    log = make_log(settings=config(compression_type="gzip"))
    marker = end_transaction_marker(1, 0, EndTransactionMarker(True, 0), 5)
    log.append_as_leader(marker, 0, 5, AppendOrigin.COORDINATOR)
    assert log.size == marker.size
