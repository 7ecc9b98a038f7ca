"""The model answers raw requests of share groups as Kafka's brokers did (KIP-932)."""

from __future__ import annotations

import pytest

from kafkasim.model.replication.share.rules import ShareRules
from kafkasim.scenarios.variants.releases import Group41
from tests.fidelity.kafka_share_groups import VERSIONS, answers, committed
from tests.fidelity.sides import ModelSide

DIFFERENT: dict[str, dict[str, str]] = {"4.1.0": {}}
"""What the model answers otherwise, with the reason."""


class Group410(Group41):
    """The group coordinator of 4.1.0, without what later ones corrected."""

    def alters_share_offsets(self) -> bool:
        return False


class Share410(ShareRules):
    """The share partitions of 4.1.0, without what later releases corrected."""

    def archives_every_batch(self) -> bool:
        return False

    def begins_at_start_offset(self) -> bool:
        return False

    def ends_before_known_records(self) -> bool:
        return False

    def frees_expired_on_rollback(self) -> bool:
        return False

    def gap_behind(self, last_offset: int, gap_start: int) -> int:
        return last_offset + 1

    def keeps_archived_on_rollback(self) -> bool:
        return False

    def keeps_start_offset(self) -> bool:
        return False

    def releases_around_others(self) -> bool:
        return False

    def searches_past_transitions(self) -> bool:
        return False

    def written_start_offset(self, known: int, asked: int) -> int:
        return asked


PARTS = {"4.1.0": {"group": Group410(), "share": Share410()}}


@pytest.mark.parametrize("version", VERSIONS)
def test_the_model_answers_as_kafka_did(version: str) -> None:
    kafka = committed(version)
    model = answers(
        lambda settings: ModelSide(release=version[:3], settings=settings, parts=PARTS[version])
    )
    differ = {
        line.split(": ")[0]: (line, answer)
        for line, answer in zip(kafka, model, strict=True)
        if line != answer
    }
    assert sorted(differ) == sorted(DIFFERENT[version]), differ
