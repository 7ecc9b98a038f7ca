"""Scenarios about one part of Kafka: who is in them, and what happens to them again and again."""

from __future__ import annotations

from collections import Counter
from typing import Any

import pytest

from kafkasim.scenarios.cli import invoke
from kafkasim.scenarios.language.spec import parse
from kafkasim.scenarios.language.units import duration_us
from kafkasim.scenarios.searching.about.parts import ONLY_KRAFT, PARTS, draw_about, mode_about
from kafkasim.scenarios.searching.search import Swarm, examine

SEEDS = range(120)


def _drawn(part: str) -> list[dict[str, Any]]:
    return [draw_about(part, seed) for seed in SEEDS]


def _coordinated(data: dict[str, Any]) -> list[dict[str, Any]]:
    return [each for each in data["workload"] if each["kind"] == "consumer-group"]


@pytest.mark.parametrize("part", PARTS)
def test_every_scenario_is_valid_and_the_same_each_time(part: str) -> None:
    for seed, data in zip(SEEDS, _drawn(part), strict=True):
        scenario = parse(data, data["name"])
        assert scenario.cluster.mode == mode_about(part, seed) == Swarm(part).mode(seed)
        assert data == draw_about(part, seed)
    modes = Counter(mode_about(part, seed) for seed in SEEDS)
    assert modes["zookeeper"] == (0 if part in ONLY_KRAFT else 60)


@pytest.mark.parametrize("part", PARTS)
def test_few_encounters_come_again_until_the_end(part: str) -> None:
    early = 0
    for data in _drawn(part):
        faults = data["faults"]
        kinds = {(each["kind"], each.get("api"), each.get("direction")) for each in faults}
        assert len(kinds) <= min(18, len(faults)), (data["name"], kinds)
        ends = duration_us(data["duration"])
        begins = [duration_us(each["when"]["after"]) for each in faults if "when" in each]
        begins += [duration_us(each["at"]) for each in faults if "when" not in each]
        assert max(begins) > ends / 2, data["name"]
        early += min(begins) < ends / 2  # hardly ever all of them have a late drawn time
    assert early > 0.98 * len(SEEDS)


def test_what_waits_for_one_fact_of_an_encounter_begins_with_it() -> None:
    together = 0
    for data in _drawn("transactions"):
        waiting = [each["when"] for each in data["faults"] if "when" in each]
        counts: dict[str, int] = {}
        for when in waiting:
            fact = str({key: value for key, value in when.items() if key != "count"})
            assert counts.setdefault(fact, when["count"]) == when["count"], (data["name"], when)
        together += len(waiting) > len(counts)
    assert together > len(SEEDS) / 2


def test_all_producers_of_transactions_have_them_and_some_runs_have_processors() -> None:
    drawn = _drawn("transactions")
    for data in drawn:
        producers = [each for each in data["workload"] if each["kind"] == "producer"]
        assert all("transactional-id" in each for each in producers)
        assert [each["config"]["isolation.level"] for each in _coordinated(data)][:1] == [
            "read_committed"
        ]
    processing = [data for data in drawn if any(w["kind"] == "processor" for w in data["workload"])]
    assert 30 < len(processing) < 70
    versions = Counter(data["cluster"]["kafka-version"] for data in drawn)
    assert min(versions[each] for each in ("2.8-zk", "3.9", "4.0", "4.1")) >= 5, versions


@pytest.mark.parametrize("part", ["classic-groups", "consumer-groups"])
def test_groups_are_static_or_dynamic_and_their_members_come_and_go(part: str) -> None:
    static, long = 0, 0
    for data in _drawn(part):
        members = _coordinated(data)
        protocols = {each["config"].get("group.protocol", "classic") for each in members}
        assert protocols == {part.removesuffix("-groups")}
        assert 2 <= len(members) <= 4
        static += "group.instance.id" in members[0]["config"]
        away = Counter(each["node"] for each in data["operations"] if each["kind"] == "stop")
        assert sum(away.values()) >= 3, data["name"]
        if duration_us(data["duration"]) > 60_000_000:
            long += 1
            assert data["cluster"]["config"]["offsets.retention.minutes"] == 1
            assert "stuck-at" in members[0]
    assert 40 < static < 80
    assert 8 < long < 32


FOUND: dict[str, tuple[str, int, str]] = {
    "B47-verification-aba": ("transactions", 7000003, "aborted-read"),
    "B51-double-completion": ("transactions", 5018, "torn-transaction"),
    "B67-kip848-partition-epoch-lost": ("consumer-groups", 7025, "EXCL"),
    "B69-static-rejoin-in-completing": ("classic-groups", 7004, "changed-generation"),
    "B70-static-id-swap-not-persisted": ("classic-groups", 7001, "EXCL"),
}
"""Variant, the part, a seed that passes without the variant, and what fails with it."""


@pytest.mark.slow
@pytest.mark.parametrize("variant", FOUND)
def test_a_seed_about_the_part_finds_the_bug(variant: str) -> None:
    part, seed, anomaly = FOUND[variant]
    found = examine(seed, [variant], Swarm(part))
    assert found.verdict == "fail"
    assert anomaly in found.anomalies
    assert not examine(seed, (), Swarm(part)).failed


@pytest.mark.parametrize(
    ("given", "line"),
    [
        (["search", "--about", "groups"],
         "--about groups: allowed are classic-groups, consumer-groups, transactions"),
        (["search", "split-brain", "--about", "transactions"],
         "--about: a SCENARIO has clients of its own; leave --about out"),
        (["search", "--about", "consumer-groups", "--mode", "zookeeper"],
         "--mode zookeeper: consumer-groups need KRaft; leave --mode out"),
        (["shrink", "split-brain", "--about", "transactions"],
         "give SCENARIO, --from-search N, or both; --only and --about need --from-search"),
    ],
)  # fmt: skip
def test_what_cannot_be_drawn_is_refused(
    given: list[str], line: str, capsys: pytest.CaptureFixture[str]
) -> None:
    assert invoke(given) == 2
    assert capsys.readouterr().err == f"kafkasim: error: {line}\n"


def test_a_finding_names_its_part() -> None:
    command = Swarm("transactions").command(7, ["B51-double-completion"])
    assert command == (
        "kafkasim search --about transactions --first 7 --seeds 1 --variant B51-double-completion"
    )
