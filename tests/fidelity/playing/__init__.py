"""Schedules of faults, played on real Kafka and on the model, and compared as text."""

from __future__ import annotations

from pathlib import Path

from kafkasim.scenarios.language import spec
from kafkasim.scenarios.language.tables import Scenario

HERE = Path(__file__).parent.parent


def names() -> list[str]:
    """Return the names of all schedules."""
    return sorted(file.stem for file in (HERE / "schedules").glob("*.toml"))


def load(name: str) -> Scenario:
    """Return a schedule."""
    return spec.load(HERE / "schedules" / f"{name}.toml")


def stored(version: str, name: str) -> Path:
    """Return the file with the history that a version of Kafka had."""
    return HERE / "histories" / version / f"{name}.txt"
