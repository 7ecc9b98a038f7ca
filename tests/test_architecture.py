"""Who may know whom, what nobody may call, and how long things may get.

Reads the sources with ast; nothing is imported. Inside ``model`` the layers are, from above:
streams and connect; client and broker; group, transaction, share, replication, controller;
zookeeper; raft; storage; and the base of single modules that everybody knows. A layer imports
itself and lower layers; parts of one layer know each other by messages only. An exception is
written down below, with its reason.
"""

from __future__ import annotations

import ast
import functools
import gc
import sys
from collections.abc import Iterator
from pathlib import Path

import networkx
import pytest

ROOT = Path(__file__).parents[1]
TOPS = ("model", "sim", "scenarios", "analysis")
SOURCES = {
    ".".join(path.relative_to(ROOT).with_suffix("").parts).removesuffix(".__init__"): path
    for top in TOPS
    for path in sorted((ROOT / top).rglob("*.py"))
}

LAYER = {
    "streams": 6,
    "connect": 6,
    "client": 5,
    "broker": 5,
    "group": 4,
    "transaction": 4,
    "share": 4,
    "replication": 4,
    "controller": 4,
    "zookeeper": 3,
    "raft": 2,
    "storage": 1,
}
BASE = 0
PORTS = ("model.storage.files",)
"""The files port is part of the base: effects.py and sim/ name it."""

SIDEWAYS = {
    (
        "replication",
        "model.controller.common.deltas.metadata_delta",
    ): "brokers apply the controller's deltas",
    ("replication", "model.controller.common.image"): "brokers apply the controller's image",
    ("replication", "model.controller.common.records"): "the registrations inside the image",
}
"""Arrows inside one layer that are data, not behaviour: (part, module) and why."""

SIM_OF_MODEL = (
    "model.effects",
    "model.facts",
    "model.facts.world",
    "model.values",
    "model.storage.files",
    "model.messages",  # names of APIs only: faults and statistics name messages by them
)

BANNED_CALLS = {
    "time": ("model", "sim"),
    "uuid": ("model", "sim", "scenarios"),
    "secrets": TOPS,
}
"""Modules that no file of these parts imports; the wall clock of a run's own timing is CLOCKS'."""

CLOCKS = {"sim.bench_core"}
"""Modules of sim/ that measure a run on the wall, for timing.json and `make bench`."""

STAND_INS = ("scenarios.applications.stand_ins",)
"""Gives applications modules of time and chance that follow the run, made from Python's."""

BENCHES = ("sim.bench_core",)
"""Measures the bare core with a toy process, for which it needs a message."""

IDENTITY: dict[str, str] = {}
"""Modules that may call id(), and why this cannot be seen in a run."""

GLOBAL_RANDOM = {
    "random", "randint", "randrange", "choice", "choices", "shuffle", "sample", "uniform", "gauss",
    "expovariate", "getrandbits", "seed", "lognormvariate", "normalvariate", "betavariate",
}  # fmt: skip

LONG_FUNCTIONS: dict[str, int] = {}
"""A ratchet: functions over 50 lines and their limit. Lower it when one shrinks; add none."""


@functools.cache
def trees() -> dict[str, ast.Module]:
    """Return every source, parsed once, and not when each process of the suite collects tests."""
    gc.disable()  # nothing of a tree is garbage, and to look for it takes longer than to parse
    try:
        return {name: ast.parse(path.read_text(), str(path)) for name, path in SOURCES.items()}
    finally:
        gc.enable()


@functools.cache
def nodes(name: str) -> list[ast.AST]:
    """Return what the tests look at in a source: its imports, calls, assignments and functions."""
    looked_at = (ast.Import, ast.ImportFrom, ast.Call, ast.Assign, ast.AugAssign)
    looked_at += (ast.FunctionDef, ast.AsyncFunctionDef)
    return [node for node in ast.walk(trees()[name]) if isinstance(node, looked_at)]


def imports(name: str) -> Iterator[tuple[str, int]]:
    """Yield every module that a module imports, wherever the statement stands, with its line."""
    for node in nodes(name):
        if isinstance(node, ast.Import):
            for alias in node.names:
                yield alias.name.removeprefix("kafkasim."), node.lineno
        elif isinstance(node, ast.ImportFrom):
            assert node.level == 0, f"{name}:{node.lineno} imports relatively"
            module = (node.module or "").removeprefix("kafkasim.")
            for alias in node.names:
                inner = f"{module}.{alias.name}"
                yield (inner if inner in SOURCES else module), node.lineno


def arrows(top: str) -> list[tuple[str, str, int]]:
    return [
        (name, target, line)
        for name in SOURCES
        if name.split(".")[0] == top
        for target, line in imports(name)
    ]


def test_model_knows_only_the_standard_library_and_itself() -> None:
    wrong = [
        f"{name}:{line} imports {target}"
        for name, target, line in arrows("model")
        if target.split(".")[0] not in {"model", *sys.stdlib_module_names}
    ]
    assert not wrong, "\n".join(["", *wrong])


def test_model_has_no_clock_no_threads_and_no_io() -> None:
    banned = {"time", "datetime", "uuid", "os", "threading", "logging", "socket", "asyncio"}
    banned |= {"io", "pathlib", "secrets", "subprocess", "multiprocessing", "tempfile", "weakref"}
    wrong = [
        f"{name}:{line} imports {target}"
        for name, target, line in arrows("model")
        if target.split(".")[0] in banned
    ]
    assert not wrong, "\n".join(["", *wrong])


def _layer(module: str) -> int:
    parts = module.split(".")
    return LAYER.get(parts[1], BASE) if len(parts) > 1 and module not in PORTS else BASE


def test_layers_of_model_point_downwards() -> None:
    wrong = []
    for name, target, line in arrows("model"):
        if target.split(".")[0] != "model" or target == "model":
            continue
        part, other = name.split(".")[1], [*target.split("."), ""][1]
        lower = _layer(target) < _layer(name) or _layer(target) == _layer(name) == BASE
        if part != other and not lower and (part, target) not in SIDEWAYS:
            wrong.append(f"{name}:{line} imports {target}")
    assert not wrong, "\n".join(["", *wrong])


def test_sim_knows_only_the_ports_of_model() -> None:
    wrong = [
        f"{name}:{line} imports {target}"
        for name, target, line in arrows("sim")
        if target.split(".")[0] in TOPS
        and target.split(".")[0] != "sim"
        and target not in SIM_OF_MODEL
        and name not in BENCHES
    ]
    assert not wrong, "\n".join(["", *wrong])


def test_sim_takes_only_the_names_of_requests_from_messages() -> None:
    names = [
        f"{name}: {alias.name}"
        for name in SOURCES
        if name.startswith("sim") and name not in BENCHES
        for node in nodes(name)
        if isinstance(node, ast.ImportFrom) and node.module == "kafkasim.model.messages"
        for alias in node.names
        if alias.name not in ("api_of", "request_name")
    ]
    assert not names, "\n".join(["", *names])


SAYS_A_RUN = (
    "analysis.judging", "analysis.story", "analysis.explain",
    "analysis.figures.state",  # of `describe`
    "analysis.plots.isr_flapping",  # of an Outcome in a notebook
)  # fmt: skip


def test_scenarios_know_of_analysis_only_the_judges_and_what_says_a_run() -> None:
    # The command line is the one place where everything meets.
    wrong = [
        f"{name}:{line} imports {target}"
        for name, target, line in arrows("scenarios")
        if target.split(".")[0] == "analysis"
        and not target.startswith(SAYS_A_RUN)
        and not name.startswith(("scenarios.cli", "scenarios.commands"))
    ]
    assert not wrong, "\n".join(["", *wrong])


READS_RUNS = ("analysis.story", "analysis.explain", "analysis.figures")
"""What says a stored run in words and tables: it reads the run directory."""

READING = ("sim.trace.reading", "sim.trace.store")

RUNS_SCENARIOS = (
    "analysis.source.jobs",
    "analysis.source.work",
    "analysis.source.task",
    "analysis.fleet",
)
"""The modules of analysis that run scenarios; all others read what is stored."""


def test_analysis_knows_the_facts_and_only_the_source_knows_scenarios() -> None:
    wrong = [
        f"{name}:{line} imports {target}"
        for name, target, line in arrows("analysis")
        if target.split(".")[0] in TOPS
        and target.split(".")[0] != "analysis"
        and not target.startswith("model.facts")
        and not (name.startswith("analysis.judging") and target.split(".")[0] == "model")
        and not (name.startswith(READS_RUNS) and target in READING)
        and not (name in RUNS_SCENARIOS and target.split(".")[0] in ("scenarios", "sim"))
    ]
    assert not wrong, "\n".join(["", *wrong])


def _called(node: ast.Call) -> str:
    parts: list[str] = []
    function: ast.expr = node.func
    while isinstance(function, ast.Attribute):
        parts.append(function.attr)
        function = function.value
    if isinstance(function, ast.Name):
        parts.append(function.id)
    return ".".join(reversed(parts))


def test_nothing_reads_real_time_global_randomness_or_identity() -> None:
    wrong = []
    for name in SOURCES:
        if name.split(".")[0] not in ("model", "sim"):
            continue
        for node in nodes(name):
            if not isinstance(node, ast.Call):
                continue
            called = _called(node)
            head, _, last = called.rpartition(".")
            clock = head == "time" and name not in CLOCKS
            now = last in ("now", "utcnow", "today") and head.endswith(("datetime", "date"))
            draw = head == "random" and last in GLOBAL_RANDOM
            identity = called == "hash" or (called == "id" and name not in IDENTITY)
            identity = identity or head == "uuid" or called == "os.urandom"
            if clock or now or draw or identity:
                wrong.append(f"{name}:{node.lineno} calls {called}")
    assert not wrong, "\n".join(["", *wrong])


@pytest.mark.parametrize("banned", sorted(BANNED_CALLS))
def test_banned_modules_are_not_imported(banned: str) -> None:
    wrong = [
        f"{name}:{line} imports {target}"
        for top in BANNED_CALLS[banned]
        for name, target, line in arrows(top)
        if target.split(".")[0] == banned and name not in CLOCKS and name not in STAND_INS
    ]
    assert not wrong, "\n".join(["", *wrong])


def test_nothing_is_patched() -> None:
    """A variant is a subclass of a rules class; a patch would leak into the next run."""
    wrong = []
    for name in SOURCES:
        known = {  # a module may finish its own classes, never another's
            (alias.asname or alias.name).split(".")[0]
            for node in nodes(name)
            if isinstance(node, ast.Import | ast.ImportFrom)
            for alias in node.names
        }
        for node in nodes(name):
            if isinstance(node, ast.Call) and _called(node) == "setattr":
                first = node.args[0]
                if isinstance(first, ast.Name) and first.id in known:
                    wrong.append(f"{name}:{node.lineno} sets an attribute of {first.id}")
            if isinstance(node, ast.Assign | ast.AugAssign):
                targets = node.targets if isinstance(node, ast.Assign) else [node.target]
                for target in targets:
                    if (
                        isinstance(target, ast.Attribute)
                        and isinstance(target.value, ast.Name)
                        and target.value.id in known
                    ):
                        wrong.append(f"{name}:{node.lineno} assigns {ast.unparse(target)}")
        wrong += [
            f"{name}:{line} imports {target}"
            for target, line in imports(name)
            if target.startswith(("unittest", "pytest", "_pytest"))
        ]
    assert not wrong, "\n".join(["", *wrong])


def test_functions_are_short() -> None:
    wrong = []
    for name in SOURCES:
        for node in nodes(name):
            if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef):
                lines = (node.end_lineno or node.lineno) - node.lineno + 1
                if lines > LONG_FUNCTIONS.get(f"{name}.{node.name}", 50):
                    wrong.append(f"{name}.{node.name}: {lines} lines")
    assert not wrong, "\n".join(["", *wrong])


def test_every_module_says_what_it_is() -> None:
    wrong = [
        name for name, tree in trees().items() if tree.body and ast.get_docstring(tree) is None
    ]
    assert not wrong, "\n".join(["", *wrong])


def test_files_do_not_import_each_other_in_circles() -> None:
    """Imports under TYPE_CHECKING count: a part that needs its owner's name knows its owner."""
    arrows = [(name, target) for name in SOURCES for target, _ in imports(name)]
    graph = networkx.DiGraph([(a, b) for a, b in arrows if b in SOURCES and a != b])
    components = networkx.strongly_connected_components(graph)
    circles = sorted(sorted(circle) for circle in components if len(circle) > 1)
    assert not circles, "\n".join(["", *(" ".join(circle) for circle in circles)])


def _folder(module: str) -> str:
    return str(SOURCES[module].parent.relative_to(ROOT))


def test_folders_hold_three_modules_and_lie_at_most_two_below_the_top() -> None:
    """Of what is run and what a trace says; a smaller folder says less than a module's name."""
    modules: dict[str, int] = {}
    for name in SOURCES:
        folder = _folder(name)
        if name.split(".")[0] in ("scenarios", "analysis") and folder != "scenarios/catalogue":
            modules[folder] = modules.get(folder, 0) + (SOURCES[name].name != "__init__.py")
    small = [folder for folder, n in modules.items() if n < 3 and folder.count("/")]
    deep = [folder for folder in modules if folder.count("/") > 2]
    assert (small, deep) == ([], [])


def test_folders_of_scenarios_and_analysis_know_each_other_in_no_circle() -> None:
    """A folder and the folders in it count as one where they know each other."""
    graph = networkx.DiGraph()
    for top in ("scenarios", "analysis"):
        for name, target, _ in arrows(top):
            if target in SOURCES and target.split(".")[0] in ("scenarios", "analysis"):
                one, other = _folder(name), _folder(target)
                if not f"{one}/".startswith(f"{other}/") and not f"{other}/".startswith(f"{one}/"):
                    graph.add_edge(one, other)
    circles = [sorted(c) for c in networkx.strongly_connected_components(graph) if len(c) > 1]
    assert circles == []
