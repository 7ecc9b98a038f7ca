"""Find a scenario, built in by name or a user's file by path; apply settings and the twin."""

from __future__ import annotations

import difflib
import json
import tomllib
from collections.abc import Callable, Mapping, Sequence
from functools import partial
from pathlib import Path
from typing import Any

from kafkasim.scenarios.language.checks.fault_tables import check_idle
from kafkasim.scenarios.language.files import processors, rules
from kafkasim.scenarios.language.files.applications import resolve
from kafkasim.scenarios.language.files.properties import merge
from kafkasim.scenarios.language.spec import ScenarioError, override, parse, read_toml
from kafkasim.scenarios.language.tables import Scenario

DRAWN = "swarm-"
"""How the names begin of the scenarios that ``search`` has drawn and kept."""

CATALOGUE = Path(__file__).parents[1] / "catalogue"
BUGS = CATALOGUE / "bugs"
"""The scripts of the historical bugs; `kafkasim list --variants` names them."""

SWEEPS = CATALOGUE / "sweeps"
"""Scenarios with a [sweep] table; `kafkasim list --sweeps` has their questions."""


def names() -> list[str]:
    """Return the names of the built-in scenarios."""
    return sorted(path.stem for path in CATALOGUE.glob("*.toml"))


def scripts() -> list[str]:
    """Return the names of the scripts that find a historical bug."""
    return sorted(path.stem for path in BUGS.glob("*.toml"))


def sweeps() -> list[str]:
    """Return the names of the scenarios that are there to be swept."""
    return sorted(path.stem for path in SWEEPS.glob("*.toml"))


def path(name: str) -> Path:
    """Return the file of a built-in scenario, script or sweep."""
    folder = next((one for one in (BUGS, SWEEPS) if (one / f"{name}.toml").exists()), CATALOGUE)
    return folder / f"{name}.toml"


def source(name: str) -> tuple[dict[str, Any], str]:
    """Return the data of a scenario and what to call it in messages.

    ``name`` is a built-in name, or a path that ends in ``.toml``.

    Raises:
        ScenarioError: there is no such scenario or file.
    """
    if name.endswith(".toml") or "/" in name:
        return read_toml(Path(name)), name
    if name in scripts():
        return read_toml(path(name)), f"bugs/{name}.toml"
    if name in sweeps():
        return read_toml(path(name)), f"sweeps/{name}.toml"
    known = names()
    if name not in known:
        near = difflib.get_close_matches(name, [*known, *sweeps()], n=3, cutoff=0.4)
        hint = f"did you mean {' or '.join(near)}?" if near else f"allowed: {', '.join(known)}"
        raise ScenarioError(f"no scenario {name!r}; {hint} (or give a path to a .toml file)")
    return read_toml(CATALOGUE / f"{name}.toml"), f"{name}.toml"


def scenario(
    name: str,
    settings: Sequence[str] = (),
    *,
    twin: bool = False,
    allow_unmodelled: bool = False,
    notes: list[str] | None = None,
) -> tuple[Scenario, list[str]]:
    """Return a scenario with ``key=value`` settings applied, and the variants its twin adds.

    A server.properties that it names is read in; what of it is ignored is appended to ``notes``.

    Raises:
        ScenarioError: naming file and key.
    """
    data, place = source(name)
    said: list[str] = [] if notes is None else notes
    read = partial(merge, allow_unmodelled=allow_unmodelled, notes=said)
    data = _each_cluster(data, Path(name).parent, place, read)
    variants: list[str] = []
    if twin:
        spec = parse(data, place).twin
        if spec is None:
            raise ScenarioError(f"{place}: has no twin")
        variants = rules.with_digests(spec.variants, Path(name).parent, f"{place}: twin.variants")
        data = apply(data, spec.set, place)
    for setting in settings:
        key, equals, text = setting.partition("=")
        if not equals:
            raise ScenarioError(f"--set {setting!r}: give key=value")
        data = override(data, key.strip(), value(text.strip()), place)
    folder = Path(name).parent
    for read_files in (resolve, processors.resolve, rules.resolve):
        data = _each_cluster(data, folder, place, read_files)
    parsed = parse(data, place)
    cut = any(setting.partition("=")[0].strip() == "duration" for setting in settings)
    # A shorter run may leave faults out, and a twin an operation.
    if not (cut or twin or parsed.name.startswith(DRAWN)):
        try:
            check_idle(parsed)
        except ValueError as error:
            raise ScenarioError(f"{place}: {error}") from None
    return parsed, variants


def _each_cluster(
    data: Mapping[str, Any],
    folder: Path,
    place: str,
    read: Callable[[Mapping[str, Any], Path, str], dict[str, Any]],
) -> dict[str, Any]:
    """Return a scenario's data, and that of each of its clusters, with the files they name read."""
    found = read(data, folder, place)
    clusters = found.get("clusters")
    if not isinstance(clusters, list):
        return found
    return {**found, "clusters": [
        read(each, folder, f"{place}: clusters.{n}") if isinstance(each, Mapping) else each
        for n, each in enumerate(clusters)
    ]}  # fmt: skip


def apply(data: Mapping[str, Any], overrides: Mapping[str, Any], place: str) -> dict[str, Any]:
    """Return the data with several keys replaced, each named by its path."""
    result = dict(data)
    for key, value in overrides.items():
        result = override(result, key, value, place)
    return result


def value(text: str) -> Any:
    """Return a value as TOML or JSON reads it, else the text itself."""
    try:
        return tomllib.loads(f"v = {text}")["v"]
    except tomllib.TOMLDecodeError:
        try:
            return json.loads(text)
        except ValueError:
            return text
