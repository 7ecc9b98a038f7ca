"""The model's log cleaner leaves what Kafka's left (cleaned/VERSION.txt)."""

from __future__ import annotations

from pathlib import Path

import pytest

from kafkasim.model.broker import BrokerRules
from kafkasim.scenarios.variants.bugs.truncation import TombstonesByTheirSegment
from tests.fidelity.kafka_cleaner import VERSIONS, model_lines

CLEANED = Path(__file__).parent / "cleaned"


@pytest.fixture(scope="module")
def model() -> list[str]:
    return model_lines()


@pytest.mark.parametrize("version", VERSIONS)
def test_the_model_leaves_of_a_log_what_kafka_left(model: list[str], version: str) -> None:
    assert model == (CLEANED / f"{version}.txt").read_text().splitlines()


def test_the_rule_before_the_delete_horizon_leaves_something_else(model: list[str]) -> None:
    """KIP-534: the comparison notices when tombstones and markers go."""
    other = _scripts(model_lines(BrokerRules(storage=TombstonesByTheirSegment())))
    assert [name for name, lines in _scripts(model).items() if lines != other[name]] == [
        "tombstones, 3 s", "delete.retention.ms changes", "transactions, 0", "transactions, 3 s",
        "epochs", "small segments",
    ]  # fmt: skip


def _scripts(lines: list[str]) -> dict[str, list[str]]:
    """Return the lines of each script."""
    found: dict[str, list[str]] = {}
    name = ""
    for line in lines:
        if line.startswith("# "):
            name = line[2:].rpartition(": ")[0]
        found.setdefault(name, []).append(line)
    return found
