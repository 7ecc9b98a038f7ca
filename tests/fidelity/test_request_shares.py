"""A broker whose disk is slow spends the time of its requests as Kafka's does (RequestMetrics)."""

from __future__ import annotations

from collections import Counter
from pathlib import Path
from typing import Any

import pyarrow.parquet as pq
import pytest

from kafkasim.analysis.judging.stored import facts_of
from kafkasim.model.facts import RequestStats
from kafkasim.scenarios.language.spec import parse
from kafkasim.scenarios.running.runner import run
from kafkasim.sim.trace.store import TRACE_FILE
from tests.fidelity.kafka_request_shares import (
    HANDLERS,
    PRODUCERS,
    TIMES,
    TOLERANCE,
    VERSIONS,
    Shares,
    committed,
    near,
    settings,
    shares_of,
)

WARM_UP_US, END_US = 5_000_000, 20_000_000


def scenario(handlers: int) -> dict[str, Any]:
    """Return the clients that the real broker had; these send before they have an answer, and the
    connection holds the next record back until then."""
    one_by_one = {"acks": 1, "linger.ms": 0, "batch.size": 1, "enable.idempotence": False,
                  "max.in.flight.requests.per.connection": 1}  # fmt: skip
    return {
        "name": "request-shares", "claim": "A flush holds a handler.", "duration": "20s",
        "cluster": {"brokers": 1, "controllers": 1, "config": {
            **settings(handlers), "offsets.topic.replication.factor": 1}},
        "topics": [{"name": each} for each in (*topics(), "idle")],
        "workload": [
            *({"kind": "producer", "topic": each, "rate": "10/s", "value-size": "1KiB",
               "config": one_by_one} for each in topics()),
            {"kind": "consumer-group", "group": "waiting", "topics": ["idle"]},
        ],
        "faults": [
            {"kind": "slow-disk", "node": "broker-1", "at": "2s", "for": "18s", "factor": 16}
        ],
    }  # fmt: skip


def topics() -> list[str]:
    return [f"busy-{number}" for number in range(PRODUCERS)]


def measured(directory: Path) -> Shares:
    """Return the shares that runs of the model have."""
    found: Shares = {}
    for handlers in HANDLERS:
        place = directory / str(handlers)
        run(parse(scenario(handlers), "request-shares"), 1, place)
        sums: dict[str, dict[str, float]] = {}
        counts: Counter[str] = Counter()
        for _seq, at, _node, fact in facts_of(pq.read_table(place / TRACE_FILE)):
            if isinstance(fact, RequestStats) and WARM_UP_US < at <= END_US:
                counts[fact.api] += fact.count
                of_api = sums.setdefault(fact.api, dict.fromkeys(TIMES, 0.0))
                for each in TIMES[:-1]:
                    of_api[each] += getattr(fact, f"{each.replace(' ', '_')}_us")
        found |= shares_of(handlers, {api: (counts[api], sums[api]) for api in sums})
    return found


@pytest.mark.slow
def test_requests_spend_their_times_as_kafkas(tmp_path: Path) -> None:
    model = measured(tmp_path)
    for real in map(committed, VERSIONS):
        assert list(model) == list(real)
        far = {
            what: (real[what], model[what]) for what in real if not near(real[what], model[what])
        }
        assert far == {}, f"differ by more than {TOLERANCE} %"


def test_a_share_that_is_far_from_kafkas_is_found() -> None:
    [real] = map(committed, VERSIONS)
    for shares in real.values():
        assert near(shares, shares)
        assert not near(shares, {what: share + TOLERANCE + 1 for what, share in shares.items()})
