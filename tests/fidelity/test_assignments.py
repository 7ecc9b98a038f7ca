"""Every assignor, on drawn groups, against what Kafka's own classes answered."""

from __future__ import annotations

import pytest

from kafkasim.model.group.assignors import ASSIGNORS
from tests.fidelity.kafka_assignors import ASSIGNMENTS, GROUPS, VERSIONS, Group, play


def model(group: Group) -> str:
    """Return the model's answer as the Java program prints Kafka's."""
    topics = {
        topic: [frozenset(racks) for racks in partitions]
        for topic, partitions in group.topics.items()
    }
    members = [member.joins(group.assignor) for member in group.members]
    assignment = ASSIGNORS[group.assignor]().assign(topics, members)
    return ",".join(
        f"{member_id}={' '.join([f'{tp.topic}{tp.partition}' for tp in assignment[member_id]])}"
        for member_id in sorted(assignment)
    )


@pytest.mark.parametrize("version", VERSIONS)
def test_the_model_assigns_as_kafka_does(version: str) -> None:
    stored = (ASSIGNMENTS / f"{version}.txt").read_text().splitlines()
    different: list[str] = []

    def compare(groups: list[Group]) -> list[str]:
        kafkas, stored[:] = stored[:GROUPS], stored[GROUPS:]
        for group, theirs in zip(groups, kafkas, strict=True):
            ours = model(group)
            if ours != theirs:
                different.append(f"{group.line()}\n  model: {ours}\n  Kafka: {theirs}")
        return kafkas

    play(compare)
    assert not stored
    assert different == []
