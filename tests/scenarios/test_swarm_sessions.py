"""Seeds in which a broker loses ZooKeeper, and not the controller, while leaderships move."""

from __future__ import annotations

import pytest

from kafkasim.scenarios.language.spec import parse
from kafkasim.scenarios.searching.choices import operators
from kafkasim.scenarios.searching.draw import draw
from kafkasim.scenarios.searching.worlds import sessions


def test_a_leadership_swings_while_a_broker_has_no_session(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(sessions, "SHARE", 0)
    monkeypatch.setattr(sessions, "OF_WRITERS", 0)
    monkeypatch.setattr(operators, "DUPLICATES", 0)  # they leave no fault of a broker
    before = [draw(seed) for seed in range(120)]
    monkeypatch.setattr(sessions, "SHARE", 1)
    monkeypatch.setattr(sessions, "OF_WRITERS", 1)
    roles: dict[str, None] = {}
    for seed, plain in enumerate(before):
        data = draw(seed)
        parse(data, data["name"])
        if seed % 2 == 0 or data["expect"].keys() & {"never", "in-time"}:
            assert data == plain
            continue
        stop, cut = data["faults"][:2]
        assert (stop["kind"], cut["kind"]) == ("stop", "partition")
        assert {peer.rpartition("-")[0] for peer in cut["peers"]} == {"zookeeper"}
        assert "elect-leader" in [each["kind"] for each in data["operations"]]
        roles[stop["node"].partition(":")[0]] = None
    assert set(roles) == {"leader", "coordinator", "transaction-coordinator"}
