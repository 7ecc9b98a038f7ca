"""The file of a user's application that a workload names: ``app = "my_app.py:main"``."""

from __future__ import annotations

import ast
import hashlib
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from kafkasim.scenarios.language.spec import ScenarioError
from kafkasim.scenarios.language.tables import ConsumerGroupTable, ProducerTable, Scenario

MAIN = "main"
"""The function of a file that names none."""


def split(app: str) -> tuple[Path, str]:
    """Return file and function of ``FILE[:FUNCTION]``."""
    file, colon, function = app.rpartition(":")
    return (Path(file), function) if colon and file else (Path(app), MAIN)


def digest(app: str, place: str) -> str:
    """Return the digest of an application's file; check that it has the function.

    Raises:
        ScenarioError: no such file, not Python, or no ``async def`` of that name that can be
            called without arguments.
    """
    path, function = split(app)
    try:
        source = path.read_text(encoding="utf-8")
        tree = ast.parse(source, str(path))
    except OSError as error:
        raise ScenarioError(f"{place}: {path}: cannot be read: {error.strerror}") from None
    except SyntaxError as error:
        raise ScenarioError(f"{path}:{error.lineno}: not Python: {error.msg}") from None
    except ValueError as error:
        raise ScenarioError(f"{place}: {str(path)!r}: not Python: {error}") from None
    known = {node.name: node for node in tree.body if isinstance(node, ast.AsyncFunctionDef)}
    if function not in known and not (_imports(tree, function) or _runs_itself(tree)):
        plain = [node.name for node in tree.body if isinstance(node, ast.FunctionDef)]
        if function in plain:
            found = f"`def {function}`; an application is an `async def` with aiokafka's clients"
        else:
            found = ", ".join(known) or "no `async def` at all"
        raise ScenarioError(f"{place}: {path} has no `async def {function}`; it has {found}")
    needed = _needed(known[function].args) if function in known else []
    if needed:
        raise ScenarioError(
            f"{place}: {path}: `async def {function}` is called without arguments,"
            f" but needs {', '.join(needed)}"
        )
    return hashlib.sha256(source.encode()).hexdigest()[:16]


def _imports(tree: ast.Module, name: str) -> bool:
    """Return whether a file imports a name from another module."""
    imported = [node for node in tree.body if isinstance(node, ast.ImportFrom)]
    return any((each.asname or each.name) == name for node in imported for each in node.names)


def _runs_itself(tree: ast.Module) -> bool:
    """Return whether a statement of a file is ``asyncio.run(…)``, or ``run(…)``."""
    calls = [node.value for node in tree.body if isinstance(node, ast.Expr)]
    return any(
        isinstance(call, ast.Call) and ast.unparse(call.func) in ("asyncio.run", "run")
        for call in calls
    )


def _needed(arguments: ast.arguments) -> list[str]:
    """Return the names of the parameters without a default."""
    positional = [*arguments.posonlyargs, *arguments.args]
    positional = positional[: len(positional) - len(arguments.defaults)]
    keyword = zip(arguments.kwonlyargs, arguments.kw_defaults, strict=True)
    return [a.arg for a in positional] + [a.arg for a, default in keyword if default is None]


def resolve(data: Mapping[str, Any], folder: Path, place: str) -> dict[str, Any]:
    """Return a scenario's data with the files of applications as absolute paths, and digests.

    Raises:
        ScenarioError: a file is no application.
    """
    workloads = data.get("workload")
    if not isinstance(workloads, list):
        return dict(data)
    resolved = []
    for index, table in enumerate(workloads):
        if isinstance(table, Mapping) and isinstance(table.get("app"), str):
            path, function = split(table["app"])
            app = f"{folder.absolute() / path}:{function}"
            found = digest(app, f"{place}: workload.{index}.app")
            table = {**table, "app": app, "app-digest": found}
        resolved.append(table)
    return {**data, "workload": resolved}


def check_unchanged(scenario: Scenario, place: str) -> None:
    """Check that the applications of a stored run are what they were then.

    Raises:
        ScenarioError: a file is gone, or is another one now.
    """
    for index, table in enumerate(scenario.workload):
        if isinstance(table, ConsumerGroupTable | ProducerTable) and table.app is not None:
            where = f"{place}: workload.{index}.app"
            if digest(table.app, where) != table.app_digest:
                raise ScenarioError(f"{where}: {split(table.app)[0]} was changed since the run")
