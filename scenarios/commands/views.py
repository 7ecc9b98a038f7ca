"""``kafkasim describe`` and ``kafkasim explain``: what a stored run was like, and why it failed.

``describe`` shows the cluster at a moment as Kafka's tools do, ``explain`` the causal chain of an
anomaly.
"""

from __future__ import annotations

from collections.abc import Callable
from enum import StrEnum
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Annotated

import typer

from kafkasim.analysis.explain.chain import Explanation
from kafkasim.analysis.explain.explain import firsts
from kafkasim.analysis.figures import describe as views
from kafkasim.analysis.figures import quorum as quorums
from kafkasim.analysis.figures.state import ClusterState
from kafkasim.scenarios.commands.common import InputError, heading, say, say_json, status
from kafkasim.scenarios.commands.exits import OK
from kafkasim.scenarios.commands.places import ClusterName, RunName, cluster_directories
from kafkasim.scenarios.commands.runs import Apps, Settings, Variants, run_request
from kafkasim.scenarios.running.stored import explain as explain_run
from kafkasim.scenarios.running.stored import state_at


class View(StrEnum):
    """What can be described."""

    topics = "topics"
    groups = "groups"
    quorum = "quorum"
    brokers = "brokers"
    reassignments = "reassignments"
    log_dirs = "log-dirs"
    acls = "acls"
    streams = "streams"


WHOLE = {
    View.brokers: views.brokers,
    View.reassignments: views.reassignments,
    View.acls: views.acls,
}
"""The views that no option narrows."""

RunDirectory = Annotated[
    Path, typer.Argument(metavar="RUN", help="The directory of a run (run --out), or of a fleet.")
]
Moment = Annotated[
    str,
    typer.Option("--at", metavar="T", help="Time since ready, as 20s or 1m; or ready, or end."),
]


WithoutInternal = Annotated[
    bool, typer.Option("--exclude-internal", help="topics: without internal topics.")
]


def describe(
    place: RunDirectory,
    what: Annotated[View, typer.Argument(metavar="VIEW", help="What to describe.")],
    at: Moment = "end",
    topic: Annotated[str | None, typer.Option(help="topics, log-dirs: only this topic.")] = None,
    group: Annotated[str | None, typer.Option(help="groups, streams: only this group.")] = None,
    exclude_internal: WithoutInternal = False,
    under_replicated: Annotated[
        bool,
        typer.Option("--under-replicated", help="topics: only partitions with ISR < replicas."),
    ] = False,
    under_min_isr: Annotated[
        bool, typer.Option("--under-min-isr", help="topics: only partitions with ISR < min ISR.")
    ] = False,
    at_min_isr: Annotated[
        bool, typer.Option("--at-min-isr", help="topics: only partitions with ISR = min ISR.")
    ] = False,
    replication: Annotated[
        bool, typer.Option("--replication", help="quorum: a row for each voter and observer.")
    ] = False,
    unavailable: Annotated[
        bool, typer.Option("--unavailable", help="topics: only partitions without a live leader.")
    ] = False,
    run: RunName = "",
    cluster: ClusterName = "",
) -> int:
    """Show the cluster of a run at a moment, as Kafka's own tools do.

    The state is what the controller, the leaders and the group coordinators had committed by that
    moment, according to the trace. A value that is not in the trace is shown as —.
    """
    selection = views.Selection(
        topic, exclude_internal, under_replicated, under_min_isr, at_min_isr, unavailable
    )
    narrowed: dict[View, Callable[[ClusterState], list[str]]] = {
        View.topics: lambda state: views.topics(state, selection),
        View.groups: lambda state: views.groups(state, group),
        View.streams: lambda state: views.streams(state, group),
        View.log_dirs: lambda state: views.log_dirs(state, topic),
        View.quorum: quorums.replication if replication else quorums.status,
    }
    with cluster_directories(place, run, cluster) as found:
        for name, directory in found.items():
            heading(name, found)
            state = state_at(directory, at, logs=what is View.log_dirs)
            for line in {**WHOLE, **narrowed}[what](state):
                say(line)
    return OK


RunOrScenario = Annotated[
    str,
    typer.Argument(
        metavar="RUN", help="The directory of a run or a fleet (--out), or a scenario to run."
    ),
]


def explain(
    place: RunOrScenario,
    anomaly: Annotated[
        str | None,
        typer.Argument(
            metavar="[ANOMALY]",
            help="An anomaly (default: all), or a record of a compacted topic, as orders-0@17.",
        ),
    ] = None,
    seed: Annotated[int, typer.Option(min=0, help="The seed of a scenario.")] = 0,
    settings: Settings = None,
    app: Apps = None,
    variant: Variants = None,
    twin: Annotated[bool, typer.Option("--twin", help="Explain the scenario's twin.")] = False,
    everywhere: Annotated[
        bool, typer.Option("--all", help="Explain it in every partition, not only in the first.")
    ] = False,
    run: RunName = "",
    cluster: ClusterName = "",
    json: Annotated[bool, typer.Option("--json", help="Print only JSON.")] = False,
) -> int:
    """Explain why a run failed: the steps that led to each anomaly, with Kafka's rules.

    The steps come from the trace: which replicas had the record, which one was elected and why,
    which one truncated. For a run without progress they say what waits for what; for a compacted
    record, which cleaning removed it, and which later record has its key. => marks the step without
    which the anomaly would not be there.
    """
    if Path(place).is_dir() or place.endswith((".parquet", ".json")):
        explained = _explained(Path(place), run, cluster, anomaly)
    elif run:
        raise InputError(f"--run {run}: {place} is no directory of a fleet")
    else:
        asked = run_request(place, settings, variant, twin, app=app)
        with TemporaryDirectory(prefix="kafkasim-") as scratch, status(f"{place}, seed {seed} …"):
            asked.run(seed, Path(scratch))
            explained = _explained(Path(scratch), "", cluster, anomaly)
    if anomaly is not None and not any(some for some, _ in explained.values()):
        raise InputError(f"{anomaly}: not found in the run; without a name, all are explained")
    if json:
        told = {name: [_as_data(each) for each in some] for name, (some, _) in explained.items()}
        say_json(told if len(told) > 1 else next(iter(told.values())))
        return OK
    for name, (some, ready_us) in explained.items():
        heading(name, explained)
        if not some:
            say("nothing to explain: the run shows no anomaly")
        for number, same in enumerate(firsts(some).values()):
            _tell(same, ready_us, everywhere, number > 0)
    return OK


def _explained(
    place: Path, run: str, cluster: str, anomaly: str | None
) -> dict[str, tuple[list[Explanation], int]]:
    """Return by cluster what ``stored.explain`` says of a run."""
    with cluster_directories(place, run, cluster) as found:
        return {name: explain_run(each, anomaly) for name, each in found.items()}


def _tell(found: list[Explanation], ready_us: int, everywhere: bool, apart: bool) -> None:
    """Print the explanations of one anomaly, or the first and where the others are."""
    shown = found if everywhere else found[:1]
    for index, each in enumerate(shown):
        if apart or index:
            say()
        for line in each.lines(ready_us):
            say(line)
    others = list(dict.fromkeys(each.where for each in found[len(shown) :] if each.where))
    if others:
        say(f"  also in {', '.join(others)} (--all)")


def _as_data(each: Explanation) -> dict[str, object]:
    return {
        "anomaly": each.anomaly, "where": each.where, "found": each.found, "expected": each.excuse,
        "conclusion": each.conclusion, "place": list(each.place),
        "turn": None if each.turn is None else each.turn.seq,
        "steps": [
            {"seq": step.seq, "t_us": step.t_us, "fact": step.fact, "text": step.text,
             "rule": step.rule}
            for step in each.steps
        ],
    }  # fmt: skip
