"""The model answers raw requests as Kafka answered them (answers/VERSION.txt).

``DIFFERENT`` lists the answers that differ, each with its reason. A line that is equal again must
leave the list, and nothing may enter it without one.
"""

from __future__ import annotations

from collections.abc import Container
from pathlib import Path

import pytest

from tests.fidelity.conversations import CONVERSATIONS, all_answers
from tests.fidelity.sides import ModelSide

ANSWERS = Path(__file__).parent / "answers"
ZOOKEEPER = "3.9.1-zookeeper"


DIFFERENT: dict[str, dict[str, str]] = {
    "4.0.0": {},
    "4.1.0": {},
    ZOOKEEPER: {
        "moving / unregister a broker that is none": "clients see before that it is not offered",
    },
}


def by_label(lines: list[str]) -> dict[str, str]:
    """Return answers by what was asked."""
    found = dict(line.split(": ", 1) for line in lines)
    assert len(found) == len(lines), "two requests have the same label"
    return found


def assert_same(model: dict[str, str], real: dict[str, str], different: Container[str]) -> None:
    """Assert that the model answers as Kafka did, but to what is listed in ``different``."""
    assert list(model) == list(real)
    wrong = [
        f"{label}\n  Kafka: {real[label]}\n  model: {model[label]}"
        for label in real
        if (model[label] != real[label]) != (label in different)
    ]
    assert not wrong, "\n".join(["", *wrong])


@pytest.mark.parametrize("version", DIFFERENT)
def test_the_model_answers_as_kafka_did(version: str) -> None:
    real = by_label((ANSWERS / f"{version}.txt").read_text().splitlines())
    side = ModelSide(zookeeper=version == ZOOKEEPER, release=version[:3])
    model = by_label(all_answers(side))
    assert_same(model, real, DIFFERENT[version])


def test_4_1_answers_otherwise_than_4_0() -> None:
    """4.1 has ELR on (KIP-966), and a fence raises the epoch once (KAFKA-19367)."""
    old, new = (
        by_label((ANSWERS / f"{version}.txt").read_text().splitlines())
        for version in ("4.0.0", "4.1.0")
    )
    assert [label for label in new if new[label] != old[label]] == [
        "configs / a broker",
        "configs / a broker back",
        "transactions / init after the fence",
        "transactions / producers of a zombie",
        "transactions of version 2 / init after the fence",
    ]


def test_every_conversation_is_in_the_committed_answers() -> None:
    for version in ("4.0.0", "4.1.0", ZOOKEEPER):
        lines = (ANSWERS / f"{version}.txt").read_text().splitlines()
        assert list(dict.fromkeys(line.split(" / ")[0] for line in lines)) == list(CONVERSATIONS)
