"""Several clusters in one run: each is what it is alone, and only what crosses a cut link stops."""

from __future__ import annotations

import copy
from pathlib import Path
from typing import Any

import pyarrow.parquet as pq
import pytest

from kafkasim.analysis.judging.courts import judge_stored
from kafkasim.analysis.judging.finding import Finding
from kafkasim.analysis.judging.stored import facts_of
from kafkasim.analysis.judging.verdict import Result
from kafkasim.scenarios.cli import invoke
from kafkasim.scenarios.commands.places import cluster_directories
from kafkasim.scenarios.language.spec import ScenarioError, parse
from kafkasim.scenarios.running.replay import replay
from kafkasim.scenarios.running.runner import run
from kafkasim.sim.net.topology import Topology
from kafkasim.sim.trace.recording import Trace
from kafkasim.sim.trace.store import TRACE_FILE, read_manifest
from kafkasim.sim.world import World

SAFE: dict[str, Any] = {
    "name": "a",
    "site": "frankfurt",
    "cluster": {"controllers": 1},
    "topics": [{"name": "orders", "partitions": 2, "replication-factor": 3}],
    "workload": [{"kind": "producer", "rate": "20/s"}, {"kind": "consumer-group"}],
}
LOSES: dict[str, Any] = {
    "name": "b",
    "site": "dublin",
    "cluster": {"controllers": 1},
    "topics": [{"name": "orders", "replication-factor": 3}],
    "workload": [{"kind": "producer", "rate": "20/s", "config": {"acks": "1"}}],
    "faults": [
        {"kind": "partition", "node": "leader:orders-0", "at": "1s", "for": "12s",
         "peers": ["broker-1", "broker-2", "broker-3", "controller-1"]},
    ],
    "expect": {"permits": ["lost-write"]},
}  # fmt: skip
CUT = {"kind": "partition", "node": "frankfurt", "peers": ["dublin"], "at": "2s", "for": "3s"}


def several(*clusters: dict[str, Any], **keys: Any) -> dict[str, Any]:
    link = {"sites": ["frankfurt", "dublin"], "latency": "12ms", "bandwidth": "1Gbit/s"}
    links = {"links": [link]} if len(clusters) > 1 else {}
    return {"name": "several", "claim": "c", "duration": "14s", "clusters": [*clusters], **links,
            **keys}  # fmt: skip


def result_of(data: dict[str, Any], directory: Path) -> Result:
    return run(parse(data, "several"), 1, directory)


def rows_of(cluster: str, directory: Path) -> list[tuple[int, str, Any]]:
    facts = facts_of(pq.read_table(directory / TRACE_FILE))
    return [(t, node, fact) for _, t, node, fact in facts if node.startswith(f"{cluster}.")]


@pytest.mark.slow
def test_a_cluster_beside_another_one_is_what_it_is_alone(tmp_path: Path) -> None:
    both = result_of(several(SAFE, LOSES, faults=[CUT]), tmp_path / "both")
    safe = result_of(several(SAFE), tmp_path / "a")
    loses = result_of(several({**SAFE, "workload": []}, LOSES), tmp_path / "b")
    assert rows_of("a", tmp_path / "both") == rows_of("a", tmp_path / "a")
    assert rows_of("b", tmp_path / "both") == rows_of("b", tmp_path / "b")
    assert (safe.verdict, loses.verdict, both.verdict) == ("pass", "expected", "expected")
    assert [(each.name, each.offset, each.record_id) for each in both.findings] == [
        (each.name, each.offset, each.record_id) for each in loses.findings
    ]
    assert {both.topics[each.topic_id] for each in both.findings} == {"b:orders"}
    assert replay(tmp_path / "both").identical
    stored = facts_of(pq.read_table(tmp_path / "both" / TRACE_FILE))
    assert judge_stored(read_manifest(tmp_path / "both"), stored) == both.findings


@pytest.mark.slow
def test_a_run_of_several_clusters_is_shown_cluster_by_cluster(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    both = result_of(several(SAFE, LOSES), tmp_path / "both")
    result_of(several({**SAFE, "workload": []}, LOSES), tmp_path / "b")
    with cluster_directories(tmp_path / "both") as shown, \
            cluster_directories(tmp_path / "b", cluster="b") as alone:  # fmt: skip
        manifests = {name: read_manifest(each) for name, each in shown.items()}
        facts, others = (
            [
                row[1:]
                for row in facts_of(pq.read_table(each["b"] / TRACE_FILE))
                if row[2] != "world"
            ]
            for each in (shown, alone)
        )
    assert facts == others
    assert [(name, each["verdict"]) for name, each in manifests.items()] == [
        ("a", "pass"), ("b", "expected"),
    ]  # fmt: skip
    assert [Finding(**each) for each in manifests["b"]["findings"]] == both.findings
    assert set(manifests["b"]["topics"].values()) == {"orders"}
    capsys.readouterr()
    place = str(tmp_path / "both")
    assert invoke(["describe", place, "log-dirs", "--cluster", "b", "--topic", "orders"]) == 0
    assert '"size":null' not in capsys.readouterr().out
    assert invoke(["explain", place]) == 0
    told = capsys.readouterr().out
    assert told.startswith("cluster a:\nnothing to explain: the run shows no anomaly\ncluster b:\n")
    assert invoke(["explain", place, "--cluster", "c"]) == 2
    assert (
        capsys.readouterr().err == "kafkasim: error: --cluster c: the run has the clusters a, b\n"
    )
    assert invoke(["report", place, "--out", str(tmp_path / "page.html")]) == 0
    page = (tmp_path / "page.html").read_text()
    assert [f"several, seed 1: cluster {name}" in page for name in "abc"] == [True, True, False]


@pytest.mark.slow
def test_a_lost_site_takes_its_cluster_with_it_and_no_other(tmp_path: Path) -> None:
    loss = {"kind": "rack-loss", "rack": "dublin", "at": "3s", "for": "4s"}
    lost = result_of(several(SAFE, {**LOSES, "faults": []}, faults=[loss]), tmp_path / "both")
    result_of(several(SAFE), tmp_path / "a")
    end_us = lost.ready_us + 14_000_000  # then each run lasts until its clusters have converged
    both, alone = (
        [row for row in rows_of("a", tmp_path / name) if row[0] < end_us] for name in ("both", "a")
    )
    assert both == alone
    rows = rows_of("b", tmp_path / "both")
    assert [node for _, node, fact in rows if type(fact).__name__ == "HostStopped"] == [
        "b.controller-1", "b.broker-1", "b.broker-2", "b.broker-3", "b.producer-1", "b.admin-1",
    ]  # fmt: skip


@pytest.mark.parametrize(
    ("path", "value", "line"),
    [
        (
            "topics",
            [{"name": "t"}],
            "topics: each of the clusters has its own; write clusters.topics",
        ),
        ("clusters.1.name", "a", "clusters.1.name: two clusters are called 'a'"),
        ("clusters.0.workload.0.topic", "x", "clusters.0.workload.0.topic: no topic 'x'"),
        (
            "clusters.0.size",
            3,
            "clusters.0.size: unknown key; allowed: acls, cluster, expect, faults",
        ),
        ("clusters.0.expect", {"within": "1s"}, "clusters.0.expect.within: write expect.within"),
        ("expect", {"never": ["fenced"]}, "expect.never: each of the clusters has its own"),
        ("links.0.sites", ["frankfurt", "x"], "links.0.sites: no site 'x'; allowed: frankfurt"),
        ("links.0.latency", "0s", "links.0.latency: allowed: more than 0s"),
        ("links.0.bandwidth", "1Mbit/s", "links.0.bandwidth: '1Mbit/s' is too little"),
        ("faults.0.node", "leader:orders-0", "faults.0.node: no site, cluster or host 'leader:"),
        ("faults.0.kind", "nemesis", "faults.0.kind: a nemesis strikes one cluster"),
    ],
)
def test_what_is_wrong_is_named_with_its_cluster(path: str, value: Any, line: str) -> None:
    data = copy.deepcopy(several(SAFE, LOSES, faults=[CUT]))
    place: Any = data
    *parents, last = path.split(".")
    for parent in parents:
        place = place[int(parent) if parent.isdigit() else parent]
    place[last] = value
    with pytest.raises(ScenarioError) as refused:
        parse(data, "x.toml")
    assert str(refused.value).startswith(f"x.toml: {line}")


def test_a_scenario_of_one_cluster_has_no_links() -> None:
    data = {"name": "one", "claim": "c", "duration": "1s", "links": several(SAFE, LOSES)["links"]}
    with pytest.raises(ScenarioError, match="links: are between several clusters"):
        parse(data, "x.toml")


def test_commands_for_one_cluster_say_so(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    path = tmp_path / "several.toml"
    path.write_text('name = "x"\nclaim = "c"\nduration = "1s"\n[[clusters]]\nname = "a"\n')
    assert invoke(["search", str(path)]) == 2
    assert (
        capsys.readouterr().err
        == "kafkasim: error: x has the clusters a; search takes one cluster\n"
    )


def test_names_in_a_part_of_a_world_are_its_own() -> None:
    world = World(1, Trace(), Topology())
    a, b = (world.part(name, dc, world.trace) for name, dc in (("a", "one"), ("b", "two")))
    hosts = [part.add_host("broker-1", rack="r") for part in (a, b)]
    assert [host.card.name for host in hosts] == ["a.broker-1", "b.broker-1"]
    assert [part.link_faults.resolve("broker-1") for part in (a, b)] == [("broker-1",)] * 2
    assert a.link_faults.resolve("r") == ("broker-1",)
    assert world.link_faults.resolve(["two", "a.broker-1"]) == ("b.broker-1", "a.broker-1")
    assert (world.host("a.broker-1"), a.host("broker-1")) == (hosts[0], hosts[0])
    rule = a.link_faults.isolate("broker-1")
    b.link_faults.heal()
    assert (rule.active, world.network.paths.rules) == (True, [rule])
