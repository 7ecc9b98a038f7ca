"""Scenarios to which a step of the draw adds nothing, or no faults of brokers."""

from __future__ import annotations

from typing import Any


def is_about_its_faults(data: dict[str, Any]) -> bool:
    """Return whether the scenario expects more than Kafka's promises, of the faults it has."""
    return bool(data["expect"].keys() & {"never", "in-time"})


def has_second_process(data: dict[str, Any]) -> bool:
    """Return whether a broker has a second process; nothing else may strike brokers then."""
    return any(each["kind"] == "duplicate-broker" for each in data.get("operations", ()))
