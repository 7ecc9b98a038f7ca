"""Where groups are: a position counts in the topic that the leader has answered for."""

from __future__ import annotations

import pytest

from kafkasim.analysis.judging.transactions.liveness.positions import Positions
from kafkasim.model import facts
from tests.scenarios.fact_makers import FakeTrace

OLD = ("controller-1", facts.TopicCreated(1, "old-id", "orders", 1, 1, 1))
NEW = ("controller-1", facts.TopicCreated(2, "new-id", "orders", 1, 1, 1))


@pytest.mark.parametrize(
    ("reason", "topic_id"),
    [("latest", "new-id"), ("earliest", "new-id"), ("committed", "old-id"), ("seek", "old-id")],
)
def test_an_offset_is_looked_up_in_the_topic_that_has_the_name_now(
    reason: str, topic_id: str
) -> None:
    trace = FakeTrace()
    positions = Positions(trace)
    told = ("consumer-1", facts.Positioned("g", "m1", "old-id", 0, 35, reason))
    trace.record([OLD, NEW, OLD, told])
    assert positions.last == {("g", (topic_id, 0)): (35, "consumer-1")}
