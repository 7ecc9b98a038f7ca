"""Which sub-package of scenarios may know which: each knows those before it."""

from __future__ import annotations

import ast
from collections.abc import Iterator
from pathlib import Path

ROOT = Path(__file__).parents[2]
ORDER = (
    "language",
    "importing",
    "variants",
    "applications",
    "running",
    "wire",
    "searching",
    "shrinking",
    "commands",
)
"""From the language that knows none of the others to the commands that know all."""


def _arrows() -> Iterator[tuple[str, str]]:
    """Yield (module, module that it imports) in scenarios, imports under TYPE_CHECKING too."""
    paths = sorted((ROOT / "scenarios").rglob("*.py"))
    names = {".".join(path.relative_to(ROOT).with_suffix("").parts): path for path in paths}
    for name, path in names.items():
        for node in ast.walk(ast.parse(path.read_text(encoding="utf-8"))):
            if isinstance(node, ast.ImportFrom) and (node.module or "").startswith("kafkasim."):
                module = (node.module or "").removeprefix("kafkasim.")
                for alias in node.names:
                    inner = f"{module}.{alias.name}"
                    yield name, inner if inner in names else module


def test_sub_packages_know_only_those_before_them() -> None:
    wrong = []
    for name, target in _arrows():
        if not target.startswith("scenarios.") or name.count(".") < 2 or target.count(".") < 2:
            continue
        one, other = name.split(".")[1], target.split(".")[1]
        if one in ORDER and other in ORDER and ORDER.index(other) > ORDER.index(one):
            wrong.append(f"{name} imports {target}")
    assert not wrong, "\n".join(["", *wrong])
