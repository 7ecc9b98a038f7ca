"""Run the sweeps of the catalogue and write their page: ``make sweeps``.

The page is ``scenarios/catalogue/sweeps/README.md`` with a picture for each sweep beside it. What a
sweep found is the claim of its scenario, written by whoever looked at the picture.
"""

from __future__ import annotations

import shutil
import sys
import textwrap
from collections.abc import Sequence
from pathlib import Path

from kafkasim.scenarios.commands.common import say
from kafkasim.scenarios.commands.spark.fleets import spark_session
from kafkasim.scenarios.commands.spark.sweeps import answer, plan, show_sweep
from kafkasim.scenarios.language import library

HEAD = """\
# Sweeps: what settings buy and cost

Questions that people argue about, each answered by many runs on the same seeds. `make sweeps`
writes this page and its pictures anew; `kafkasim sweep NAME` answers one of them, with `--grid`
for other axes and `--runs` for more seeds. Numbers in a cell are medians over the runs of a point,
or means where most runs have none (a picture says which).
"""


def section(name: str) -> str:
    """Return the part of the page about one sweep."""
    scenario = library.scenario(name)[0]
    assert scenario.sweep is not None, name
    picture = library.SWEEPS / f"{name}.png"
    shown = f"\n![{name}]({name}.png)\n" if picture.exists() else ""
    points = len(plan(name, [], None, [], []).points)
    return f"""
## {scenario.sweep.question}

{textwrap.fill(scenario.claim, 100)}

    kafkasim sweep {name}   # {points} points, {scenario.sweep.runs} seeds of each
{shown}"""


def page() -> str:
    """Return the whole page."""
    return HEAD + "".join(section(name) for name in library.sweeps())


def draw(name: str, out: Path) -> None:
    """Run one sweep of the catalogue below ``out`` and put its picture beside the scenario."""
    place = out / name
    show_sweep(*answer(spark_session(), name, place))
    shutil.copy(place / "sweep.png", library.SWEEPS / f"{name}.png")


def main(arguments: Sequence[str]) -> None:
    """Run the named sweeps, or all of them, and write the page."""
    out, *names = arguments or ["sweeps"]
    for name in names or library.sweeps():
        draw(name, Path(out))
    (library.SWEEPS / "README.md").write_text(page(), encoding="utf-8")
    say(f"written: {library.SWEEPS / 'README.md'}")


if __name__ == "__main__":
    main(sys.argv[1:])
