"""The swarm visits every kind of world that its table names, each in a stated share of seeds."""

from __future__ import annotations

import random
from typing import Any

import pytest

from kafkasim.scenarios.language.spec import parse
from kafkasim.scenarios.searching.draw import draw
from kafkasim.scenarios.searching.worlds import shares
from kafkasim.scenarios.searching.worlds.voters import PLANS, Quorum


def test_every_world_has_its_share_of_the_seeds() -> None:
    found = list(shares.table(range(1600)))
    short = {(world.name, mode): share for world, mode, share in found if share < world.least}
    assert short == {}
    assert min([world.least for world in shares.WORLDS]) > 0


def _scenario(**more: Any) -> dict[str, Any]:
    config = {"replica.lag.time.max.ms": 3000, "broker.session.timeout.ms": 9000}
    data: dict[str, Any] = {
        "duration": "10s",
        "cluster": {"config": config, "controllers": 3},
        "topics": [{"name": "orders", "config": {"min.insync.replicas": 2}}],
        "workload": [],
        "faults": [],
    }
    return {**data, **more}


def _alter(at: str, least: int) -> dict[str, Any]:
    return {"kind": "alter-config", "at": at, "config": {"min.insync.replicas": least}}


CRASH = {"kind": "crash", "node": "broker-1", "at": "1s"}
DEAF = {"kind": "partition-oneway", "node": "broker-1", "at": "1s", "for": "1s"}
MOVE = {"kind": "elect-leader", "at": "1s"}
ADDED = {"kind": "add-voter", "node": "controller-4", "at": "1s"}


@pytest.mark.parametrize(
    ("name", "fits", "misses"),
    [
        ("voters change under faults", {"operations": [ADDED], "faults": [CRASH]},
         {"operations": [ADDED]}),
        ("a first voter's disk is replaced",
         {"operations": [{"kind": "replace-disk", "node": "controller-3", "at": "1s"}]},
         {"operations": [{"kind": "replace-disk", "node": "controller-4", "at": "1s"}]}),
        ("a controller's disk is replaced",
         {"operations": [{"kind": "replace-disk", "node": "controller-4", "at": "1s"}]},
         {"operations": [{"kind": "replace-disk", "node": "broker-1", "at": "1s"}]}),
        ("50 s or longer", {"duration": "50s"}, {"duration": "49999ms"}),
        ("50 s or longer, and full of events",
         {"duration": "50s", "faults": [{**CRASH, "at": "25s"}] * 5},
         {"duration": "50s", "faults": [{**CRASH, "at": "24s"}] * 5}),
        ("min.insync.replicas lowered", {"operations": [_alter("1s", 1)]},
         {"operations": [_alter("1s", 3)]}),
        ("min.insync.replicas raised", {"operations": [_alter("2s", 2), _alter("1s", 1)]},
         {"operations": [_alter("1s", 2), _alter("2s", 1)]}),
        ("a broker leaves for good", {"faults": [CRASH]}, {"faults": [{**CRASH, "for": "1s"}]}),
        ("records expire", {"operations": [{"kind": "alter-config", "at": "1s",
             "config": {"retention.ms": 500}}]},
         {"operations": [{"kind": "alter-config", "at": "1s", "config": {"retention.ms": -1}}]}),
        ("leaders move while a link is spoiled",
         {"operations": [MOVE, MOVE], "faults": [DEAF]}, {"operations": [MOVE], "faults": [DEAF]}),
        ("a fault ends at a fact",
         {"faults": [{**DEAF, "until": {"fact": "Truncated"}}]}, {"faults": [DEAF]}),
        ("a fault ends at a fact with fields",
         {"faults": [{**DEAF, "until": {"fact": "Truncated", "fields": {"topic": "orders"}}}]},
         {"faults": [{**DEAF, "until": {"fact": "Truncated"}}]}),
        ("the log start passes a follower",
         {"operations": [{"kind": "delete-records",
             "when": {"fact": "HighWatermark", "at-most": {"acknowledged": 2}}}]},
         {"operations": [{"kind": "delete-records", "at": "1s"}]}),
        ("voters change in an election",
         {"operations": [{**ADDED, "when": {"fact": "RaftRole"}}]}, {"operations": [ADDED]}),
        ("lag before session", {}, {"cluster": {"config": {
            "replica.lag.time.max.ms": 9000, "broker.session.timeout.ms": 9000}}}),
        ("unclean elections of the topic", {"operations": [{"kind": "alter-config", "at": "1s",
             "config": {"unclean.leader.election.enable": True}}]}, {}),
    ],
)  # fmt: skip
def test_a_world_is_told_from_another(
    name: str, fits: dict[str, Any], misses: dict[str, Any]
) -> None:
    (world,) = [world for world in shares.WORLDS if world.name == name]
    assert (world.fits(_scenario(**fits)), world.fits(_scenario(**misses))) == (True, False)


@pytest.mark.parametrize("plan", PLANS)
@pytest.mark.parametrize("size", [1, 3, 5])
def test_a_plan_leaves_every_set_of_voters_a_majority_with_its_disks(plan: Any, size: int) -> None:
    """Whichever of its steps fail: a set is what the steps make of it that succeed."""
    for seed in range(30):
        rng = random.Random(seed)
        quorum = Quorum(rng, {"controllers": size, "config": {}, "combined": seed % 2})
        possible: list[dict[str, bool]] = [dict.fromkeys(quorum.voters, True)]
        for step in plan(rng, quorum):
            node, kind = step["node"], step["kind"]
            changed = [dict(voters) for voters in possible]
            for voters in changed:
                if kind == "add-voter":
                    voters.setdefault(node, True)
                elif kind == "remove-voter" and len(voters) > 1:  # Kafka keeps the last one
                    voters.pop(node, None)
            if kind == "replace-disk":  # under its old name it votes no more
                possible = [{n: kept and n != node for n, kept in v.items()} for v in possible]
            else:
                possible += changed
            assert all(2 * sum(voters.values()) > len(voters) for voters in possible), step


def test_a_drawn_change_of_voters_is_valid() -> None:
    changed = [data for data in map(draw, range(0, 1200, 2)) if _changes(data)]
    assert len(changed) > 60
    for data in changed:
        scenario = parse(data, data["name"])
        hosts = [f"controller-{n + 1}" for n in range(scenario.cluster.combined)]
        replaced = [each.node for each in scenario.operations if each.kind == "replace-disk"]
        assert not set(hosts) & set(replaced)


def _changes(data: dict[str, Any]) -> bool:
    kinds = [each["kind"] for each in data.get("operations", ())]
    return "add-voter" in kinds or "remove-voter" in kinds
