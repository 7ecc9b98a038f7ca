"""The coordinator's assignors answer as Kafka's own did (KIP-848)."""

from __future__ import annotations

import pytest

from tests.fidelity.kafka_server_assignors import VERSIONS, answer, cases, committed, question


@pytest.mark.parametrize("version", VERSIONS)
def test_the_server_side_assignors_are_kafkas(version: str) -> None:
    kafka = committed(version)
    asked = list(cases())
    differ = [
        (question(*case), answered, answer(*case, version))
        for case, answered in zip(asked, kafka, strict=True)
        if answer(*case, version) != answered
    ]
    assert differ == []
