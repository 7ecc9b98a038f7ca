"""The model answers about its quorum as Kafka did, whether the voters may change or not."""

from __future__ import annotations

import pytest

from tests.fidelity.kafka_quorum import QUORUMS, SETTINGS, VERSIONS, answers, committed
from tests.fidelity.sides import ModelSide

WITHOUT_ID = (
    "the model's brokers have no directory id in the quorum: nothing depends on it, and to draw one"
    " would be another draw of every broker"
)

FORMATTED = (
    "the model's leader writes no KRaftVersionRecord of what was formatted, so a broker knows of"
    " kraft.version 1 once the voters have changed"
)

DIFFERENT = {
    **{
        f"{kind}: describing the quorum / {asked}": WITHOUT_ID
        for kind in QUORUMS
        for asked in ("through a broker", "of the controller")
    },
    "dynamic: api versions / of a broker": FORMATTED,
}
"""What the model answers otherwise, with the reason."""


@pytest.mark.parametrize("version", VERSIONS)
def test_the_model_answers_as_kafka_did(version: str) -> None:
    kafka = committed(version)
    model: list[str] = []
    for kind, kraft_version in QUORUMS.items():
        side = ModelSide(release=version[:3], kraft_version=kraft_version, settings=SETTINGS)
        model += answers(kind, side)
    assert [line.split(": ")[:2] for line in model] == [line.split(": ")[:2] for line in kafka]
    differ = {line: answer for line, answer in zip(kafka, model, strict=True) if line != answer}
    assert sorted(line.rpartition(": ")[0] for line in differ) == sorted(DIFFERENT), differ


WITHOUT_ISR = "alone NONE [0:LEADER_NOT_AVAILABLE leader=-1 epoch=1 replicas=[9] isr=[]]"


def test_4_1_notes_fixed_voters_and_empties_an_isr() -> None:
    """4.1's leader looks for the voter that an update names, whose set 4.0 keeps as it is. With
    ELR (KIP-966) no ISR is left without a leader."""
    old, new = (
        [line for line in committed(version) if ": api versions / " not in line]
        for version in VERSIONS
    )
    assert [after for before, after in zip(old, new, strict=True) if before != after] == [
        "static: updating a voter / a node that is no voter: VOTER_NOT_FOUND",
        "static: electing / no replica is left: " + WITHOUT_ISR,
    ]
