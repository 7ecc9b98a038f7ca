"""How soon the random search finds each variant: ``python -m kafkasim.scenarios.bench.campaign``.

A *campaign* searches with one variant in force until a seed fails that passes without it, or until
its CPU time is over. Campaigns of one variant have disjoint seeds, and all variants share them. The
figure of a variant is the median of its campaigns, in CPU seconds of one process; the runs without
the variant that confirm a find are part of it.
"""

from __future__ import annotations

import argparse
import gc
import json
import sys
import time
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from functools import partial
from itertools import count
from statistics import median

from kafkasim.scenarios.searching.about.parts import PARTS
from kafkasim.scenarios.searching.draw import MODES, mode_of
from kafkasim.scenarios.searching.search import Finding, Swarm, search
from kafkasim.scenarios.variants.compose import compose, only_mode
from kafkasim.scenarios.variants.registry import VARIANTS

APART = 1_000_000
"""The distance between the first seeds of two campaigns."""

NEVER = float("inf")


@dataclass(frozen=True)
class Campaign:
    """One search for one variant; ``seconds`` is infinite if it found nothing."""

    seconds: float
    seed: int  # that showed the variant; -1: none did
    tried: int
    unmodified: tuple[int, ...] = ()  # seeds that fail without the variant too: bugs of ours


Searching = Callable[[int, str], Iterator[Finding]]
"""Yields the findings of one seed after the other, given the first seed and the variant."""


def seeds_of(variant: str, first: int) -> Iterator[int]:
    """Yield the seeds from ``first`` on whose mode is one in which the variant can show."""
    mode = only_mode([variant])
    if mode is None:
        return count(first)
    return count(first + (MODES.index(mode) - MODES.index(mode_of(first))) % 2, 2)


def searching(first: int, variant: str, about: str | None = None) -> Iterator[Finding]:
    """Run the search of ``kafkasim search --variant``, one seed at a time."""
    return search(seeds_of(variant, first), [variant], source=Swarm(about))


def campaign(
    variant: str,
    first: int,
    cap: float,
    findings: Searching = searching,
    clock: Callable[[], float] = time.process_time,
) -> Campaign:
    """Search until the variant is found, or until ``cap`` seconds of ``clock`` have passed."""
    began = clock()
    tried = 0
    unmodified: list[int] = []
    for finding in findings(first, variant):
        tried += 1
        if finding.anomalies == ("unmodified",):
            unmodified.append(finding.seed)
        if finding.verdict == "fail":
            return Campaign(clock() - began, finding.seed, tried, tuple(unmodified))
        if clock() - began >= cap:
            break
    return Campaign(NEVER, -1, tried, tuple(unmodified))


def campaigns(
    variant: str, firsts: Sequence[int], cap: float, findings: Searching = searching
) -> list[Campaign]:
    """Run campaigns until their median is known to be what all of ``firsts`` would give.

    The third of three need not run if neither of the first two found the variant.
    """
    done: list[Campaign] = []
    for first in firsts:
        missed = sum(each.seconds == NEVER for each in done)
        if missed * 2 > len(firsts):
            break
        done.append(campaign(variant, first, cap, findings))
    return done


def figure(done: Sequence[Campaign], wanted: int) -> float:
    """Return the median of ``wanted`` campaigns; those that did not run found nothing."""
    return median([each.seconds for each in done] + [NEVER] * (wanted - len(done)))


def line(variant: str, done: Sequence[Campaign], wanted: int, cap: float) -> str:
    """Return a variant's line: the median, then each campaign's time and seed."""
    found = figure(done, wanted)
    told = f"> {cap:.0f}" if found == NEVER else f"{found:.1f}"
    each = ", ".join(
        f"not in {one.tried}" if one.seconds == NEVER else f"{one.seconds:.1f} s (seed {one.seed})"
        for one in done
    )
    ours = [seed for one in done for seed in one.unmodified]
    return f"{variant:36} {told:>6}  {each}" + (f"  FAIL UNMODIFIED: {ours}" if ours else "")


def main() -> None:
    """Run the campaigns and print the table."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--variant", action="append", help="only this variant; repeatable")
    parser.add_argument("--campaigns", type=int, default=3, help="of each variant (default 3)")
    parser.add_argument("--cap", type=float, default=60.0, help="CPU seconds of one (default 60)")
    parser.add_argument("--first", type=int, default=APART, help=f"first seed (default {APART})")
    parser.add_argument("--json", help="also append each variant's campaigns to this file")
    parser.add_argument("--about", choices=PARTS, help="as of `kafkasim search`")
    options = parser.parse_args()
    names = options.variant or list(VARIANTS)
    for name in names:
        compose([name])  # refuses an unknown variant before the first run
    gc.freeze()
    firsts = [options.first + APART * number for number in range(options.campaigns)]
    print(f"{'variant':36} CPU s until first found: the median, then each campaign")
    for name in names:
        done = campaigns(name, firsts, options.cap, partial(searching, about=options.about))
        print(line(name, done, len(firsts), options.cap), flush=True)
        if options.json:
            kept = [[None if c.seconds == NEVER else c.seconds, c.seed, c.tried] for c in done]
            with open(options.json, "a", encoding="utf-8") as file:
                file.write(json.dumps({"variant": name, "campaigns": kept}) + "\n")
    sys.stdout.flush()


if __name__ == "__main__":
    main()
