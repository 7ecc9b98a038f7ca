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

DIFFERENT: dict[str, str] = {
    "producing / acks=2": "acks other than 0, 1 and -1 are not checked",
    "producing / acks=-2": "acks other than 0, 1 and -1 are not checked",
    "producing / one right, one unknown": "its base offset: the two batches before it were taken",
    "idempotence / InitProducerId with an empty id": "an empty transactional id is not checked",
    "fetching / of an unknown topic id": "ids are compared with the partition of that name only",
    "offsets and epochs / ListOffsets as debugging replica -2": "only the leader answers",
    "groups / FindCoordinator of type 7": "only the types group and transaction are known",
    "groups / leave an unknown group": "the error stands at the top, not with the member",
    "groups / commit with a generation to an unknown group": "the Scala coordinator's error",
    "groups / commit for an unknown topic": "the broker does not ask its metadata cache",
    "groups / commit for an unknown partition": "the broker does not ask its metadata cache",
    "groups / fetch an offset nobody committed": "it was committed: the line before",
    "groups / fetch all offsets": "it was committed: the line before",
    "topics / create a_b beside a.b": "names that collide in metrics are not refused",
    "topics / create one name twice": "each of the two is refused, Kafka answers once",
    "topics / metadata of a bad name": "names are not checked by Metadata",
    "configs / a topic without a name": "the topic is looked up first",
    "configs / another broker": "any broker forwards any broker's settings",
    "configs / a broker that is none": "any broker forwards any broker's settings",
    "configs / an unknown broker key": "unknown broker keys are refused",
    "configs / a default min ISR of 0": "INVALID_CONFIG, not INVALID_REQUEST",
    "configs / one key twice": "a key that stands twice is not noticed",
}


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
