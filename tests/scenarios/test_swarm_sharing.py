"""What the swarm draws for share groups: busy members, and strikes at facts of theirs."""

from __future__ import annotations

from typing import Any

import pytest

from kafkasim.scenarios.language.spec import ScenarioError, parse
from kafkasim.scenarios.searching.choices import share_groups, sharing
from kafkasim.scenarios.searching.draw import draw


def _drawn(seeds: range) -> list[dict[str, Any]]:
    drawn = [draw(seed) for seed in seeds]
    return [data for data in drawn if _sharing(data)]


def _sharing(data: dict[str, Any]) -> list[dict[str, Any]]:
    return [each for each in data["workload"] if each["kind"] == "share-group"]


def test_share_groups_are_struck_at_facts_of_theirs(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(share_groups, "SHARE", 1)
    monkeypatch.setattr(sharing, "MEETINGS", 1)
    facts = {fact["fact"] for fact, _ in sharing.MOMENTS}
    seen: dict[str, None] = {}
    nodes: dict[str, None] = {}
    apis: dict[str, None] = {}
    for data in _drawn(range(0, 240, 2)):
        parse(data, data["name"])
        for fault in data["faults"]:
            if fault.get("when", {}).get("fact") in facts:
                seen[fault["when"]["fact"]] = None
                nodes[str(fault.get("node", "")).rpartition("-")[0]] = None
                apis[fault.get("api", "")] = None
    assert set(seen) == facts
    assert {"consumer", "leader:orders", "leader:__share_group_state"} <= set(nodes)
    assert {*sharing.OF_MEMBERS, *sharing.OF_STATES} <= set(apis)


def test_the_lock_of_a_busy_member_lasts_for_all_that_a_poll_returns(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(share_groups, "SHARE", 1)
    monkeypatch.setattr(sharing, "AT_WORK", 1)
    for data in _drawn(range(0, 120, 2)):
        scenario = parse(data, data["name"])
        for table, group in zip(
            [each for each in scenario.workload if each.kind == "share-group"],
            _sharing(data),
            strict=True,
        ):
            most = group["config"]["max.poll.records"]
            lock_us = 1000 * group["group-config"]["share.record.lock.duration.ms"]
            assert most * table.processing.high <= lock_us


def test_a_segment_holds_what_many_members_write_at_once(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(share_groups, "SHARE", 1)
    monkeypatch.setattr(sharing, "AT_WORK", 1)  # which adds members
    sizes: dict[int, None] = {}
    for data in _drawn(range(0, 1000, 2)):
        size = data["cluster"]["config"].get("offsets.topic.segment.bytes")
        members = sum([each.get("count", 1) for each in data["workload"] if "group" in each])
        if size is not None and members > 4:
            sizes[size] = None
    assert list(sizes) == [6000]


def test_a_share_coordinator_can_be_selected_where_there_are_share_groups() -> None:
    data = next(each for each in _drawn(range(0, 400, 2)))
    last = data["cluster"]["config"]["share.coordinator.state.topic.num.partitions"] - 1
    crash = {"kind": "crash", "node": f"leader:__share_group_state-{last}", "at": "1s"}
    parse({**data, "faults": [crash]}, "with")
    with pytest.raises(ScenarioError, match=f"has partitions 0 to {last}"):
        parse({**data, "faults": [{**crash, "node": crash["node"] + "9"}]}, "too many")
    others = [each for each in data["workload"] if each["kind"] != "share-group"]
    with pytest.raises(ScenarioError, match="no topic '__share_group_state'"):
        parse({**data, "workload": others, "faults": [crash]}, "without")
