"""A stored scenario in which an excuse is in force, and a variant that fails there."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True)
class Case:
    """A scenario in which an excuse is in force, with a variant and without."""

    excuse: str  # what makes the findings of the plain run expected
    scenario: str
    variant: str
    fails: str  # a finding that the variant adds
    seed: int | None = None  # None: a seed of tests/bugs/seeds, which has its own

    @property
    def is_seed_as_found(self) -> bool:
        """Return whether the scenario is a seed of tests/bugs/seeds."""
        return self.seed is None
