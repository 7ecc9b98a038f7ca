"""Where the scenario of a seed comes from: it is drawn whole, or faults are drawn for a user's."""

from __future__ import annotations

import shlex
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Protocol

from kafkasim.scenarios.language.files.rules import shown
from kafkasim.scenarios.language.spec import parse
from kafkasim.scenarios.language.tables import Scenario
from kafkasim.scenarios.searching.draw import draw, mode_of
from kafkasim.scenarios.searching.given.plan import with_faults


class Source(Protocol):
    """Where the scenario of a seed comes from."""

    @property
    def drawn_whole(self) -> bool:
        """Whether a failure without variants is a bug of ours, and no answer to a user."""

    def scenario(self, seed: int) -> Scenario:
        """Return the scenario of a seed."""

    def mode(self, seed: int) -> str:
        """Return the mode of the cluster of a seed: kraft or zookeeper."""

    def command(self, seed: int, variants: Sequence[str] = ()) -> str:
        """Return the command that runs one seed again."""


@dataclass(frozen=True)
class Swarm:
    """Scenarios that are drawn whole: cluster, workload and faults."""

    drawn_whole: bool = True

    def scenario(self, seed: int) -> Scenario:
        """Draw everything."""
        data = draw(seed)
        return parse(data, data["name"])

    def mode(self, seed: int) -> str:
        """Even seeds are KRaft, odd ones ZooKeeper."""
        return mode_of(seed)

    def command(self, seed: int, variants: Sequence[str] = ()) -> str:
        """Name the seed alone."""
        return shlex.join(["kafkasim", "search", *_one(seed), *_named(variants)])


SWARM = Swarm()


@dataclass(frozen=True)
class Given:
    """A user's scenario, with the faults that each seed draws for it.

    ``asked`` are the arguments and options of ``kafkasim search`` that name it, and ``only`` the
    kinds of faults that it gets.
    """

    given: Scenario
    asked: tuple[str, ...]
    only: tuple[str, ...] = ()
    drawn_whole: bool = False

    def scenario(self, seed: int) -> Scenario:
        """Draw the faults."""
        return with_faults(self.given, seed, self.only)

    def mode(self, seed: int) -> str:
        """It is the scenario's, whatever the seed."""
        return self.given.cluster.mode

    def command(self, seed: int, variants: Sequence[str] = ()) -> str:
        """Name the scenario as it was asked for, and the seed."""
        return shlex.join(["kafkasim", "search", *self.asked, *_one(seed), *_named(variants)])

    def shrink(self, seed: int) -> str:
        """Return the command that makes the scenario of one seed small."""
        return shlex.join(["kafkasim", "shrink", *self.asked, "--from-search", str(seed)])


def _one(seed: int) -> list[str]:
    return ["--first", str(seed), "--seeds", "1"]


def _named(variants: Sequence[str]) -> list[str]:
    return [part for name in variants for part in ("--variant", shown(name))]
