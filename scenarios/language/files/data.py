"""A checked scenario as the data of a file again."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from kafkasim.scenarios.language.tables import Scenario
from kafkasim.scenarios.language.units import duration_text

Data = dict[str, Any]

PROPERTIES = ("config", "zookeeper-config", "features", "fields", "at-least", "at-most")
"""Tables of Kafka's properties and of facts' fields: their values are not the language's."""


def as_data(scenario: Scenario) -> Data:
    """Return a scenario as its file has it: the keys that were given, durations as people write."""
    dumped = scenario.model_dump(mode="json", by_alias=True, exclude_unset=True, exclude_none=True)
    readable: Data = _readable(dumped)
    return readable


def _readable(value: Any, key: str = "") -> Any:
    if isinstance(value, Mapping):
        if key in PROPERTIES:
            return dict(value)
        return {name: _readable(inner, name) for name, inner in value.items()}
    if isinstance(value, list):
        return [_readable(each) for each in value]
    if isinstance(value, str) and value.endswith("us") and value[:-2].lstrip("-").isdigit():
        return duration_text(int(value[:-2]))
    return value
