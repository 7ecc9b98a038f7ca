"""The public Python API; ``import kafkasim`` hands it on.

    import kafkasim

    outcome = kafkasim.run("acks-one-loses", seed=7)
    outcome.verdict                              # "expected"
    outcome.anomalies                            # ["lost-write"]
    outcome.facts("BecameLeader").to_pylist()    # a pyarrow.Table, one column a field
    print("\\n".join(outcome.story()))

A run is a function of scenario, settings, variants and seed: the same call gives the same digest in
any process. Names of facts and their fields are those of :mod:`kafkasim.model.facts`; times are
microseconds of simulated time since the hosts were switched on.
"""

from __future__ import annotations

import base64
import html
import json
import shutil
import tempfile
import weakref
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq

from kafkasim.analysis.explain.explain import firsts
from kafkasim.analysis.judging.verdict import Result
from kafkasim.analysis.story.clients import noticed
from kafkasim.analysis.story.story import tell
from kafkasim.model.facts import FACTS
from kafkasim.scenarios.language import library
from kafkasim.scenarios.language.files import processors, rules
from kafkasim.scenarios.language.files.applications import resolve
from kafkasim.scenarios.language.spec import ScenarioError, parse
from kafkasim.scenarios.language.tables import Scenario
from kafkasim.scenarios.running import report, runner
from kafkasim.scenarios.running.stored import explain
from kafkasim.scenarios.variants.variant import VariantError
from kafkasim.sim.trace.store import TRACE_FILE

__all__ = ["Outcome", "ScenarioError", "run"]

ROW = ("seq", "t_us", "node")
"""What every fact has beside its own fields: its place in the trace, its time, its host."""

STORY_LINES = 200


@dataclass(frozen=True)
class Outcome:
    """One finished run: its verdict, and the trace it left in ``directory``.

    Without a directory given to :func:`run`, the trace lies in a temporary one that is deleted with
    the last reference to this object.
    """

    result: Result
    directory: Path

    @property
    def verdict(self) -> str:
        """``pass``, ``expected`` (the scenario permits what was found) or ``fail``."""
        return self.result.verdict

    @property
    def anomalies(self) -> list[str]:
        """What was found, by name: invariants and delivery anomalies, sorted."""
        return list(self.result.anomalies)

    @property
    def digest(self) -> str:
        """The sha256 over all facts of the run, in hexadecimal digits."""
        return self.result.digest

    def facts(self, kind: str | None = None) -> pa.Table:
        """Return the facts of one kind, in the order in which they happened.

        Without ``kind``, return all facts in one wide table with a ``kind`` column; the columns
        that a kind does not have are null.

        Raises:
            ValueError: there is no such kind of fact; the message names those that exist.
        """
        path = self.directory / TRACE_FILE
        if kind is None:
            return pq.read_table(path)
        if kind not in FACTS:
            raise ValueError(f"no kind of fact {kind!r}; allowed: {', '.join(sorted(FACTS))}")
        columns = [*ROW, *FACTS[kind].__dataclass_fields__]  # type: ignore[attr-defined]
        return pq.read_table(path, columns=columns, filters=[("kind", "=", kind)])

    def story(self, lines: int = STORY_LINES) -> list[str]:
        """Return what happened in Kafka's words, as ``kafkasim run --explain`` prints it."""
        return tell(self.directory, lines)

    def noticed(self) -> list[str]:
        """Return what the clients noticed: a line for each topic that was sent to, and group."""
        return noticed(self.directory)

    def explain(self, anomaly: str | None = None) -> list[str]:
        """Return why each anomaly came about (or one of them), as ``kafkasim explain`` prints it.

        Raises:
            ValueError: the run does not show ``anomaly``.
        """
        explained, ready_us = explain(self.directory, anomaly)
        if anomaly is not None and not explained:
            found = ", ".join(self.anomalies) or "nothing"
            raise ValueError(f"the run does not show {anomaly!r}; it shows {found}")
        return [line for some in firsts(explained).values() for line in some[0].lines(ready_us)]

    def _repr_html_(self) -> str:
        """Return what a notebook shows: verdict, findings, and who was in which ISR, when."""
        from kafkasim.analysis.plots.isr_flapping import png_of  # here: it imports matplotlib

        drawn = base64.b64encode(png_of(self.directory)).decode()
        lines = [*report.remarks(self.result), *report.findings(self.result)]
        return (
            f"<b>{html.escape(report.headline(self.result))}</b>"
            f"<pre>{html.escape(chr(10).join(lines))}</pre>"
            f'<img alt="ISRs over time" style="max-width:100%" src="data:image/png;base64,{drawn}">'
        )


def run(
    scenario: str | Path | Mapping[str, Any],
    *,
    seed: int = 1,
    settings: Mapping[str, Any] | None = None,
    twin: bool = False,
    variants: Sequence[str] = (),
    directory: str | Path | None = None,
) -> Outcome:
    """Run one scenario with one seed and judge it.

    Args:
        scenario: the name of a built-in scenario, the path of a TOML file, or the same tables as
            a mapping.
        seed: every draw of the run follows from it; 0 or more.
        settings: values that replace the scenario's, by dotted key, as ``--set`` takes them:
            ``{"cluster.config.replica.lag.time.max.ms": 10_000}``.
        twin: run the scenario's twin, whose check must fail.
        variants: ids of broken or older rules, as ``kafkasim list --variants`` prints them, or
            rules of your own: ``FILE.py[:CLASS]``.
        directory: where trace and manifest go and stay; created if it does not exist.

    Raises:
        ScenarioError: the scenario, the seed, a setting or a variant is not right; one line that
            names the place and what is allowed.
    """
    if type(seed) is not int or seed < 0:
        raise ScenarioError(f"seed: {seed!r} is not valid; allowed: integers from 0 on")
    checked, added = _checked(scenario, settings or {}, twin)
    added += rules.with_digests(variants, Path(), "variants")
    place = Path(tempfile.mkdtemp(prefix="kafkasim-") if directory is None else directory)
    try:
        outcome = Outcome(runner.run(checked, seed, place, added), place)
    except VariantError as error:
        raise ScenarioError(str(error)) from None
    if directory is None:
        weakref.finalize(outcome, shutil.rmtree, place, ignore_errors=True)
    return outcome


def _checked(
    scenario: str | Path | Mapping[str, Any], settings: Mapping[str, Any], twin: bool
) -> tuple[Scenario, list[str]]:
    """Return the scenario with its settings applied, and the variants that its twin adds."""
    if not isinstance(scenario, Mapping):
        given = [f"{key}={json.dumps(value)}" for key, value in settings.items()]
        return library.scenario(str(scenario), given, twin=twin)
    place = "the scenario"
    data, added = dict(scenario), []
    if twin:
        table = parse(data, place).twin
        if table is None:
            raise ScenarioError(f"{place}: has no twin")
        data, added = library.apply(data, table.set, place), list(table.variants)
    data = processors.resolve(library.apply(data, settings, place), Path(), place)
    data = resolve(data, Path(), place)
    added = rules.with_digests(added, Path(), f"{place}: twin.variants")
    return parse(rules.resolve(data, Path(), place), place), added
