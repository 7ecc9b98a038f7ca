"""The model refuses as Kafka did what its brokers do not lead, do not allow, or cannot read."""

from __future__ import annotations

import pytest

from tests.fidelity.kafka_refusals import VERSIONS, answers, committed
from tests.fidelity.real_zookeeper import VERSION as ZOOKEEPER
from tests.fidelity.sides import ModelSide
from tests.fidelity.test_requests import assert_same, by_label

DIFFERENT: dict[str, dict[str, str]] = {version: {} for version in VERSIONS}
"""Version -> what the model answers otherwise, with the reason."""


@pytest.mark.parametrize("version", VERSIONS)
def test_the_model_answers_as_kafka_did(version: str) -> None:
    real = by_label(committed(version))
    zookeeper, release = version == ZOOKEEPER, version[:3]
    model = by_label(
        answers(lambda own: ModelSide(zookeeper=zookeeper, release=release, settings=own))
    )
    assert_same(model, real, DIFFERENT[version])
