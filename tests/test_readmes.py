"""READMEs point at code that exists, and fit the width of a terminal.

In a README, a reference such as `partition/leader.py:LeaderState.maybe_expand` in backticks names
a file, from the README's folder or from the repository's root, and a class, function, method or
constant in it.
"""

from __future__ import annotations

import ast
import re
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[1]
TOPS = ("model", "sim", "scenarios", "analysis", "tests")
READMES = [
    ROOT / "README.md",
    *sorted(path for top in TOPS for path in (ROOT / top).rglob("README.md")),
]
REFERENCE = re.compile(r"`([\w./-]+\.py):([\w.]+)`")
FILE = re.compile(r"`([\w-]+(?:/[\w.-]+)*\.(?:py|toml|md))`")


def definitions(path: Path) -> set[str]:
    """Return the dotted names that a file defines."""
    found: set[str] = set()

    def collect(nodes: list[ast.stmt], prefix: str) -> None:
        for node in nodes:
            if isinstance(node, ast.ClassDef):
                found.add(prefix + node.name)
                collect(node.body, f"{prefix}{node.name}.")
            elif isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef):
                found.add(prefix + node.name)
            elif isinstance(node, ast.AnnAssign) and isinstance(node.target, ast.Name):
                found.add(prefix + node.target.id)
            elif isinstance(node, ast.Assign):
                found.update(prefix + t.id for t in node.targets if isinstance(t, ast.Name))

    collect(ast.parse(path.read_text()).body, "")
    return found


def located(readme: Path, name: str) -> Path | None:
    candidates = (readme.parent / name, ROOT / name)
    return next((path for path in candidates if path.is_file()), None)


@pytest.mark.parametrize("readme", READMES, ids=lambda path: str(path.relative_to(ROOT)))
def test_references_of_a_readme_resolve(readme: Path) -> None:
    wrong = []
    text = readme.read_text()
    for name, definition in REFERENCE.findall(text):
        path = located(readme, name)
        if path is None or definition not in definitions(path):
            wrong.append(f"{name}:{definition}")
    wrong += [name for name in FILE.findall(text) if located(readme, name) is None]
    assert not wrong, "\n".join(["", *wrong])


@pytest.mark.parametrize("readme", READMES, ids=lambda path: str(path.relative_to(ROOT)))
def test_lines_of_a_readme_fit_a_terminal(readme: Path) -> None:
    """A row of a table cannot be broken, so it may be longer."""
    lines = readme.read_text().splitlines()
    long = [line for line in lines if len(line) > 100 and not line.startswith("|")]
    assert not long, "\n".join(["", *long])
