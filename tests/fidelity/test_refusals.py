"""The model refuses as Kafka did what its brokers do not lead or do not allow."""

from __future__ import annotations

import pytest

from tests.fidelity.kafka_refusals import SETTINGS, VERSIONS, answers, committed
from tests.fidelity.real_zookeeper import VERSION as ZOOKEEPER
from tests.fidelity.sides import ModelSide
from tests.fidelity.test_requests import assert_same, by_label

DIFFERENT: dict[str, dict[str, str]] = {version: {} for version in VERSIONS}
"""Version -> what the model answers otherwise, with the reason."""


@pytest.mark.slow
@pytest.mark.parametrize("version", VERSIONS)
def test_the_model_answers_as_kafka_did(version: str) -> None:
    real = by_label(committed(version))
    side = ModelSide(zookeeper=version == ZOOKEEPER, release=version[:3], settings=SETTINGS)
    model = by_label(answers(side))
    assert_same(model, real, DIFFERENT[version])
