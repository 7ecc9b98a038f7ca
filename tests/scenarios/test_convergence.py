"""What a healed cluster still lacks, and what its groups have only to read."""

from __future__ import annotations

from kafkasim.analysis.judging.wait import COMMIT, DOWN, OPEN, POLL, READ, SHARES, Wait
from kafkasim.model import facts
from kafkasim.scenarios.language.library import scenario
from kafkasim.scenarios.running.runner import ScenarioRun

BEHIND = Wait(READ, "consumer-1", "T", 0, "orders-0", "group", offset=3, end=10)
SHARED = Wait(SHARES, "", "T", 2, "orders-2", "workers", offset=57, end=107)
GIVEN = Wait(COMMIT, "", "T", 0, "orders-0", "group", offset=-1, end=3)
DEAD = Wait(DOWN, "broker-3")
AT_IT = [Wait(POLL, "processor-1"), Wait(OPEN, topic_id="T", partition=1, producer_id=7)]


def test_offsets_are_counted_if_groups_have_only_to_read_on() -> None:
    run = ScenarioRun(scenario("acks-one-loses")[0], 1, None, ())
    run.trace.record(
        0, "processor-1", facts.ProcessorStarted("group", "exactly-once", ("orders",), "sums")
    )
    run.trace.record(0, "processor-1", facts.TransactionBegun("pay", 0, 7, 0))
    unread = run.members[""].convergence.unread
    assert unread([BEHIND, SHARED]) == {"group": 7, "workers": 50}
    assert unread([*AT_IT, BEHIND, GIVEN]) == {"group": 7 + 3}
    assert unread([BEHIND, DEAD]) == unread([BEHIND, Wait(POLL, "consumer-1")]) == {}


def test_a_wait_lasts_since_it_was_first_seen() -> None:
    run = ScenarioRun(scenario("acks-one-loses")[0], 1, None, ())
    run.cluster.clients.control.flushed["producer-1"] = False
    (first,) = run.members[""].convergence.waits()
    run.world.run(5_000_000)
    (later,) = run.members[""].convergence.waits()
    assert (first.since_us, later.since_us, str(later)) == (
        0,
        0,
        "producer-1 has records that are neither acknowledged nor failed",
    )
