"""Pictures of runs, as PNG and SVG, drawn from small collected rows.

``draw(kind, directory, out)`` is what the command line calls; a kind is a module here.
"""

from __future__ import annotations

from pathlib import Path

from kafkasim.analysis.plots import fleet_view, isr_flapping, latency
from kafkasim.analysis.runs import BadInput

KINDS = {
    "isr-flapping": isr_flapping.draw,
    "latency": latency.draw,
    "fleet": fleet_view.draw,
}
"""Every kind of plot: a function from the directory of a run (or fleet) and a path to files."""


def draw(kind: str, directory: Path, out: Path | None = None) -> list[Path]:
    """Draw one kind of picture of ``directory`` and return the files written.

    ``out`` is a path without suffix, by default ``<directory>/<kind>``.

    Raises:
        BadInput: no such kind, or the directory holds nothing to draw.
    """
    if kind not in KINDS:
        raise BadInput(f"no plot {kind!r}; allowed: {', '.join(KINDS)}")
    return KINDS[kind](directory, directory / kind if out is None else out)


__all__ = ["KINDS", "draw"]
