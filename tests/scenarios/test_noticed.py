"""What ``--explain`` says that clients noticed: waits, failures, silences, records read again."""

from __future__ import annotations

import dataclasses
from typing import Any

from kafkasim.analysis.story.clients import Noticed, ranks
from kafkasim.model import facts
from kafkasim.scenarios import cli

SECOND = 1_000_000


def told(*rows: tuple[float, Any], node: str = "host-1") -> list[str]:
    """Return the lines about facts; each row is (seconds since ready, fact)."""
    found = Noticed(SECOND)
    for at, fact in rows:
        row = dict.fromkeys(facts.COLUMNS) | dataclasses.asdict(fact) | {"node": node}
        found.replay({**row, "t_us": SECOND + round(at * SECOND), "kind": type(fact).__name__})
    return found.lines()


def acked(records: int, latency_us: int, topic: str = "T") -> facts.Acked:
    return facts.Acked(topic, 0, 0, tuple(range(records)), -1, 1, 0, 0, latency_us, 1)


def failed(records: int) -> facts.SendFailed:
    ids = tuple(range(records))
    return facts.SendFailed("T", 0, ids, "REQUEST_TIMED_OUT", True, 9 * SECOND, 2)


def polled(*offsets: int) -> facts.Polled:
    return facts.Polled("billing", "m", "T", 0, 9, 9, offsets, offsets)


def test_each_record_counts_with_the_wait_of_its_batch() -> None:
    waits = [(6, 1)] * 90 + [(9000, 100)]
    assert ranks(waits, (0.25, 0.5, 0.99)) == [6, 9000, 9000]


def test_a_producer_that_is_held_back_is_told_with_its_silence() -> None:
    created = facts.TopicCreated(0, "T", "orders", 1, 1, 1)
    rows = [(1, acked(3, 6130)), (10.5, acked(1, 9_400_000)), (11, acked(96, 7000))]
    assert told((0, created), *rows) == [
        (
            "topic orders: 100 records acknowledged, none failed; latency p50 7 ms, p99 7 ms, max"
            " 9.4 s (orders-0, sent at +1.100s); at most 9.5 s between two acknowledgements"
            " (until +10.500s)"
        )
    ]


def test_a_failure_ends_a_silence_that_no_acknowledgement_ends() -> None:
    assert told((1, acked(1, 6000)), (30, failed(2))) == [
        (
            "topic T: 1 record acknowledged, 2 failed (REQUEST_TIMED_OUT); latency p50 6 ms,"
            " p99 6 ms, max 6 ms (T-0, sent at +0.994s); at most 29.0 s between two"
            " acknowledgements (until +30.000s)"
        )
    ]
    assert told((30, failed(2))) == [
        "topic T: 0 records acknowledged, 2 failed (REQUEST_TIMED_OUT)"
    ]


def test_a_group_is_told_with_what_it_read_again() -> None:
    assert told((1, polled(0, 1)), (1.5, polled()), (5, polled(1, 2))) == [
        (
            "group billing: 4 records read, 1 of them again; at most 4.0 s between two polls with"
            " records (until +5.000s)"
        )
    ]


def test_who_reads_without_a_group_is_named_by_his_host() -> None:
    alone = dataclasses.replace(polled(0, 1), group="")
    assert told((1, alone)) == ["host-1, in no group: 2 records read"]


def test_topics_and_groups_of_several_clusters_are_told_apart() -> None:
    created = facts.TopicCreated(0, "T", "orders", 1, 1, 1)
    lines = told((0, created), (1, acked(2, 7000)), (2, polled(0, 1)), node="a.host-1")
    assert [line.partition(", none")[0] for line in lines] == [
        "topic a:orders: 2 records acknowledged", "group billing of a: 2 records read",
    ]  # fmt: skip


def test_the_lines_stand_below_the_story(capsys) -> None:
    assert cli.invoke(["run", "consumer-crash-rebalance", "--explain"]) == 0
    *_, end, topic, group = capsys.readouterr().out.splitlines()
    assert end.endswith("the run ends: everything has converged")
    assert topic.startswith("  topic orders: 400 records acknowledged, none failed; latency p50 6")
    assert group.startswith("  group billing: 400 records read; at most ")
