"""How often an excuse hides a variant: ``python -m kafkasim.scenarios.bench.excuses``.

Every variant runs by its own script, and with drawn scenarios in which, without it, a fault costs
records that Kafka may lose. A seed *shows* the variant if the run has findings that the same run
without the variant has not. An excuse *hides* it if all of them are expected, so that nobody would
look at the seed. A variant also moves the times of everything after its first step, and a power
loss then takes other records. So a hidden finding counts as *chance* if the unmodified scenario
shows it, too, with another seed of its world. The table also has the findings that a coarser rule
would hide: it excuses everything but three invariants in a partition that a fault outside the
budget has hit.
"""

from __future__ import annotations

import argparse
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from itertools import count, islice

from kafkasim.scenarios.language import library
from kafkasim.scenarios.language.spec import parse
from kafkasim.scenarios.language.tables import Scenario
from kafkasim.scenarios.running.runner import ScenarioRun
from kafkasim.scenarios.searching.draw import draw
from kafkasim.scenarios.variants.compose import only_mode
from kafkasim.scenarios.variants.registry import VARIANTS

NEVER_FORGIVEN = ("ISRELIG", "MINISR", "ONELEADER")
"""What the rule of old did not forgive in a partition outside the budget."""

DESTRUCTIVE = ("power-loss", "rack-loss")
"""Faults that may cost what was not flushed."""


@dataclass(frozen=True)
class Judged:
    """What a run showed, and what became of it."""

    found: frozenset[str]  # everything that was found, excused or not
    failed: frozenset[str]  # what nothing excuses
    failed_of_old: frozenset[str]  # what the old rule would not have excused
    lossy: bool  # whether records were lost that Kafka may lose

    def beside(self, unmodified: Judged) -> str:
        """Return how a run with a variant stands out: failed, hidden, or "" for not at all."""
        return _stands_out(self.found - unmodified.found, self.failed - unmodified.failed)

    def beside_of_old(self, unmodified: Judged) -> str:
        """Return how it would have stood out by the old rule."""
        return _stands_out(
            self.found - unmodified.found, self.failed_of_old - unmodified.failed_of_old
        )


def _stands_out(found: frozenset[str], failed: frozenset[str]) -> str:
    return "failed" if failed else "hidden" if found else ""


def judged(scenario: Scenario, seed: int, variants: Sequence[str]) -> Judged:
    """Run a scenario and say what was found, by today's excuses and by the rule of old."""
    run = ScenarioRun(scenario, seed, None, variants)
    try:
        result = run.execute()
    except Exception:  # a broken assertion of the model, which nothing excuses
        crash = frozenset({"crash"})
        return Judged(crash, crash, crash, False)
    outside = run.faults.budget.outside
    permits = scenario.expect.permits
    found = {*result.anomalies, *result.expected}
    failed = {*result.anomalies} - {*result.expected}
    old = {name for name in failed if name == "no-progress" or ":" in name}
    for violation in result.violations:
        key = (violation.topic_id, violation.partition)
        if violation.invariant in NEVER_FORGIVEN or key not in outside:
            old.add(violation.invariant)
    for anomaly in result.delivery:
        keys = [(anomaly.topic_id, anomaly.partition)]
        if anomaly.group:
            keys.append(run.invariants.group_key(anomaly.group))
        named = (anomaly.name, f"{anomaly.name}:{result.topics.get(anomaly.topic_id)}")
        if not any(key in outside for key in keys) and not any(each in permits for each in named):
            old.add(anomaly.name)
    return Judged(frozenset(found), frozenset(failed), frozenset(old), bool(outside))


def lossy_draws(first: int, mode: str | None) -> Iterator[tuple[Scenario, int, Judged]]:
    """Yield drawn scenarios with their seeds in which records are lost without any variant."""
    for seed in count(first):
        data = draw(seed)
        faults = data.get("faults", ())
        if not any(fault["kind"] in DESTRUCTIVE for fault in faults):
            continue
        scenario = parse(data, data["name"])
        if mode is None or scenario.cluster.mode == mode:
            plain = judged(scenario, seed, ())
            if plain.lossy:
                yield scenario, seed, plain


class Others:
    """Unmodified runs of the same scenarios with other seeds: what the faults alone can show."""

    def __init__(self, runs: int) -> None:
        self._runs = runs
        self._found: dict[tuple[str, int], list[frozenset[str]]] = {}  # by scenario and seed

    def show(self, scenario: Scenario, seed: int, found: frozenset[str]) -> bool:
        """Return whether one of them shows all of ``found``."""
        known = self._found.setdefault((scenario.name, seed), [])
        while not any(found <= each for each in known):
            if len(known) == self._runs:
                return False
            known.append(judged(scenario, seed + len(known) + 1, ()).found)
        return True


def main() -> None:
    """Run the scripts and the draws, and print the table."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--variant", action="append", help="only this variant; repeatable")
    parser.add_argument("--scripts", type=int, default=1, help="seeds of each script (default 1)")
    parser.add_argument("--drawn", type=int, default=4, help="lossy draws of a mode (default 4)")
    parser.add_argument("--first", type=int, default=0, help="the first drawn seed (default 0)")
    parser.add_argument("--others", type=int, default=8, help="seeds that show chance (default 8)")
    asked = parser.parse_args()
    others = Others(asked.others)
    draws = {
        mode: list(islice(lossy_draws(asked.first, mode), asked.drawn))
        for mode in ("kraft", "zookeeper")
    }
    totals = {"failed": [0, 0], "hidden": [0, 0], "chance": [0, 0]}
    print(f"{'variant':36} failed hidden chance  by the old rule", flush=True)
    for variant in asked.variant or VARIANTS:
        shown: list[tuple[str, str]] = []
        if variant in library.scripts():
            scenario, _ = library.scenario(variant)
            for seed in range(asked.scripts):
                shown.append(_beside(scenario, seed, variant, judged(scenario, seed, ()), others))
        modes = [only_mode([variant])] if only_mode([variant]) else list(draws)
        for mode in modes:
            for scenario, seed, plain in draws[str(mode)]:
                shown.append(_beside(scenario, seed, variant, plain, others))
        tally = {word: [sum(each[age] == word for each in shown) for age in (0, 1)]
                 for word in totals}  # fmt: skip
        for word, numbers in tally.items():
            totals[word] = [total + each for total, each in zip(totals[word], numbers)]
        print(_line(variant, tally), flush=True)
    print(_line("all", totals))


def _beside(
    scenario: Scenario, seed: int, variant: str, plain: Judged, others: Others
) -> tuple[str, str]:
    with_it = judged(scenario, seed, [variant])
    word = with_it.beside(plain)
    if word == "hidden" and others.show(scenario, seed, with_it.found - plain.found):
        word = "chance"
    return word, with_it.beside_of_old(plain)


def _line(variant: str, tally: dict[str, list[int]]) -> str:
    (failed, before), (hidden, hidden_before) = tally["failed"], tally["hidden"]
    told = f"{variant:36} {failed:6} {hidden:6} {tally['chance'][0]:6}"
    return f"{told}  {before} failed, {hidden_before} hidden"


if __name__ == "__main__":
    main()
