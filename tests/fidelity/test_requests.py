"""The model answers raw requests as Kafka 4.0.0 answered them (answers/4.0.0.txt).

``DIFFERENT`` lists the answers that differ, each with its reason. A line that is equal again must
leave the list, and nothing may enter it without one.
"""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.fidelity.conversations import CONVERSATIONS, all_answers
from tests.fidelity.sides import ModelSide

ANSWERS = Path(__file__).parent / "answers"

DIFFERENT: dict[str, str] = {}


def by_label(lines: list[str]) -> dict[str, str]:
    """Return answers by what was asked."""
    found = dict(line.split(": ", 1) for line in lines)
    assert len(found) == len(lines), "two requests have the same label"
    return found


@pytest.mark.slow
def test_the_model_answers_as_kafka_did() -> None:
    real = by_label((ANSWERS / "4.0.0.txt").read_text().splitlines())
    model = by_label(all_answers(ModelSide()))
    assert list(model) == list(real)
    wrong = [
        f"{label}\n  Kafka: {real[label]}\n  model: {model[label]}"
        for label in real
        if (model[label] != real[label]) != (label in DIFFERENT)
    ]
    assert not wrong, "\n".join(["", *wrong])


def test_every_conversation_is_in_the_committed_answers() -> None:
    for version in ("4.0.0", "4.1.0"):
        lines = (ANSWERS / f"{version}.txt").read_text().splitlines()
        assert list(dict.fromkeys(line.split(" / ")[0] for line in lines)) == list(CONVERSATIONS)
