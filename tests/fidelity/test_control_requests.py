"""Brokers and the controller of ZooKeeper mode answer each other as Kafka 3.9's did."""

from __future__ import annotations

from tests.fidelity.kafka_control import VERSIONS, answers, committed
from tests.fidelity.sides import ModelSide


def test_the_model_answers_as_kafka_did() -> None:
    (version,) = VERSIONS
    kafka = committed(version)
    model = answers(ModelSide(zookeeper=True, release=version[:3]))
    assert [line.split(": ")[0] for line in model] == [line.split(": ")[0] for line in kafka]
    differ = {line: answer for line, answer in zip(kafka, model, strict=True) if line != answer}
    assert differ == {}
