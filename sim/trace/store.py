"""What a run leaves on disk beside its trace: the manifest and the wall times.

A run directory holds ``trace.parquet``, ``manifest.json`` and ``timing.json``. The manifest is
written last, under a temporary name, and then renamed: it is the commit marker, and a directory
without one is an unfinished run. Wall times are in ``timing.json`` alone, so that a repeated run
writes the same bytes everywhere else.
"""

from __future__ import annotations

import functools
import hashlib
import json
import os
from collections.abc import Iterable, Iterator, Mapping
from importlib.resources import files
from importlib.resources.abc import Traversable
from pathlib import Path
from typing import Any

from kafkasim.model.facts import SCHEMA_VERSION

TRACE_FILE = "trace.parquet"
MANIFEST_FILE = "manifest.json"
TIMING_FILE = "timing.json"


class ManifestError(Exception):
    """A run directory has no usable manifest."""

    def __init__(self, path: str, reason: str) -> None:
        super().__init__(path, reason)
        self.path = path
        self.reason = reason

    def __str__(self) -> str:
        return f"{self.path}: {self.reason}"


MANIFEST_KEYS = (
    "scenario",
    "seed",
    "variants",
    "code_version",
    "config_digest",
    "schema_version",
    "rows",
    "digest",
    "reason",
)
"""The keys of every manifest; a run adds those of its verdict (claim, permits and others)."""


_MANIFEST_TYPES: dict[str, type] = {
    "scenario": str, "seed": int, "variants": list, "code_version": str, "config_digest": str,
    "rows": int, "digest": str, "reason": str, "ready_us": int, "topics": dict, "verdict": str,
    "spec": dict, "anomalies": list, "expected": list, "missing": list, "observations": dict,
    "findings": list, "judges": str,
}  # fmt: skip


def write_manifest(directory: Path, manifest: Mapping[str, Any]) -> None:
    """Commit a run: write its manifest, last of all files.

    Raises:
        ValueError: a key of ``MANIFEST_KEYS`` is missing.
    """
    missing = [key for key in MANIFEST_KEYS if key not in manifest]
    if missing:
        raise ValueError(f"the manifest lacks {', '.join(missing)}")
    _write_atomically(directory / MANIFEST_FILE, _json(manifest))


def read_manifest(directory: Path | str) -> dict[str, Any]:
    """Return the manifest of a run directory.

    Raises:
        ManifestError: the manifest is missing, no JSON, incomplete, or of another schema version.
    """
    path = Path(directory) / MANIFEST_FILE
    try:
        manifest = json.loads(path.read_text(encoding="utf-8"))
    except FileNotFoundError:
        raise ManifestError(str(path), "no such file: the run never finished") from None
    except OSError as error:
        raise ManifestError(str(path), f"cannot be read: {error.strerror}") from None
    except (ValueError, RecursionError) as error:
        raise ManifestError(str(path), f"is no JSON: {error}") from None
    if not isinstance(manifest, dict):
        raise ManifestError(str(path), "is no JSON object")
    missing = [key for key in MANIFEST_KEYS if key not in manifest]
    if missing:
        raise ManifestError(str(path), f"lacks {', '.join(missing)}")
    found = manifest["schema_version"]
    if found != SCHEMA_VERSION:
        raise ManifestError(str(path), f"has schema version {found}, this code {SCHEMA_VERSION}")
    for key, kind in _MANIFEST_TYPES.items():
        if key in manifest and not isinstance(manifest[key], kind):
            raise ManifestError(str(path), f"{key} is no {kind.__name__}: {manifest[key]!r:.80}")
    for key in ("seed", "rows", "ready_us"):
        if not 0 <= manifest.get(key, 0) < 2**63 or isinstance(manifest.get(key), bool):
            raise ManifestError(str(path), f"{key} is no count of 64 bits: {manifest[key]!r:.80}")
    if not all(isinstance(each, str) for each in manifest["variants"]):
        raise ManifestError(str(path), "variants is no list of names")
    return manifest


def write_timing(directory: Path, timing: Mapping[str, Any]) -> None:
    """Write the wall times of a run, which differ when it is repeated."""
    _write_atomically(directory / TIMING_FILE, _json(timing))


def config_digest(configuration: Any) -> str:
    """Return a digest of a configuration made of JSON values, whatever the order of its keys."""
    text = json.dumps(configuration, sort_keys=True, separators=(",", ":"), ensure_ascii=True)
    return hashlib.sha256(text.encode()).hexdigest()[:16]


@functools.cache
def code_version() -> str:
    """Return a digest of the sources that decide what a run does: model, sim, scenarios."""
    return sources_digest(files("kafkasim"), ("model", "sim", "scenarios"))


@functools.cache
def judges_version() -> str:
    """Return a digest of the sources that decide what is found in a run: judges and facts."""
    return sources_digest(files("kafkasim"), ("analysis/judging", "model/facts"))


def sources_digest(root: Traversable, packages: Iterable[str]) -> str:
    """Return a digest of the names and contents of Python and TOML files below ``root``.

    The root may lie in an archive, as on an executor that was given a wheel.
    """
    digest = hashlib.sha256()
    for package in packages:
        if not (root / package).is_dir():
            continue
        for name, source in _sources(root / package, package):
            content = hashlib.sha256(source.read_bytes()).hexdigest()
            digest.update(f"{name} {content}\n".encode())
    return digest.hexdigest()[:16]


def _sources(directory: Traversable, name: str) -> Iterator[tuple[str, Traversable]]:
    for each in sorted(directory.iterdir(), key=lambda each: each.name):
        inner = f"{name}/{each.name}"
        if each.is_dir():
            yield from _sources(each, inner)
        elif each.name.endswith((".py", ".toml")):
            yield inner, each


def _json(content: Mapping[str, Any]) -> str:
    return json.dumps(content, indent=2, sort_keys=True, ensure_ascii=False) + "\n"


def _write_atomically(path: Path, text: str) -> None:
    temporary = path.with_name(f".{path.name}.tmp")
    temporary.write_text(text, encoding="utf-8", newline="\n")
    os.replace(temporary, path)
