"""The stored run that a command reads: its own directory, or one run of a fleet."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Annotated, Any

import typer

from kafkasim.scenarios.commands.common import InputError, one_line
from kafkasim.scenarios.commands.errors import INPUT_ERRORS
from kafkasim.sim.trace.store import MANIFEST_FILE, TRACE_FILE, read_manifest

RunName = Annotated[
    str,
    typer.Option(
        "--run", metavar="NAME", show_default="the first",
        help="The run of a fleet, e.g. split-brain/seed-000007, or its seed.",
    ),
]  # fmt: skip

ClusterName = Annotated[
    str,
    typer.Option(
        "--cluster", metavar="NAME", show_default="each in turn",
        help="Of a run of several clusters: only this one.",
    ),
]  # fmt: skip


@contextmanager
def run_directory(place: Path, run: str = "") -> Iterator[Path]:
    """Yield the directory of one stored run.

    ``place`` is such a directory, the trace in it, a tree of them, or the place of a fleet on this
    machine; ``run`` chooses from the last two.

    Raises:
        InputError: there is no such directory, no finished run in it, or none of that name.
    """
    path = place.parent if place.is_file() and place.name in (TRACE_FILE, MANIFEST_FILE) else place
    if not path.is_dir():
        raise InputError(f"{path}: no such directory; give the directory of a run (run --out DIR)")
    if (path / MANIFEST_FILE).is_file():
        if run:
            raise InputError(f"--run: {path} holds one run only")
        yield path
    elif run and (path / run / MANIFEST_FILE).is_file():
        yield path / run
    elif any((path / "runs").glob("*.parquet")):
        with _of_fleet(path, run) as directory:
            yield directory
    else:
        raise InputError(
            f"{path}: no finished run in this directory (no {MANIFEST_FILE}); give the directory of"
            " a run (run --out DIR), or of a fleet"
        )


@contextmanager
def cluster_directories(place: Path, run: str = "", cluster: str = "") -> Iterator[dict[str, Path]]:
    """Yield the directories of one stored run, by cluster: one for each that is to be shown.

    Of a run of several clusters these are all of them, or ``cluster``, each as if it were alone.
    A run of one cluster has the name "".

    Raises:
        InputError: there is no such run, or no such cluster in it.
    """
    from kafkasim.scenarios.running.one_cluster import write_one_cluster  # reads it with Arrow

    with run_directory(place, run) as directory, TemporaryDirectory(prefix="kafkasim-") as scratch:
        names = clusters_of(read_manifest(directory))
        if cluster not in ("", *names):
            there = f"the clusters {', '.join(names)}" if names else "one cluster, without a name"
            raise InputError(f"--cluster {cluster}: the run has {there}")
        shown = [cluster] if cluster else names
        alone = {each: write_one_cluster(directory, each, Path(scratch) / each) for each in shown}
        yield alone or {"": directory}


def clusters_of(manifest: Mapping[str, Any]) -> list[str]:
    """Return the names of the clusters of a stored run; one without names has none."""
    return [str(each["name"]) for each in (manifest.get("spec") or {}).get("clusters", ())]


@contextmanager
def _of_fleet(place: Path, run: str) -> Iterator[Path]:
    from kafkasim.analysis.extract import extracted
    from kafkasim.analysis.runs import BadInput

    try:
        with extracted(place, run) as (name, directory):
            typer.echo(f"{name} of {place}", err=True)
            try:
                yield directory
            except INPUT_ERRORS as error:  # the directory is gone when the user reads of it
                told = one_line(error)
                if str(directory) not in told:
                    raise
                raise InputError(told.replace(str(directory), f"{place}: {name}")) from None
    except BadInput as error:
        raise InputError(one_line(error)) from None
