"""An explanation: rows of the trace in order, each as a sentence with Kafka's rule."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from kafkasim.analysis.explain.facts import Facts
from kafkasim.analysis.story.sentences import AHEAD, FOLLOWED, Teller, rule
from kafkasim.sim.trace.reading import Row

Found = Mapping[str, Any]
"""A finding, from the manifest of the run."""

KEPT_AT_EACH_END = 12
"""Of a longer chain so many steps are told at its beginning and at its end."""


@dataclass(frozen=True)
class Step:
    """One fact of a chain. ``rule`` is a section of KAFKA.md, or "" for what a fault did."""

    seq: int
    t_us: int
    fact: str
    text: str
    rule: str


@dataclass
class Chain:
    """The rows that lead to an anomaly; ``turn`` is the one without which it would not be.

    ``conclusion`` says what the rows amount to.
    """

    rows: dict[int, Row] = field(default_factory=dict)
    turn: int = -1  # a row number
    conclusion: str = ""

    def add(self, *rows: Row | None) -> None:
        """Add rows to the chain; a row that is in it already, or None, changes nothing."""
        self.rows.update({row["seq"]: row for row in rows if row is not None})

    def turns(self, row: Row | None, conclusion: str) -> None:
        """Add the decisive row and say what follows from it."""
        if row is not None:
            self.add(row)
            self.turn = row["seq"]
        self.conclusion = conclusion

    def join(self, other: Chain) -> None:
        """Add another chain; its turn and conclusion count where this one has none."""
        self.rows.update(other.rows)
        if self.turn < 0:
            self.turn = other.turn
        self.conclusion = self.conclusion or other.conclusion


@dataclass(frozen=True)
class Explanation:
    """Why one anomaly came about.

    ``place`` is the same for two runs whose anomaly breaks at the same place of the model: the
    anomaly, the kind of the decisive fact with its reason, and the rule behind it.
    """

    anomaly: str
    where: str  # topic-partition, or ""
    found: str  # what the judge said
    excuse: str  # why it is expected, or ""
    steps: tuple[Step, ...]
    turn: Step | None
    conclusion: str
    place: tuple[str, ...]

    def lines(self, ready_us: int) -> list[str]:
        """Return the explanation as it is printed; times count from the moment of readiness."""
        where = f" in {self.where}" if self.where else ""
        excuse = f" [expected: {self.excuse}]" if self.excuse else ""
        lines = [f"{self.anomaly}{where}: {self.found}{excuse}"]
        told: Sequence[Step | None] = self.steps
        if len(told) > 2 * KEPT_AT_EACH_END + 1:
            told = _shortened(self.steps, self.turn)
        for step in told:
            if step is None:
                lines.append("            …")
                continue
            mark = "=>" if step == self.turn else "  "
            rule = f"  [KAFKA.md, {step.rule}]" if step.rule else ""
            lines.append(f"{(step.t_us - ready_us) / 1e6:+9.3f}s {mark} {step.text}{rule}")
        if self.conclusion:
            lines.append(f"  so: {self.conclusion}")
        return lines


def _shortened(steps: Sequence[Step], turn: Step | None) -> list[Step | None]:
    """Return the first and the last steps and the decisive one; None where others were."""
    count = len(steps)
    kept = [*range(KEPT_AT_EACH_END), *range(count - KEPT_AT_EACH_END, count)]
    if turn in steps:
        kept.append(steps.index(turn))
    told: list[Step | None] = []
    before = -1
    for index in sorted(dict.fromkeys(kept)):
        if index > before + 1:
            told.append(None)
        told.append(steps[index])
        before = index
    return told


def told(facts: Facts, chain: Chain) -> tuple[Step, ...]:
    """Return the steps of a chain; rows that say the same at one moment are one step."""
    teller = Teller(facts.manifest, facts.rows(AHEAD))
    steps: dict[tuple[int, str], Step] = {}
    followed = {row["seq"]: row for row in facts.rows(FOLLOWED)} if chain.rows else {}
    for seq, row in sorted({**followed, **chain.rows}.items()):
        if seq in chain.rows:
            text = "; ".join(map(str, teller.of(row)))
            known = (row["t_us"], text)
            if known not in steps or seq == chain.turn:
                behind = rule(row, teller.zookeeper)
                steps[known] = Step(seq, row["t_us"], row["kind"], text, behind)
        teller.follow(row)
    return tuple(sorted(steps.values(), key=lambda step: step.seq))


def place_of(facts: Facts, anomaly: str, turn: Row | None) -> tuple[str, ...]:
    """Return the place in the model at which an anomaly breaks."""
    if turn is None:
        return (anomaly,)
    reason = turn.get("reason") if turn["kind"] in REASONED else None
    behind = rule(turn, facts.zookeeper)
    return (anomaly, turn["kind"], *([reason] if reason else []), behind)


REASONED = ("PartitionChanged", "Positioned", "LogStart", "HostStopped")
"""Facts whose reason is one word of Kafka, not a text."""
