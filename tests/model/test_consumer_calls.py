"""What calls of a consumer refuse, wait for and raise, as ClassicKafkaConsumer's methods do."""

from __future__ import annotations

from typing import Any

import pytest

from kafkasim.model.client.exceptions import KafkaTimeoutError, NoOffsetForPartitionError
from kafkasim.model.messages import ListOffsetsRequest
from kafkasim.model.records import TopicPartition
from tests.model.test_consumer_group import T0, polled, start
from tests.model.test_consumer_steering import T9

T5 = TopicPartition("t", 5)


@pytest.mark.parametrize(("method", "position"), [("seek_to_beginning", 0), ("seek_to_end", 5)])
def test_position_waits_for_the_reset_that_a_seek_has_asked_for(method: str, position: int) -> None:
    h, _ = start(records=5, max_poll_records=2)
    polled(h)
    assert h.result("position", T0) == 2
    h.result(method, (T0,))
    assert h.result("position", T0) == position


def test_position_waits_for_the_committed_offset_before_the_first_poll() -> None:
    h, _ = start(records=5)
    h.result("unsubscribe")
    h.result("assign", (T0,))
    assert h.result("position", T0) == 0


def test_position_raises_what_its_search_raises() -> None:
    h, _ = start(records=3, auto_offset_reset="none")
    h.result("unsubscribe")
    h.result("assign", (T0,))
    assert isinstance(h.result("position", T0), NoOffsetForPartitionError)
    assert h.result("poll", 100) is not None  # the error was told, and is not told twice


def test_position_ends_by_default_api_timeout_ms_or_by_wakeup() -> None:
    h, _ = start(records=3, default_api_timeout_ms=3000, request_timeout_ms=2000)
    polled(h)
    h.result("seek_to_beginning", (T0,))
    h.cluster.handlers[ListOffsetsRequest] = lambda _node, _message: None
    call = h.call("position", T0)
    h.run(2900)
    assert call not in h.replies
    h.run(200)
    assert isinstance(h.replies[call], KafkaTimeoutError)
    call = h.call("position", T0)
    h.result("wakeup")
    assert h.replies[call].error == "WAKEUP"


REFUSED: dict[str, tuple[list[tuple[Any, ...]], str]] = {
    "position of another partition": ([("position", T9)], "ILLEGAL_STATE"),
    "seek in another partition": ([("seek", T9, 1)], "ILLEGAL_STATE"),
    "a negative offset": ([("seek", T0, -1)], "ILLEGAL_ARGUMENT"),
    "a negative time": ([("offsets_for_times", {T0: -5})], "ILLEGAL_ARGUMENT"),
    "assign while subscribed": ([("assign", (T5,))], "ILLEGAL_STATE"),
    "a pattern beside topics": ([("subscribe_pattern", "t.*")], "ILLEGAL_STATE"),
    "subscribe while assigned": (
        [("unsubscribe",), ("assign", (T5,)), ("subscribe", ("t",))], "ILLEGAL_STATE"),
    "poll without a subscription": ([("unsubscribe",), ("poll", 100)], "ILLEGAL_STATE"),
    "poll after an empty subscription": ([("subscribe", ()), ("poll", 100)], "ILLEGAL_STATE"),
}  # fmt: skip


@pytest.mark.parametrize("name", REFUSED)
def test_a_call_that_does_not_fit_the_consumer_is_refused(name: str) -> None:
    h, _ = start(records=3)
    polled(h)
    calls, error = REFUSED[name]
    *before, last = calls
    for method, *args in before:
        assert h.result(method, *args) is None
    method, *args = last
    assert h.result(method, *args).error == error


@pytest.mark.parametrize(
    "call", [("commit_sync", None), ("commit_async", None), ("committed", (T0,)),
             ("group_metadata",), ("subscribe", ("t",)), ("subscribe_pattern", "t")],
    ids=lambda call: call[0],
)  # fmt: skip
def test_without_a_group_id_there_is_no_subscription_and_no_commit(call: tuple[Any, ...]) -> None:
    h, _ = start(records=3)
    h.process.clients["c"].coordinator = None  # type: ignore[union-attr]
    h.result("unsubscribe")
    method, *args = call
    assert h.result(method, *args).error == "INVALID_GROUP_ID"
