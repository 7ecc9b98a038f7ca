"""The settings that Kafka defines, as its own ConfigDefs print them (java/ConfigDefs.java)."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

from tests.fidelity.real_kafka import jars, run_java

HERE = Path(__file__).parent
DEFAULTS = HERE / "defaults"

VERSIONS = ("2.8.2", "3.9.1", "4.0.0", "4.1.0")
"""Kafka's versions whose settings are committed: one for each release of a scenario, and 4.1."""

NUMBERS = {"SHORT": 2**15 - 1, "INT": 2**31 - 1, "LONG": 2**63 - 1}
"""ConfigDef's integer types, with their greatest value."""


@dataclass(frozen=True)
class Setting:
    """One row: ConfigDef's type, default and valid values as text, and what else is known."""

    type: str
    default: str
    valid: str
    note: str


def ask(version: str) -> list[str]:
    """Return a line for each setting of a version, printed by its own classes."""
    return run_java(jars(version), HERE / "java" / "ConfigDefs.java")


def committed(version: str) -> dict[tuple[str, str], Setting]:
    """Return the committed settings of a version, by kind (``broker``, …) and key."""
    rows = [row.split(" | ") for row in (DEFAULTS / f"{version}.txt").read_text().splitlines()]
    return {(kind, key): Setting(*rest) for kind, key, *rest in rows}
