"""The files of users' processors that a topology names: ``process = "my_steps.py:Enrich"``."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Any

from kafkasim.analysis.judging.user_processors import named
from kafkasim.scenarios.language.spec import ScenarioError

STEPS = ("process", "process-values")


def resolve(data: Mapping[str, Any], folder: Path, place: str) -> dict[str, Any]:
    """Return a scenario's data with the files of processors as absolute paths, and digests.

    Raises:
        ScenarioError: a file has no such processor.
    """
    applications = data.get("streams")
    if not isinstance(applications, list):
        return dict(data)
    resolved = [
        _resolved(table, folder, f"{place}: streams.{n}") for n, table in enumerate(applications)
    ]
    return {**data, "streams": resolved}


def _resolved(node: Any, folder: Path, place: str) -> Any:
    if isinstance(node, list):
        return [_resolved(each, folder, f"{place}.{n}") for n, each in enumerate(node)]
    if not isinstance(node, Mapping):
        return node
    found = {}
    for key, value in node.items():
        found[key] = _resolved(value, folder, f"{place}.{key}")
        if key in STEPS and isinstance(value, str):
            try:
                found[key] = named(value, folder)
            except ValueError as error:
                raise ScenarioError(f"{place}.{key}: {error}") from None
    return found
