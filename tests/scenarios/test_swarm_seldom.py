"""What the swarm draws of things that its other draws meet hardly ever."""

from __future__ import annotations

import random
from collections import Counter
from typing import Any

import pytest

from kafkasim.model.records import COORDINATOR_TOPICS
from kafkasim.scenarios.language.spec import parse
from kafkasim.scenarios.language.tables import WhenTable
from kafkasim.scenarios.language.translate import condition
from kafkasim.scenarios.language.units import duration_us
from kafkasim.scenarios.running.runner import ScenarioRun
from kafkasim.scenarios.searching.draw import draw, mode_of
from kafkasim.scenarios.searching.seldom import (
    clocks,
    idle_ids,
    internal_topics,
    read_leases,
    recreated,
    steps,
    tenures,
)

SEEDS = range(140)

Drawn = list[tuple[dict[str, Any], dict[str, Any]]]
"""Scenarios without and with what a draw has added."""


def _added(monkeypatch: pytest.MonkeyPatch, module: Any, *shares: str) -> Drawn:
    """Return the scenarios that a draw changes if it has its way in every seed.

    Those with a second process of a broker have faults of clients alone, which another test holds.
    """
    found = []
    for each in (recreated, idle_ids, read_leases, clocks, internal_topics, steps, tenures):
        monkeypatch.setattr(each, "SHARE", 0)
    monkeypatch.setattr(steps, "OF_SHARE_GROUPS", 0)
    monkeypatch.setattr(recreated, "LATE", 0)
    monkeypatch.setattr(recreated, "LATE_MODERN", 0)
    before = [draw(seed) for seed in SEEDS]
    for name in shares:
        monkeypatch.setattr(module, name, 1)
    for seed, plain in zip(SEEDS, before, strict=True):
        data = draw(seed)
        if data != plain:
            parse(data, data["name"])
            found.append((plain, data))
    modes = Counter([mode_of(int(data["name"].rpartition("-")[2])) for _, data in found])
    assert min(modes["kraft"], modes["zookeeper"]) > 10, modes
    return found


def _new(plain: dict[str, Any], data: dict[str, Any], table: str) -> list[dict[str, Any]]:
    """Return the tables that a draw has put behind those that were there."""
    return list(data.get(table, [])[len(plain.get(table, [])) :])


def test_clients_are_struck_at_all_steps_of_their_protocols(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    seen: Counter[tuple[str, str]] = Counter()
    kinds: Counter[str] = Counter()
    for plain, data in _added(monkeypatch, steps, "SHARE", "OF_SHARE_GROUPS"):
        struck = [each for each in _new(plain, data, "faults") if each["node"] == "@node"]
        waits = [(each["kind"], each["when"]) for each in struck if "fact" not in each["when"]]
        assert waits, data["name"]
        for kind, when in waits:
            seen.update([(way, when[way]) for way in ("request", "response") if way in when])
            kinds.update([kind])
    for pool, _ in POOLS:
        drawn = [seen[step.direction, step.api] for step in pool]
        assert min(drawn) > 0, pool
    assert {"crash", "stop", "gc-pause", "isolate", "reset", "restart"} <= set(kinds)


def _group(**more: Any) -> dict[str, Any]:
    return {"kind": "consumer-group", "count": 2, "commit": "sync", **more}


STOPS = [
    {"kind": "stop", "node": f"consumer-{number}", "at": f"{2 + 1.5 * number}s", "for": "500ms"}
    for number in (1, 2)
]
CLASSIC = {"workload": [_group()], "cluster": {"config": {"group.initial.rebalance.delay.ms": 0}}}
MODERN = {"workload": [_group(config={"group.protocol": "consumer"})]}
SHARES = {
    "workload": [{"kind": "share-group", "count": 2, "processing": "50ms", "commit": "sync",
                  "group-config": {"share.auto.offset.reset": "earliest"}}],
    "cluster": {
        "kafka-version": "4.1", "features": {"share.version": 1},
        "config": {"group.share.min.heartbeat.interval.ms": 500,
                   "group.share.heartbeat.interval.ms": 500},
    },
}  # fmt: skip
WRITES = {"workload": [{"kind": "producer", "transactional-id": "writer", "rate": "20/s"}]}
PROCESSES = {
    "workload": [{"kind": "processor", "output": "outputs"}],
    "cluster": {"kafka-version": "3.9", "config": {}},
}

POOLS = (
    (steps.OF_CLASSIC_GROUPS, CLASSIC),
    (steps.OF_CONSUMER_GROUPS, MODERN),
    (steps.OF_SHARES, SHARES),
    (steps.OF_PRODUCERS, CLASSIC),
    (steps.OF_TRANSACTIONS, {**WRITES, "cluster": PROCESSES["cluster"]}),
    (steps.OF_PROCESSORS, PROCESSES),
)
"""Each protocol, and what a scenario needs in which clients take all of its steps."""


def _writes_it(workload: dict[str, Any]) -> bool:
    return workload.get("topic") == recreated.OTHER


def test_every_recreated_topic_is_one_of_two_that_a_group_reads(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    again = forgot = 0
    for plain, data in _added(monkeypatch, recreated, "SHARE"):
        forgot += recreated.FORGETTING[0] in plain["cluster"]["config"]
        assert not data["cluster"]["config"].keys() & set(recreated.FORGETTING)
        operations = _new(plain, data, "operations")
        assert [each["kind"] for each in operations] in (
            ["delete-topic", "create-topic"], ["delete-topic", "create-topic"] * 2,
        )  # fmt: skip
        assert all(each["topic"] == recreated.OTHER for each in operations)
        readers = [each for each in data["workload"] if recreated.OTHER in each.get("topics", ())]
        assert all(len(each["topics"]) == 2 for each in readers)
        assert readers
        assert data["expect"] == plain["expect"]
        begins = [duration_us(each["start"]) for each in data["workload"] if _writes_it(each)]
        assert [duration_us(operations[-1]["at"]) < at < duration_us(data["duration"])
                for at in begins] == [True]  # fmt: skip
        again += len(operations) == 4
    assert again > 3
    assert forgot > 0


def test_a_topic_that_comes_late_is_created_while_groups_of_both_protocols_run(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    protocols: Counter[str] = Counter()
    grows = 0
    for plain, data in _added(monkeypatch, recreated, "LATE", "LATE_MODERN"):
        gone, came, *more = _new(plain, data, "operations")
        assert (gone["kind"], came["kind"]) == ("delete-topic", "create-topic")
        assert [each["kind"] for each in more] in ([], ["create-partitions"])
        assert 1_500_000 <= duration_us(came["at"]) - duration_us(gone["at"]) < 5_000_000
        readers = [each for each in data["workload"] if recreated.OTHER in each.get("topics", ())]
        protocols.update([each["config"].get("group.protocol", "classic") for each in readers])
        (begins,) = [duration_us(each["start"]) for each in data["workload"] if _writes_it(each)]
        assert duration_us([came, *more][-1]["at"]) < begins < duration_us(data["duration"])
        grows += bool(more)
    assert min(protocols["classic"], protocols["consumer"], grows) > 3, protocols


def test_ids_expire_within_the_run_while_producers_are_idle(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    slow = unwritable = 0
    for plain, data in _added(monkeypatch, idle_ids, "SHARE"):
        config = data["cluster"]["config"]
        expires_ms = config["transactional.id.expiration.ms"] + config[idle_ids.SCAN]
        assert 1000 * expires_ms < duration_us(data["duration"]) / 3
        away = [each for each in _new(plain, data, "faults") if each["node"] == "@node"]
        assert all(duration_us(each["for"]) >= 800 * expires_ms - 1000 for each in away)
        assert away
        delay_ms = config.get("group.initial.rebalance.delay.ms", 3000)
        for each in data["workload"]:
            if each["kind"] == "processor":  # its whole group joins before the id expires
                joining_ms = each["config"]["session.timeout.ms"] + delay_ms * each["count"]
                assert config["transactional.id.expiration.ms"] > joining_ms  # seed 10050020
        slow += any(str(each.get("rate", "")).endswith("/m") for each in data["workload"])
        unwritable += config.get("transaction.state.log.min.isr") == 3
    assert min(slow, unwritable) > 5


def test_clocks_of_coordinators_and_controllers_jump_in_both_directions(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    roles: Counter[str] = Counter()
    back: Counter[bool] = Counter()
    for plain, data in _added(monkeypatch, clocks, "SHARE"):
        stepped = [each for each in _new(plain, data, "faults") if each["kind"] == "clock-step"]
        assert stepped
        roles.update([each["node"].partition(":")[0] for each in stepped])
        back.update([each["offset"].startswith("-") for each in stepped])
    wanted = ("coordinator", "transaction-coordinator", "active-controller")
    assert min([roles[role] for role in wanted]) > 5, roles
    assert min(back.values()) > 5


def test_partitions_of_all_internal_topics_move_and_preferred_leaders_are_elected(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    moved: Counter[str] = Counter()
    for plain, data in _added(monkeypatch, internal_topics, "SHARE"):
        operations = _new(plain, data, "operations")
        (topic,) = dict.fromkeys([each["topic"] for each in operations])
        assert {each["kind"] for each in operations} == {"reassign", "elect-leader"}
        moved[topic] += 1
    assert min([moved[topic] for topic in COORDINATOR_TOPICS]) > 3, moved


def test_a_broker_leads_again_while_its_messages_are_held_up(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    topics: Counter[str] = Counter()
    held: Counter[str] = Counter()
    together = 0
    for plain, data in _added(monkeypatch, tenures, "SHARE"):
        operations = _new(plain, data, "operations")
        assert [each["kind"] for each in operations] == ["reassign", "elect-leader"] * 3
        (where,) = dict.fromkeys([(each["topic"], each["partition"]) for each in operations])
        first, second, again = [each["replicas"] for each in operations[::2]]
        assert (first, second[:2]) == (again, [first[1], first[0]])
        *_, hold = _new(plain, data, "faults")
        assert hold["kind"] == "hold"
        assert hold["nodes"] in ([f"broker-{first[0]}"], [f"broker-{n}" for n in first[:2]])
        waits = [each.get("when") for each in (*operations, hold)]
        assert waits[:2] == [None] * 2
        if waits[2:] == [hold.get("when")] * 5:  # choices/effects.py has changed none of them
            at = [duration_us(each["at"]) for each in (hold, operations[2], operations[5])]
            assert at[0] < at[1] < at[2] < at[0] + duration_us(hold["for"])
            together += 1
        topics[where[0]] += 1
        held[hold["api"]] += 1
    assert min([topics[topic] for topic in (*COORDINATOR_TOPICS, "orders")]) > 3, topics
    assert together > sum(topics.values()) / 2
    assert {"WriteTxnMarkers", "FetchFollower", "JoinGroup", "Produce"} <= set(held)


def test_read_replicas_of_racks_are_struck_under_short_and_long_leases(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    ages: Counter[int] = Counter()
    struck: Counter[str] = Counter()
    for plain, data in _added(monkeypatch, read_leases, "SHARE"):
        assert read_leases.SELECTOR in data["cluster"]["config"]
        readers = [each for each in data["workload"] if "rack" in each]
        ages.update([each["config"]["metadata.max.age.ms"] for each in readers])
        added = (*_new(plain, data, "faults"), *_new(plain, data, "operations"))
        struck.update([each["kind"] for each in added])
    assert set(ages) == set(read_leases.AGES)
    assert {"reassign", "elect-leader", "crash", "partition", "hold"} <= set(struck)


@pytest.mark.slow
@pytest.mark.parametrize(("pool", "clients"), POOLS)
def test_clients_take_every_step(pool: tuple[steps.Step, ...], clients: dict[str, Any]) -> None:
    """A step that no client takes would be drawn for nothing."""
    data: dict[str, Any] = {"name": "steps", "claim": "Clients take steps.", "duration": "7s"}
    data["topics"] = [{"name": name, "replication-factor": 3} for name in ("orders", "outputs")]
    producer = {"kind": "producer", "rate": "20/s", "config": {"enable.idempotence": True}}
    data |= {**clients, "workload": [producer, *clients["workload"]]}
    if pool not in (steps.OF_PRODUCERS, steps.OF_TRANSACTIONS, steps.OF_PROCESSORS):
        data["faults"] = STOPS
    run = ScenarioRun(parse(data, "steps"), 0, None, [])
    taken: dict[int, None] = {}
    for number, step in enumerate(pool):
        table = WhenTable.model_validate({**step.when(random.Random(1)), "count": 1})
        when = condition(table)
        run.faults.injector.watch(when, 0, lambda known, _: taken.setdefault(known), number)
    run.execute()
    assert [step for number, step in enumerate(pool) if number not in taken] == []
