"""Mirrors: what the judges say of hand-written facts, and of whole runs."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from typing import Any

import pyarrow.parquet as pq
import pytest

from kafkasim.analysis.judging.courts import StoredTrace, judge_stored
from kafkasim.analysis.judging.mirrors import Mirrored, MirrorSettings
from kafkasim.analysis.judging.stored import facts_of
from kafkasim.model import facts
from kafkasim.scenarios.language import library
from kafkasim.scenarios.language.spec import ScenarioError, parse
from kafkasim.scenarios.running.runner import ScenarioRun, run
from kafkasim.sim.trace.store import TRACE_FILE, read_manifest

POLICY = "org.apache.kafka.connect.mirror.DefaultReplicationPolicy"
MIRROR = MirrorSettings("mirror-1", "a", "b", POLICY, ".")
Row = tuple[str, Any]


def log_of(topic_id: str, ids: tuple[int, ...], start: int) -> facts.FinalReplica:
    """Return a leader's log with one batch."""
    n, end = len(ids), start + len(ids)
    return facts.FinalReplica(
        topic_id, 0, True, 0, start, end, end, end, (0, 0), (start,), (n,), (0,), (-1,), (-1,),
        (n,), ids,
    )  # fmt: skip


def judged(
    *rows: Row,
    source: tuple[int, ...],
    target: tuple[int, ...],
    lag: int = 1,
    mirror: MirrorSettings = MIRROR,
    start: int = 0,
) -> Mirrored:
    """Return the judge of a mirror that has read all of a source, whose offsets begin at 0.

    The facts are a µs apart; ``rows`` begin ``lag`` µs after the read.
    """
    trace = StoredTrace()
    made = Mirrored(trace, [mirror])
    read = tuple(range(len(source)))
    every: list[Row] = [
        ("a.controller-1", facts.TopicCreated(1, "A", "orders", 1, 1, 1)),
        ("b.controller-1", facts.TopicCreated(1, "B", "a.orders", 1, 1, 1)),
        ("mirror-1", facts.Polled("", "", "A", 0, len(source), -1, read, source)),
        *rows,
        ("b.broker-1", log_of("B", target, start)),
    ]
    later = 3  # the rows
    trace.feed([(seq, seq + lag * (seq >= later), *row) for seq, row in enumerate(every)])
    return made


def names(made: Mirrored) -> list[tuple[str, int, int]]:
    return [(each.name, each.count, each.offset) for each in made.finish()]


def checkpoint(offset: int, downstream: int) -> Row:
    return "mirror-1", facts.CheckpointEmitted("g", "orders", 0, offset, downstream)


def test_a_whole_copy_in_order_is_right_and_may_have_records_twice() -> None:
    made = judged(source=(10, 11, 12), target=(10, 11, 10, 11, 12))
    assert names(made) == []
    assert made.figures()[0].startswith("mirror a->b: 3 records are in b, 2 of them more than once")


@pytest.mark.parametrize(("committed", "told"), [(True, "3 of them"), (False, "0 of them")])
def test_what_a_transaction_has_aborted_is_no_copy(committed: bool, told: str) -> None:
    """Records 10 to 12 are copied by producer 7, which is fenced, and again by another one."""
    ids = (10, 11, 12)
    final = facts.FinalReplica(
        "B", 0, True, 0, 0, 7, 7, 7, (0, 0), (0, 3, 4), (3, 4, 7), (0, 0, 0), (7, 7, 8),
        (0, -1, 0), (3, 0, 3), (*ids, *ids),
    )  # fmt: skip
    marker = facts.MarkerWritten("B", 0, 7, 1, committed, 3, 0, 0)
    made = judged(("b.broker-1", marker), source=ids, target=())
    made.on_FinalReplica(9, 9, "b.broker-1", final)
    (line,) = made.figures()
    assert (names(made), told in line) == ([], True)


@pytest.mark.parametrize(("replay_us", "found"), [(0, []), (5, []), (4, [("mirror-replay", 1, 0)])])
def test_a_task_copies_again_only_what_was_not_committed_yet(
    replay_us: int, found: list[Any]
) -> None:
    """The copies of two records are acknowledged 5 µs apart, and both are read again."""
    copies = [facts.Acked("B", 0, n, (10 + n,), -1, -1, -1, -1, 5, 1) for n in (0, 1)]
    waits = [("world", facts.Phase("safety", ""))] * 4
    again = facts.Polled("", "", "A", 0, 2, -1, (0, 1), (10, 11))
    rows = [("mirror-1", copies[0]), *waits, ("mirror-1", copies[1]), ("mirror-1", again)]
    mirror = replace(MIRROR, replay_us=replay_us)
    assert names(judged(*rows, source=(10, 11), target=(10, 11), mirror=mirror)) == found


def test_a_record_that_was_passed_over_is_a_gap_and_one_at_the_end_is_not() -> None:
    assert names(judged(source=(10, 11, 12, 13), target=(10, 12))) == [("mirror-gap", 1, 1)]


def test_what_the_source_removed_before_it_was_read_is_no_gap_and_is_counted() -> None:
    rows = [
        ("a.producer-1", facts.Acked("A", 0, 3, (13, 14, 15), -1, -1, -1, -1, 5, 1)),
        ("a.broker-1", facts.LogStart("A", 0, 4, "retention", 4, 6)),
        ("a.broker-1", facts.Cleaned("A", 0, 4, 5, 4, 6, 0, 0, (4, 5))),
        ("mirror-1", facts.Polled("", "", "A", 0, 6, -1, (5,), (15,))),
    ]
    made = judged(*rows, source=(10, 11, 12), target=(10, 11, 12, 15))
    assert names(made) == []
    assert made.figures()[0].endswith("a had removed 2 before they were read")
    assert names(judged(rows[0], rows[3], source=(10, 11, 12), target=(10, 11, 12, 15))) == [
        ("mirror-gap", 2, 3)
    ]


def test_what_the_target_has_removed_is_no_gap_and_a_group_that_begins_behind_it_skips_it() -> None:
    copies = facts.Acked("B", 0, 0, (10, 11, 12), -1, -1, -1, -1, 5, 1)
    rows = [
        ("mirror-1", copies),
        ("b.broker-1", facts.LogStart("B", 0, 2, "retention", 2, 3)),
        ("a.consumer-1", facts.Processed("g", "consumer-1", "A", 0, 0, 1)),
        ("b.consumer-1", facts.Positioned("g", "consumer-1", "B", 0, 2, "earliest")),
    ]
    made = judged(*rows, source=(10, 11, 12), target=(12,), start=2)
    assert names(made) == [("skipped-at-failover", 1, 1)]
    assert made.figures()[0].startswith("mirror a->b: 1 records are in b, 0 of them more than once")
    assert made.figures()[0].endswith("b has removed 2 since they were copied")
    at_home: Row = ("a.broker-1", facts.LogStart("A", 0, 2, "retention", 2, 3))  # there, too
    assert names(judged(*rows, at_home, source=(10, 11, 12), target=(12,), start=2)) == []


SETTLED = replace(MIRROR, settled_us=10, offset_lag_max=1)


@pytest.mark.parametrize(
    ("mirror", "rows", "found"),
    [(SETTLED, [checkpoint(3, 3)], []),  # at the end of what is mirrored: nothing again
     (SETTLED, [checkpoint(3, 2)], [("checkpoint-behind", 1, 2)]),
     (SETTLED, [], [("checkpoint-behind", 3, 0)]),
     (SETTLED, [("world", facts.FaultStarted("crash", "mirror-1"))], []),  # it lasts
     (replace(SETTLED, settled_us=99), [], []),  # it may come yet
     (MIRROR, [], []),  # checkpoints are switched off
     (replace(SETTLED, groups="h"), [], [])],
)  # fmt: skip
def test_a_group_that_stands_still_has_a_checkpoint_that_is_near(
    mirror: MirrorSettings, rows: list[Row], found: list[Any]
) -> None:
    commit = facts.OffsetCommitted("g", "orders", 0, 3, -1, "", 0)
    rest = [("a.broker-1", commit), *rows, *[("world", facts.Phase("end", ""))] * 20]
    made = judged(*rest, source=(10, 11, 12), target=(10, 11, 12), mirror=mirror)
    assert names(made) == found


def test_a_group_that_has_committed_and_processed_nothing_fails_over_too() -> None:
    rows = [
        ("a.broker-1", facts.OffsetCommitted("g", "orders", 0, 0, -1, "", 0)),
        ("b.consumer-1", facts.Positioned("g", "consumer-1", "B", 0, 3, "latest")),
    ]
    made = judged(*rows, source=(10, 11, 12), target=(10, 11, 12))
    assert names(made) == [("skipped-at-failover", 3, 0)]


def test_a_record_in_front_of_its_predecessor_is_in_disorder() -> None:
    assert names(judged(source=(10, 11, 12), target=(10, 12, 11))) == [("mirror-disorder", 1, 2)]


def test_a_translated_offset_has_every_record_behind_it_that_the_group_has_not_read() -> None:
    right = judged(checkpoint(1, 1), source=(10, 11, 12), target=(10, 11, 12))
    wrong = judged(checkpoint(1, 2), source=(10, 11, 12), target=(10, 11, 12))
    assert (names(right), names(wrong)) == ([], [("translated-past", 1, 1)])


def test_a_group_that_goes_on_in_a_second_copy_skips_nothing() -> None:
    """A mirror that dies before it commits source offsets copies its records once more."""
    log, twice = (10, 11, 12), (10, 11, 12, 10, 11, 12)
    right = judged(checkpoint(1, 4), source=log, target=twice)
    wrong = judged(checkpoint(1, 5), source=log, target=twice)
    assert (names(right), names(wrong)) == ([], [("translated-past", 1, 1)])


@pytest.mark.parametrize(
    ("offset", "downstream", "found"),
    [
        (1200, 1090, []),  # 110 are read again: a sync is as old as that, with what is on its way
        (1200, 1089, [("needless-reread", 111, 1089)]),
        (1000, 90, []),  # and four for each of the 200 that the group is behind
        (1000, 89, [("needless-reread", 911, 89)]),
    ],
)
def test_a_translated_offset_is_not_further_back_than_the_syncs_make_it(
    offset: int, downstream: int, found: list[Any]
) -> None:
    log = tuple(range(5000, 6200))
    last = facts.Polled("", "", "A", 0, 1200, -1, tuple(range(1190, 1200)), log[1190:])
    later: Row = ("mirror-1", last)
    made = judged(later, checkpoint(offset, downstream), source=log, target=log, lag=1_000_010)
    assert names(made) == found


def test_a_checkpoint_goes_back_only_with_its_group() -> None:
    log = (10, 11, 12)
    right = judged(checkpoint(2, 2), checkpoint(1, 1), source=log, target=log)
    wrong = judged(checkpoint(1, 1), checkpoint(2, 0), source=log, target=log)
    assert (names(right), names(wrong)) == ([], [("checkpoint-regression", 1, -1)])


@pytest.mark.parametrize(
    ("start", "found", "told"),
    [(1, [], "1 records read again, 0 skipped"), (2, [], "0 records read again, 0 skipped"),
     (3, [("skipped-at-failover", 1, 2)], "0 records read again, 1 skipped")],
)  # fmt: skip
def test_a_group_that_fails_over_skips_nothing(start: int, found: list[Any], told: str) -> None:
    rows = [
        ("a.consumer-1", facts.Processed("g", "consumer-1", "A", 0, 0, 2)),
        ("b.consumer-1", facts.Positioned("g", "consumer-1", "B", 0, start, "committed")),
    ]
    made = judged(*rows, source=(10, 11, 12, 13), target=(10, 11, 12, 13))
    assert names(made) == found
    assert made.figures()[1] == f"group g fails over to b: {told}"


def test_what_is_acknowledged_and_not_mirrored_is_counted() -> None:
    acked = facts.Acked("A", 0, 0, (10, 11, 12), -1, -1, -1, -1, 5, 1)
    made = judged(("a.producer-1", acked), source=(10,), target=(10,))
    assert names(made) == []
    assert made.figures()[0].endswith("2 that a has acknowledged are not (RPO)")


@pytest.mark.slow
def test_a_group_goes_on_in_the_other_data_centre(tmp_path: Path) -> None:
    scenario, _ = library.scenario("mirror-failover")
    result = run(scenario, 1, tmp_path)
    assert (result.verdict, result.anomalies) == ("expected", ["no-progress"])
    assert result.remarks[-1].endswith(" 0 skipped")
    stored = facts_of(pq.read_table(tmp_path / TRACE_FILE))
    assert judge_stored(read_manifest(tmp_path), stored) == result.findings


@pytest.mark.slow
def test_a_mirror_that_crashes_copies_on_and_a_cut_link_stops_it_only_while_it_lasts() -> None:
    scenario, _ = library.scenario("B104-extrapolated-translation")
    data = scenario.model_dump(mode="json", by_alias=True)
    data["mirrors"][0]["config"]["offset.flush.interval.ms"] = 4000
    data["faults"] = [
        {"kind": "crash", "node": "mirror-1", "at": "9s", "for": "1s"},
        {"kind": "partition", "node": "a", "peers": ["mirror-1"], "at": "14s", "for": "3s"},
    ]
    again = ["duplicate"]  # at least once
    data["clusters"][1]["expect"] = {"permits": again}
    result = run(parse(data, "mirror"), 1)
    assert (result.verdict, result.anomalies, result.missing) == ("expected", again, [])
    (told,) = [each for each in result.remarks if each.startswith("mirror a->b")]
    copied, twice = (int(text.split()[0]) for text in told.split(": ")[1].split(" b, "))
    assert copied > 450
    assert 0 < twice < 200  # since the last commit of source offsets
    assert told.endswith(" 0 that a has acknowledged are not (RPO)")


def test_heartbeats_are_in_both_clusters_and_those_of_the_source_come_with_the_records(
    tmp_path: Path,
) -> None:
    config = {"refresh.topics.interval.seconds": 3, "emit.heartbeats.interval.seconds": 2}
    result = run(parse(one_way(config), "x.toml"), 1, tmp_path)
    (told,) = result.remarks  # heartbeats are none of the records that it counts
    assert (result.verdict, told.partition(" them")[0]) == (
        "pass", "mirror a->b: 60 records are in b, 0 of",
    )  # fmt: skip
    found = heartbeats(tmp_path)
    assert sorted(found) == ["a heartbeats", "b a.heartbeats", "b heartbeats"]
    sent, mirrored = found["a heartbeats"], found["b a.heartbeats"]
    assert (len(sent), len(found["b heartbeats"])) == (5, 5)  # in 12 s
    assert sent[: len(mirrored)] == mirrored
    assert len(sent) - len(mirrored) <= 1  # the last one may be on its way


def test_without_emit_heartbeats_enabled_the_topic_is_there_and_empty(tmp_path: Path) -> None:
    """MirrorHeartbeatConnector.start, taskConfigs."""
    run(parse(one_way({"emit.heartbeats.enabled": False}), "x.toml"), 1, tmp_path)
    assert heartbeats(tmp_path) == {"b heartbeats": ()}


def test_settings_partitions_and_entries_of_home_come_to_the_mirrored_topic() -> None:
    seconds = {f"sync.topic.{each}.interval.seconds": 2 for each in ("configs", "acls")}
    data = one_way({**seconds, "refresh.topics.interval.seconds": 2})
    authorizer = "org.apache.kafka.metadata.authorizer.StandardAuthorizer"
    config = {"authorizer.class.name": authorizer, "super.users": "User:kafka"}
    for cluster in data["clusters"]:
        cluster["cluster"] = {"controllers": 1, "principal": "User:kafka", "config": config}
    home = data["clusters"][0]
    home["workload"][0]["principal"] = "User:alice"
    home["topics"][0]["config"] = {"segment.ms": 9000}
    home["acls"] = [{"allow": "User:alice", "operations": ["write", "read"], "topic": "t"}]
    changed = {"retention.ms": 5_000_000, "min.insync.replicas": 2}
    home["operations"] = [
        {"kind": "create-partitions", "topic": "t", "partitions": 2, "at": "4s"},
        {"kind": "alter-config", "topic": "t", "config": changed, "at": "4s"},
    ]
    data["mirrors"][0]["principal"] = "User:kafka"
    made = ScenarioRun(parse(data, "x.toml"), 1, None, ())
    assert made.execute().verdict == "pass"
    (broker, *_) = made.members["b"].cluster.brokers
    image = broker.process.kafka.image
    assert image.configs["a.t"] == {"segment.ms": "9000", "retention.ms": "5000000"}
    assert len(image.topic_by_name("a.t").partitions) == 2
    entries = [(each.name, each.principal, each.operation) for each in image.acls.values()]
    assert entries == [("a.t", "User:alice", "read")]


def test_offset_syncs_may_be_in_the_target_and_clients_have_settings_of_their_own(
    tmp_path: Path,
) -> None:
    given = {"offset-syncs.topic.location": "target", "source.consumer.max.poll.records": 1}
    run(parse(one_way({**given, "producer.override.acks": "0"}), "x.toml"), 1, tmp_path)
    rows = list(facts_of(pq.read_table(tmp_path / TRACE_FILE)))
    created = [(node[0], f.topic) for _, _, node, f in rows if isinstance(f, facts.TopicCreated)]
    assert ("b", "mm2-offset-syncs.a.internal") in created
    assert ("a", "mm2-offset-syncs.b.internal") not in created
    polls = [len(f.record_ids) for _, _, node, f in rows
             if node == "mirror-1" and isinstance(f, facts.Polled)]  # fmt: skip
    assert max(polls) == 1
    assert not any(isinstance(f, facts.OffsetSynced) for *_, f in rows)  # with acks=0 none is known


def test_each_direction_has_its_heartbeats_from_one_mirror() -> None:
    there = [flow for _, flow in both_ways().mirrors._flows]
    alone = [flow for _, flow in ScenarioRun(parse(one_way({}), "x"), 1, None, ()).mirrors._flows]
    assert [each.emits_back for each in (*there, *alone)] == [False, False, True]


def one_way(config: dict[str, Any]) -> dict[str, Any]:
    """Return two clusters of three brokers, and a mirror from a to b."""
    topics = [{"name": "t", "replication-factor": 3}]
    clusters: list[dict[str, Any]] = [{"name": each, "topics": topics} for each in ("a", "b")]
    clusters[0]["workload"] = [{"kind": "producer", "rate": "5/s"}]
    mirrors = [{"source": "a", "target": "b", "config": config}]
    data = {"name": "m", "claim": "c", "duration": "10s", "clusters": clusters}
    return {**data, "mirrors": mirrors}


def heartbeats(place: Path) -> dict[str, tuple[int, ...]]:
    """Return the ids of the records in heartbeats topics at the end, by cluster and topic."""
    names: dict[str, str] = {}
    found: dict[str, tuple[int, ...]] = {}
    for _, _, node, fact in facts_of(pq.read_table(place / TRACE_FILE)):
        if isinstance(fact, facts.TopicCreated) and fact.topic.endswith("heartbeats"):
            names[fact.topic_id] = f"{node.partition('.')[0]} {fact.topic}"
        if isinstance(fact, facts.FinalReplica) and fact.leading and fact.topic_id in names:
            found[names[fact.topic_id]] = fact.record_ids
    return found


@pytest.mark.parametrize(
    ("lasting", "asked"),
    [([], ["b", "a"]),
     ([(["a.broker-1"], [])], []),  # a cluster of both mirrors is gone
     ([(["a.broker-1"], ["mirror-1"])], ["a"]),  # the first one cannot read any more
     ([(["a.broker-1"], ["c.broker-1"])], ["b", "a"])],
)  # fmt: skip
def test_a_fault_that_lasts_excuses_the_mirrors_that_it_hits(
    lasting: list[tuple[list[str], list[str]]], asked: list[str]
) -> None:
    assert list(both_ways().mirrors.waits(lasting)) == asked


def test_a_mirror_that_lags_says_so_in_one_sentence_and_a_trace_of_the_target_keeps_it() -> None:
    made = both_ways()
    source = made.members["a"].progress
    source.topics["A"] = facts.TopicCreated(1, "A", "t", 1, 3, 1)
    source.exposed["A", 0] = (0, 6)
    (wait,) = made.mirrors.waits([])["b"]
    sentence = "mirror-1 (a->b) is at 0 of 6 in t-0 of a: lag 6, 0 records are not acknowledged"
    assert str(wait) == sentence
    target = made.members["b"].court.standstill
    target.on_Waiting(0, 0, "world", wait.fact(0))
    assert [each.text for each in target.finish()] == [sentence]


def both_ways() -> ScenarioRun:
    """Return a run of two clusters with a mirror each way; it has not begun."""
    topics = [{"name": "t", "replication-factor": 3}]
    clusters = [{"name": name, "topics": topics} for name in ("a", "b")]
    mirrors = [{"source": "a", "target": "b"}, {"source": "b", "target": "a"}]
    data = {"name": "m", "claim": "c", "duration": "1s", "clusters": clusters, "mirrors": mirrors}
    return ScenarioRun(parse(data, "x.toml"), 1, None, ())


@pytest.mark.parametrize(
    ("mirror", "line"),
    [
        ({"source": "x", "target": "b"}, "mirrors.0.source: no cluster 'x'; allowed: a, b"),
        ({"source": "a", "target": "a"}, "mirrors.0.target: give another cluster than the source"),
        ({"source": "a", "target": "b", "config": {"offset.lag.max": -1}},
         "mirrors.0.config.offset.lag.max: -1 is below 0"),
        ({"source": "a", "target": "b", "config": {"source.consumer.max.poll.records": 0}},
         "mirrors.0.config.source.consumer.max.poll.records: 0 is below 1"),
        ({"source": "a", "target": "b", "config": {"tasks.max": 2}},
         ("mirrors.0.config.tasks.max: a node without a group has no use for it; allowed: with"
          " workers")),
    ],
)  # fmt: skip
def test_a_wrong_mirror_is_refused(mirror: dict[str, Any], line: str) -> None:
    topics = [{"name": "t", "replication-factor": 3}]
    clusters = [{"name": name, "topics": topics} for name in ("a", "b")]
    data = {"name": "m", "claim": "c", "duration": "1s", "clusters": clusters, "mirrors": [mirror]}
    with pytest.raises(ScenarioError) as refused:
        parse(data, "x.toml")
    assert str(refused.value) == f"x.toml: {line}"
