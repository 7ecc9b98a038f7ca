"""The shapes and chains of the swarm: each is a valid scenario whenever it is drawn."""

from __future__ import annotations

import random
import re
from collections.abc import Callable

import pytest

from kafkasim.scenarios.language.spec import parse
from kafkasim.scenarios.searching import draw as drawing
from kafkasim.scenarios.searching import draw_cluster, draw_transactions, draw_workload
from kafkasim.scenarios.searching.chains import chain
from kafkasim.scenarios.searching.chains import phases as server_phases
from kafkasim.scenarios.searching.chains.disturbances import DISTURBANCES
from kafkasim.scenarios.searching.chains.events import EVENTS, voter_changes
from kafkasim.scenarios.searching.chains.settings import SETTINGS
from kafkasim.scenarios.searching.choices import operators, share_groups
from kafkasim.scenarios.searching.clients import meeting, patience
from kafkasim.scenarios.searching.clients import phases as client_phases
from kafkasim.scenarios.searching.clients.limits import LIMITS
from kafkasim.scenarios.searching.clients.members import MEMBERS
from kafkasim.scenarios.searching.clients.strikes import STRIKES
from kafkasim.scenarios.searching.draw import MODES, draw
from kafkasim.scenarios.searching.draw_faults import lost_replies
from kafkasim.scenarios.searching.draw_shape import SHAPES
from kafkasim.scenarios.searching.draw_transactions import stalls
from kafkasim.scenarios.searching.seldom import recreated
from kafkasim.scenarios.searching.shapes.focus import Focus
from kafkasim.scenarios.searching.worlds import topic_settings
from kafkasim.scenarios.searching.worlds.releases import segments_that_all_take

DRAWN = [
    (shape, mode)
    for shape, *weights in SHAPES
    for mode, weight in zip(MODES, weights, strict=True)
    if weight
]


@pytest.mark.parametrize(("shape", "mode"), DRAWN, ids=lambda each: getattr(each, "__name__", each))
def test_a_shape_is_valid_and_short_however_it_is_drawn(
    shape: Callable[[Focus], None], mode: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(drawing, "SHAPES", 0)
    monkeypatch.setattr(drawing, "CHAINS", 0)
    monkeypatch.setattr(drawing, "segments_that_all_take", lambda _: None)
    for number in range(20):
        data = draw(2 * number + MODES.index(mode))
        focus = Focus(random.Random(number), data, mode)
        shape(focus)
        focus.install()
        segments_that_all_take(data)
        scenario = parse(data, shape.__name__)
        assert scenario.duration <= 10_000_000
        assert scenario.faults or scenario.operations
        assert len(scenario.topics[0].assignment) == scenario.topics[0].partitions


def test_every_shape_and_the_plain_draw_turn_up() -> None:
    def shapes(mode: int) -> int:
        kept = [draw(seed) for seed in range(mode, 120, 2)]
        return sum(bool(data["topics"][0].get("assignment")) for data in kept)

    for mode in (0, 1):
        assert 30 < shapes(mode) < 58  # of 60; a chain has an assignment, too


LINKS = [
    (table, mode, place)
    for table in ("EVENTS", "DISTURBANCES", "SETTINGS")
    for mode, links in {"EVENTS": EVENTS, "DISTURBANCES": DISTURBANCES, "SETTINGS": SETTINGS}[
        table
    ].items()
    for place in range(len(links))
]


@pytest.mark.parametrize(("table", "mode", "place"), LINKS)
def test_a_chain_of_one_kind_is_valid_however_it_is_drawn(
    table: str, mode: str, place: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(drawing, "SHAPES", 0)
    monkeypatch.setattr(drawing, "CHAINS", 0)
    only = getattr(chain, table)[mode][place]
    monkeypatch.setattr(chain, "SEEN", 0.5)
    if table == "SETTINGS":
        monkeypatch.setattr(chain, table, {mode: ((only[0], 1.0),)})
    else:
        monkeypatch.setattr(chain, table, {mode: (only,)})
    monkeypatch.setattr(chain, "MOST_KINDS", 1)
    monkeypatch.setattr(drawing, "segments_that_all_take", lambda _: None)
    for number in range(6):
        data = draw(2 * number + MODES.index(mode))
        chain.play_chain(random.Random(number), data, mode)
        segments_that_all_take(data)
        scenario = parse(data, "chain")
        assert 500_000 <= scenario.duration <= 60_000_000
        assert scenario.faults or scenario.operations or table == "EVENTS"


def test_changes_of_the_voters_leave_a_majority_that_keeps_its_disks(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(chain, "EVENTS", {"kraft": (voter_changes,)})
    monkeypatch.setattr(chain, "MOST_KINDS", 1)
    kept = set()
    monkeypatch.setattr(drawing, "segments_that_all_take", lambda _: None)
    for number in range(200):
        data = draw(2 * number)
        chain.play_chain(random.Random(number), data, "kraft")
        segments_that_all_take(data)
        done = [(each["kind"], each.get("node", "")) for each in data["operations"]]
        removed = {node for kind, node in done if kind == "remove-voter"}
        replaced = {node for kind, node in done if kind == "replace-disk"}
        beside = data["cluster"]["controllers"] - len(removed - replaced)
        assert not replaced or beside > 1, done
        kept.add((beside, bool(replaced)))
    assert kept >= {(3, True), (2, True), (3, False), (2, False), (1, False)}


@pytest.mark.parametrize(
    ("mode", "place"),
    [(mode, n) for mode, phases in server_phases.OF_MODE.items() for n in range(len(phases))],
)
def test_a_chain_that_stretches_a_phase_is_valid_however_it_is_drawn(
    mode: str, place: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(drawing, "SHAPES", 0)
    monkeypatch.setattr(drawing, "CHAINS", 0)
    monkeypatch.setattr(chain, "STRETCHED", 1)
    phase = server_phases.OF_MODE[mode][place]
    monkeypatch.setattr(server_phases, "OF_MODE", {mode: (phase,)})
    monkeypatch.setattr(drawing, "segments_that_all_take", lambda _: None)
    for number in range(6):
        data = draw(2 * number + MODES.index(mode))
        chain.play_chain(random.Random(number), data, mode)
        segments_that_all_take(data)
        parse(data, "stretched")
        whens = [each.get("when", {}) for each in (*data["faults"], *data["operations"])]
        assert sum(when.items() >= phase.fact.items() for when in whens) >= 1


CLIENT_PHASES = (
    *client_phases.OF_CLASSIC_GROUPS, *client_phases.OF_CONSUMER_GROUPS,
    *client_phases.OF_TRANSACTIONS, *client_phases.OF_PROCESSORS, *client_phases.OF_PRODUCERS,
)  # fmt: skip


@pytest.mark.parametrize("phase", CLIENT_PHASES)
def test_a_strike_falls_into_a_stretched_phase(
    phase: client_phases.Phase, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(meeting, "STRETCHED", 1)
    monkeypatch.setattr(client_phases, "_pools", lambda _: [(phase,)])
    monkeypatch.setattr(drawing, "effects", lambda *_: None)  # also of groups that have no such one
    found = 0
    for seed in range(30):
        data = draw(seed)
        whens = [each.get("when", {}) for each in data["faults"]]
        held = sum(when.items() >= phase.fact.items() for when in whens)
        found += held > 1
        if held:
            parse(data, "stretched")
    assert found > 5


@pytest.mark.parametrize("limit", LIMITS, ids=lambda each: each[0].__name__)
def test_a_lowered_limit_is_valid_however_it_is_drawn(
    limit: tuple[Callable[..., None], float], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(drawing, "limits", lambda *_: None)
    lowered = 0
    for seed in range(60):
        before, data = draw(seed), draw(seed)
        limit[0](random.Random(seed), data)
        parse(data, limit[0].__name__)
        lowered += data != before
    assert lowered > 10


def test_a_seed_is_drawn_the_same_again() -> None:
    assert [draw(seed) for seed in range(30)] == [draw(seed) for seed in range(30)]


def test_what_transactions_wait_for_comes_late_in_seeds_with_transactions_only() -> None:
    stalled = 0
    for seed in range(300):
        with_them, without = draw(seed), draw(seed)
        without["workload"] = [
            each for each in without["workload"] if not draw_transactions.timeout_of(each)
        ]
        faults = list(without["faults"])
        stalls(random.Random(seed), without)
        assert without["faults"] == faults
        before = len(with_them["faults"])
        stalls(random.Random(seed), with_them)
        assert parse(with_them, "stalled").faults or not before
        stalled += len(with_them["faults"]) > before
    assert 20 < stalled < 120


def test_a_lost_reply_is_held_at_the_host_whose_connections_break() -> None:
    lost = 0
    for seed in range(300):
        data = draw(seed)
        before = len(data["faults"])
        lost_replies(random.Random(seed), data)
        if len(data["faults"]) > before:
            lost += 1
            hold, reset = data["faults"][-2:]
            assert (hold["kind"], reset["kind"]) == ("hold", "reset")
            assert hold["when"] == reset["when"]
            parse(data, "lost")
    assert 20 < lost < 70


def test_some_groups_subscribe_by_a_pattern_that_matches_the_topic() -> None:
    found: dict[str, int] = {}
    for seed in range(200):
        data = draw(seed)
        parse(data, f"swarm-{seed}")
        for group in data["workload"]:
            for kind in ("pattern", "subscription-pattern"):
                if kind in group:
                    found[kind] = found.get(kind, 0) + 1
                    assert re.fullmatch(group[kind], data["topics"][0]["name"])
                    assert "protocol" not in group
    assert found["pattern"] > 10, found
    assert found["subscription-pattern"] > 0, found


def test_static_members_and_expressions_change_their_protocol_too() -> None:
    found: dict[str, int] = {}
    for seed in range(0, 3000, 2):
        data = draw(seed)
        moved = {
            each["group"]
            for each in data.get("operations", ())
            if each["kind"] == "rolling-deploy" and "group.protocol" in each["config"]
        }
        for each in data["workload"]:
            if each.get("group") in moved:
                parse(data, "migration")
                static = "group.instance.id" in each["config"]
                found["static"] = found.get("static", 0) + static
                found["regex"] = found.get("regex", 0) + ("subscription-pattern" in each)
                assert not static or "application-failed" in data["expect"]["permits"]
                if "subscription-pattern" in each:
                    assert each["pattern"] == each["subscription-pattern"]
    assert found["static"] > 5, found
    assert found["regex"] > 5, found


@pytest.mark.parametrize("strike", dict.fromkeys(STRIKES), ids=lambda each: each.__name__)
def test_a_strike_is_valid_however_it_is_drawn(
    strike: Callable[..., None], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(meeting, "STRIKES", (strike,) * 3)
    monkeypatch.setattr(meeting, "MEETINGS", 1)
    monkeypatch.setattr(meeting, "OF_WRITERS", 1)
    monkeypatch.setattr(operators, "DUPLICATES", 0)  # they leave faults of clients alone
    for seed in range(60):
        data = draw(seed)
        if not data["expect"].keys() & {"never", "in-time"}:
            assert parse(data, strike.__name__).faults


@pytest.mark.parametrize("change", MEMBERS, ids=lambda each: each[0].__name__)
def test_members_live_validly_however_they_are_drawn(
    change: tuple[Callable[..., None], float], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(meeting, "MEMBERS", ())
    before = [draw(seed) for seed in range(100)]
    monkeypatch.setattr(meeting, "MEMBERS", ((change[0], 1.0),))
    after = [draw(seed) for seed in range(100)]
    for data in after:
        parse(data, change[0].__name__)
    differ = [
        one["workload"] != other["workload"] for one, other in zip(before, after, strict=True)
    ]
    assert sum(differ) > 20


def test_a_second_process_of_one_instance_id_needs_no_permission() -> None:
    """The judges know which of the two is fenced (failures.py)."""
    found = []
    for seed in range(600):
        data = draw(seed)
        ids = [each.get("config", {}).get("group.instance.id") for each in data["workload"]]
        static = [each for each in ids if each is not None]
        if len(static) != len(set(static)):
            found.append("application-failed" in data["expect"].get("permits", ()))
    assert len(found) > 2
    assert not all(found)


def test_a_hop_is_late_for_about_as_long_as_its_producer_waits(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(draw_workload, "QUIET", 0)  # its faults come behind
    monkeypatch.setattr(drawing, "worlds", lambda *_: None)  # and theirs
    monkeypatch.setattr(share_groups, "SHARE", 0)  # and theirs
    for step in ("overtaken", "changes_in_elections", "triggers", "seldom"):
        monkeypatch.setattr(drawing, step, lambda *_: None)
    monkeypatch.setattr(patience, "PATIENCE", 0)
    before = [draw(seed) for seed in range(120)]
    monkeypatch.setattr(patience, "PATIENCE", 1)
    late: dict[str, int] = {}
    for data, plain in zip([draw(seed) for seed in range(120)], before, strict=True):
        parse(data, data["name"])
        added = data["faults"][len(plain["faults"]) :]
        assert plain["faults"] == data["faults"][: len(plain["faults"])]
        for each in [fault for fault in added if fault["kind"] == "hold"]:
            late[each["api"]] = late.get(each["api"], 0) + 1
            assert re.fullmatch(r"\d+ms", each["for"]), each
    hops = {"Produce", "FetchFollower", "AddPartitionsToTxn", "WriteTxnMarkers"}
    assert late.keys() == hops
    assert min(late.values()) > 3, late


def test_a_table_is_cleaned_while_its_transactions_abort(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(draw_cluster, "TABLES", 1)
    found = 0
    for data in [draw(seed) for seed in range(60)]:
        if any(each.get("group") == "table-reader" for each in data["workload"]):
            found += 1
            parse(data, data["name"])
            own = [each["config"] for each in data["topics"] if each["name"] != recreated.OTHER]
            policies = [config["cleanup.policy"] for config in own]
            assert policies == ["compact,delete"] * len(policies)
            writers = [each for each in data["workload"] if "transactional-id" in each]
            assert all(each["abort-share"] > 0 for each in writers)
    assert found > 5


def test_a_batch_fits_into_a_segment_where_segments_are_short(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(topic_settings, "ONE_BATCH", 1)
    short = 0
    for data in [draw(seed) for seed in range(80)]:
        configs = [topic["config"] for topic in data["topics"]]
        sizes = [
            each.get("internal.segment.bytes", each.get("segment.bytes", 1 << 30))
            for each in configs
        ]
        if max(sizes) > 600 or data["expect"].keys() & {"never", "in-time"}:
            continue
        short += 1
        for each in data["workload"]:
            key = {"producer": "config", "processor": "producer-config"}.get(each["kind"])
            assert key is None or each[key]["batch.size"] <= min(sizes) // 2, data["name"]
    assert short > 40


def test_a_send_that_may_never_fail_is_not_longer_than_a_segment() -> None:
    data = draw(9970747)
    assert data["expect"]["never"] == ["send-failed"]
    assert "segment.bytes" not in data["topics"][0]["config"]
