"""What a leader refuses in a client's batch for its timestamps."""

from __future__ import annotations

from kafkasim.model.config import BrokerConfig
from kafkasim.model.errors import NONE, Errors
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
