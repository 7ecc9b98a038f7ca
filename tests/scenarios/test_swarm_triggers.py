"""What the swarm draws for triggers, overtaken followers and elections, and what it leaves out."""

from __future__ import annotations

import random
from collections import Counter
from typing import Any

import pytest

from kafkasim.scenarios.language.spec import parse
from kafkasim.scenarios.running.fault_schedule import drawn_faults
from kafkasim.scenarios.searching import draw as drawing
from kafkasim.scenarios.searching.chains import overtaken
from kafkasim.scenarios.searching.choices import triggers
from kafkasim.scenarios.searching.choices.effects import ONLY_KRAFT, effects
from kafkasim.scenarios.searching.draw import draw
from kafkasim.scenarios.searching.draw_faults import PURPOSES
from kafkasim.scenarios.searching.worlds import voters
from kafkasim.sim.streams import Streams


def _kind(trigger: dict[str, Any]) -> str:
    """Return the kind of a trigger, by its first property in the order of triggers.KINDS."""
    if str(trigger.get("node", "")).startswith(("leader:", "follower:", "active-")):
        return "role"
    if trigger.keys() & {"at-least", "at-most"}:
        return "bound"
    if trigger.get("fields"):
        return "fields"
    return "count" if trigger.get("count", 1) > 1 else "fact"


def test_each_kind_of_trigger_ends_as_many_faults_as_the_others(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    def ends(seeds: range) -> Counter[str]:
        faults = [fault for seed in seeds for fault in draw(seed)["faults"]]
        return Counter([_kind(fault["until"]) for fault in faults if "until" in fault])

    monkeypatch.setattr(triggers, "ENDED", 1)
    for mode in (0, 1):
        found = ends(range(mode, 400, 2))
        assert set(found) == {"fact", "fields", "role", "bound", "count"}
        assert min(found.values()) > 0.6 * max(found.values()), found


def test_a_fault_begins_at_each_kind_of_trigger(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(drawing, "seldom", lambda _seed, _data: None)  # its faults come behind
    monkeypatch.setattr(triggers, "BEGUN", 0)
    before = [draw(seed) for seed in range(300)]
    monkeypatch.setattr(triggers, "BEGUN", 1)
    found: Counter[str] = Counter()
    for seed, plain in enumerate(before):
        data = draw(seed)
        parse(data, data["name"])
        added = data["faults"][len(plain["faults"]) :]
        found.update([_kind(fault["when"]) for fault in added[:1]])
    assert set(found) == {"fact", "fields", "role", "bound", "count"}
    assert min(found.values()) > 0.5 * max(found.values()), found


def test_a_log_start_passes_a_follower_that_is_away(monkeypatch: pytest.MonkeyPatch) -> None:
    """The operator waits for a high watermark that a replica has not reached."""
    monkeypatch.setattr(overtaken, "SHARE", 1)
    ways: Counter[str] = Counter()
    for seed in range(200):
        data = draw(seed)
        parse(data, data["name"])
        factor = data["topics"][0]["replication-factor"]
        for each in data.get("operations", ()):
            if each.get("when", {}).get("at-most") == {"acknowledged": factor - 1}:
                ways[each["kind"]] += 1
                away = [fault["node"] for fault in data["faults"] if fault.get("guarded")]
                assert any(str(node).startswith("follower:orders-") for node in away)
    assert min(ways["delete-records"], ways["alter-config"]) > 20


@pytest.mark.parametrize(
    ("plan", "facts"),
    [
        (voters.candidate_removed, {"RaftRole", "VotersChanged"}),
        (voters.leader_removed, {"RaftRole"}),
        (voters.standby_comes_and_goes, {"VotersChanged"}),
    ],
)
def test_voters_change_while_an_election_runs(plan: Any, facts: set[str]) -> None:
    seen: dict[str, None] = {}
    for seed in range(60):
        rng = random.Random(seed)
        cluster: dict[str, Any] = {"controllers": 3, "config": {}, "combined": seed % 2}
        quorum = voters.Quorum(rng, cluster)
        faults, asks = plan(rng, quorum, 1000.0, "4.0")
        assert faults
        removed = [ask for ask in asks if ask["kind"] == "remove-voter"]
        assert removed
        for ask in removed:
            seen[ask["when"]["fact"]] = None
            if ask["when"]["fact"] == "RaftRole":
                assert ask["when"]["node"] == ask["node"]
        seen.update(dict.fromkeys([ask["when"]["fact"] for ask in asks if "when" in ask]))
    assert set(seen) == facts


def test_drawn_changes_in_elections_are_valid(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(voters, "ELECTIONS", 1)
    for seed in range(0, 200, 2):
        data = draw(seed)
        parse(data, data["name"])
        kinds = [each["kind"] for each in data.get("operations", ())]
        if not data["expect"].keys() & {"never", "in-time"} and "duplicate-broker" not in kinds:
            assert "remove-voter" in kinds or "add-voter" in kinds


def test_no_drawn_server_has_a_property_that_its_mode_does_not_read() -> None:
    for seed in range(300):
        config = draw(seed)["cluster"]["config"]
        foreign = ONLY_KRAFT if seed % 2 else ("inter.broker.protocol.version",)
        assert not config.keys() & set(foreign), seed


def test_some_clusters_have_an_old_metadata_version() -> None:
    drawn = [draw(seed) for seed in range(0, 1000, 2)]
    levels = [data["cluster"].get("features", {}).get("metadata.version", 25) for data in drawn]
    assert 15 < sum(level < 25 for level in levels) < 100
    assert min(levels) == 7


def _with(workload: list[dict[str, Any]], fault: dict[str, Any], **cluster: Any) -> dict[str, Any]:
    return {
        "cluster": {"config": {}, **cluster},
        "topics": [{"name": "orders", "partitions": 1, "replication-factor": 3, "config": {}}],
        "workload": workload,
        "faults": [fault],
        "expect": {},
    }


CLASSIC = {"kind": "consumer-group", "group": "billing", "config": {}}
MODERN = {**CLASSIC, "config": {"group.protocol": "consumer"}}
OLD = {**CLASSIC, "protocol": "zookeeper"}
RECONCILING = {"fact": "GroupState", "fields": {"state": "Reconciling"}}
JOINING = {"fact": "MemberRequest", "fields": {"api": "JoinGroup"}}


@pytest.mark.parametrize(
    ("group", "when", "stays"),
    [
        (CLASSIC, RECONCILING, False),
        (MODERN, RECONCILING, True),
        (MODERN, JOINING, False),
        (CLASSIC, JOINING, True),
        (OLD, {"fact": "OffsetCommitted"}, False),
        (CLASSIC, {"fact": "TransactionOffsets"}, False),
        (CLASSIC, {"fact": "BecameLeader"}, True),
    ],
)
def test_a_trigger_that_nobody_records_gives_way(
    group: dict[str, Any], when: dict[str, Any], stays: bool
) -> None:
    data = _with([group], {"kind": "crash", "node": "@node", "for": "1s", "when": when})
    effects(random.Random(1), data, "kraft")
    assert (data["faults"][0]["when"] == when) is stays


@pytest.mark.parametrize(
    ("group", "api", "protocol", "held"),
    [
        (CLASSIC, "AlterPartition", "2.6", "ZkOperation"),
        (CLASSIC, "AlterPartition", None, "AlterPartition"),
        (CLASSIC, "JoinGroup", None, "JoinGroup"),
        (MODERN, "JoinGroup", None, "ConsumerGroupHeartbeat"),
    ],
)
def test_an_api_that_nobody_sends_gives_way(
    group: dict[str, Any], api: str, protocol: str | None, held: str
) -> None:
    config = {} if protocol is None else {"inter.broker.protocol.version": protocol}
    fault = {"kind": "hold", "node": "broker-1", "api": api, "at": "1s", "for": "1s"}
    data = _with([group], fault, mode="zookeeper", config=config)
    effects(random.Random(1), data, "zookeeper")
    assert data["faults"][0]["api"] == held


def test_a_nemesis_cuts_connections_of_its_mode() -> None:
    found: Counter[str] = Counter()
    for seed in range(1, 600, 2):
        scenario = parse(draw(seed), "drawn")
        for table, faults in zip(
            scenario.faults, drawn_faults(scenario, Streams(seed)), strict=True
        ):
            cuts = [
                each for each in faults if (table.kind, each.kind) == ("nemesis", "cut-purpose")
            ]
            found.update([dict(cut.parameters)["purpose"] for cut in cuts])
    assert {"controller", "zookeeper"} <= set(found) <= set(PURPOSES["zookeeper"])


def test_retention_begins_within_a_run_wherever_records_expire() -> None:
    """2.8 waits for 30 s, whatever its settings are."""
    delays: dict[int, None] = {}
    for seed in range(1000):
        data = draw(seed)
        changed = [each for each in data.get("operations", ()) if each["kind"] == "alter-config"]
        kept = [each.get("config", {}).get("retention.ms", -1) for each in changed]
        if max(kept, default=-1) > 0 and not data["expect"].keys() & {"never", "in-time"}:
            delay = data["cluster"]["config"].get("log.initial.task.delay.ms", 30_000)
            delays[delay] = None
            old = data["cluster"].get("kafka-version") == "2.8-zk"
            assert (delay == 30_000) is old, seed
    assert len(delays) > 2
