"""The clients of the model's broker see of its limits on connections what Kafka's clients see."""

from __future__ import annotations

import pytest

from kafkasim.sim.apps.loop import generator_hooks
from tests.fidelity.conversations.connections import CASES, Doors
from tests.fidelity.dialing import ModelDialer
from tests.fidelity.kafka_connections import VERSIONS, committed
from tests.fidelity.test_requests import assert_same, by_label

COMPARED = tuple(each for each in CASES if each != "two listeners")
"""The cases that the model is held to; its brokers have one listener."""


@pytest.mark.parametrize("version", VERSIONS)
@pytest.mark.parametrize("name", COMPARED)
def test_the_models_clients_see_what_kafkas_did(version: str, name: str) -> None:
    case, settings = CASES[name]
    with generator_hooks():
        doors = Doors(ModelDialer(settings), name)
        case(doors)
    real = [each for each in committed(version) if each.startswith(f"{name} / ")]
    assert_same(by_label(doors.lines), by_label(real), ())


@pytest.mark.parametrize("version", VERSIONS)
def test_every_case_is_in_the_committed_answers(version: str) -> None:
    names = [each.split(" / ")[0] for each in committed(version)]
    assert list(dict.fromkeys(names)) == list(CASES)
