"""The model's coordinator answers raw heartbeats of consumer groups as Kafka's did (KIP-848)."""

from __future__ import annotations

import pytest

from tests.fidelity.kafka_consumer_groups import VERSIONS, answers, committed
from tests.fidelity.sides import ModelSide

DESCRIBED = (
    "Kafka describes a group as of the last committed record, and answers a member without an id"
    " before it has written the classic group that takes an empty one's place"
    " (classicGroupJoinToClassicGroup); the model describes a group as it is"
)
DIFFERENT = {
    "4.0.0": {"classic groups / describe": DESCRIBED},
    "4.1.0": {
        "classic groups / describe": DESCRIBED,
    },
}
"""What the model answers otherwise, with the reason."""


@pytest.mark.parametrize("version", VERSIONS)
def test_the_model_answers_as_kafka_did(version: str) -> None:
    kafka = committed(version)
    model = answers(ModelSide(release=version[:3]))
    differ = {
        line.split(": ")[0]: (line, answer)
        for line, answer in zip(kafka, model, strict=True)
        if line != answer
    }
    assert sorted(differ) == sorted(DIFFERENT[version])
