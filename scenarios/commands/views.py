"""``kafkasim describe``: the cluster of a stored run at a moment, as Kafka's tools show it."""

from __future__ import annotations

from enum import StrEnum
from pathlib import Path
from typing import Annotated

import typer

from kafkasim.scenarios.commands.common import OK, run_directory, say
from kafkasim.scenarios.showing import describe as views
from kafkasim.scenarios.showing import quorum as quorums
from kafkasim.scenarios.showing.state import state_at


class View(StrEnum):
    """What can be described."""

    topics = "topics"
    groups = "groups"
    quorum = "quorum"
    brokers = "brokers"
    reassignments = "reassignments"
    log_dirs = "log-dirs"


RunDirectory = Annotated[
    Path, typer.Argument(metavar="RUN", help="The directory of a run (run --out, fleet --out).")
]
Moment = Annotated[
    str,
    typer.Option("--at", metavar="T", help="Seconds after ready, 20s, 1m, ready, or end."),
]


def describe(
    run: RunDirectory,
    what: Annotated[View, typer.Argument(help="What to describe.")],
    at: Moment = "end",
    topic: Annotated[str | None, typer.Option(help="topics, log-dirs: only this topic.")] = None,
    group: Annotated[str | None, typer.Option(help="groups: only this group.")] = None,
    exclude_internal: Annotated[
        bool, typer.Option("--exclude-internal", help="topics: without internal topics.")
    ] = False,
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
) -> int:
    """Show the cluster of a run at a moment, as Kafka's own tools do.

    The state is rebuilt from the trace: what the controller, the leaders and the group coordinators
    had committed by then. What a trace does not tell is shown as —.
    """
    state = state_at(run_directory(run), at, logs=what is View.log_dirs)
    if what is View.topics:
        selection = views.Selection(
            topic, exclude_internal, under_replicated, under_min_isr, at_min_isr, unavailable
        )
        lines = views.topics(state, selection)
    elif what is View.groups:
        lines = views.groups(state, group)
    elif what is View.reassignments:
        lines = views.reassignments(state)
    elif what is View.log_dirs:
        lines = views.log_dirs(state, topic)
    elif what is View.quorum:
        lines = quorums.replication(state) if replication else quorums.status(state)
    else:
        lines = views.brokers(state)
    for line in lines:
        say(line)
    return OK
