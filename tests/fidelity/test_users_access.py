"""The model lets users do what Kafka's authorizer let them do, and refuses as Kafka did."""

from __future__ import annotations

import pytest

from tests.fidelity.kafka_access import VERSIONS, answers, committed
from tests.fidelity.sides import ModelSide
from tests.fidelity.test_requests import assert_same, by_label

UNREADABLE = (
    "the broker cannot parse it: in the model that is the gateway of kafkasim serve, which closes"
    " the connection, too (tests/scenarios/wire/test_wire_acls.py)"
)
DIRECTORY = "the model's brokers have no directory id in the quorum (test_quorum_requests.py)"

DIFFERENT: dict[str, str] = {
    **{
        f"entries / {what} an unknown {part}": UNREADABLE
        for what in ("create one of", "describe", "delete by")
        for part in ("resource type", "pattern", "operation", "permission")
    },
    "entries / delete by filters of which one is wrong": UNREADABLE,
    "no authorizer / describe by an unknown operation": UNREADABLE,
    "no authorizer / delete": UNREADABLE,
    **{
        f"privileges / {operation} on the cluster / DescribeQuorum": DIRECTORY
        for operation in ("all", "read", "write", "delete", "alter", "describe")
    },
}
"""What the model answers otherwise, with the reason; 4.0.0 and 4.1.0 answer alike."""


@pytest.mark.parametrize("version", VERSIONS)
def test_the_model_answers_as_kafka_did(version: str) -> None:
    real = by_label(committed(version))
    model = by_label(answers(lambda own: ModelSide(release=version[:3], settings=own)))
    assert_same(model, real, DIFFERENT)
