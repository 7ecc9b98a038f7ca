"""The file of a user's rules that a variant names: ``variants = ["my_rules.py:AtHighWatermark"]``.

Such a variant has an id as every other: the file's absolute path, the class if one is named, and
the digest of the file, so that a stored run is not repeated with rules that were changed since.
"""

from __future__ import annotations

import hashlib
import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from kafkasim.scenarios.language.spec import ScenarioError

ID = re.compile(r"(?P<file>.+\.py)(?::(?P<name>[^:#]*))?(?:#(?P<digest>[0-9a-f]+))?")


@dataclass(frozen=True)
class RulesFile:
    """A variant's file; ``name`` is a class of it, or "" for all; ``digest`` may be unknown: ""."""

    path: Path
    name: str
    digest: str

    @property
    def id(self) -> str:
        """The id by which worker processes and manifests know the variant."""
        return f"{self.path}{self._class}#{self.digest}"

    @property
    def shown(self) -> str:
        """The id as a user types it: without the digest, relative where the file lies below."""
        here = Path.cwd()
        path = self.path.relative_to(here) if self.path.is_relative_to(here) else self.path
        return f"{path}{self._class}"

    @property
    def _class(self) -> str:
        return f":{self.name}" if self.name else ""


def rules_file(variant: str) -> RulesFile | None:
    """Return the file that a variant's id names; None if it is the id of a built-in one."""
    found = ID.fullmatch(variant)
    if found is None:
        return None
    return RulesFile(Path(found["file"]), found["name"] or "", found["digest"] or "")


def shown(variant: str) -> str:
    """Return a variant's id as a user types it."""
    file = rules_file(variant)
    return variant if file is None else file.shown


def digest(path: Path) -> str:
    """Return the digest of a file of rules.

    Raises:
        OSError: it cannot be read.
    """
    return hashlib.sha256(path.read_bytes()).hexdigest()[:16]


def with_digests(variants: Sequence[str], folder: Path, place: str) -> list[str]:
    """Return the ids of variants, with files as absolute paths and as they are now.

    Raises:
        ScenarioError: a file cannot be read.
    """
    return [_now(variant, folder, place) for variant in variants]


def _now(variant: str, folder: Path, place: str) -> str:
    file = rules_file(variant)
    if file is None:
        return variant
    path = (folder / file.path).absolute()
    try:
        return RulesFile(path, file.name, digest(path)).id
    except OSError as error:
        raise ScenarioError(f"{place}: {file.path}: cannot be read: {error.strerror}") from None


def resolve(data: Mapping[str, Any], folder: Path, place: str) -> dict[str, Any]:
    """Return a scenario's data with the files of its variants as absolute paths, and digests.

    Raises:
        ScenarioError: a file cannot be read.
    """
    resolved = dict(data)
    for table in ("cluster", "twin"):
        for key in ("variants", "watched"):
            found = resolved.get(table)
            given = found.get(key) if isinstance(found, Mapping) else None
            if isinstance(given, list) and all(isinstance(each, str) for each in given):
                named = with_digests(given, folder, f"{place}: {table}.{key}")
                resolved[table] = {**resolved[table], key: named}
    return resolved
