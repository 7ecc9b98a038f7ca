"""The lines of a story: sorted by time, with one line for an event of many partitions."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterable
from typing import NamedTuple

from kafkasim.analysis.story.sentences import DETAIL, PLACE, SAME_MOMENT_US, counted

INTERNAL = ("__consumer_offsets", "__transaction_state")

MOST_ALIKE = 8
"""So many lines of one sentence are shown."""

CAUSE, NEWS, EFFECT = 0, 1, 2
"""Order of lines of one instant: faults, then what is noticed of them, then what follows."""


class Gathered:
    """A line about several partitions or producers, and what they have in common if they have.

    Of producers that is how many records they could not send.
    """

    def __init__(self, t_us: int, seq: int, text: str, listing: Callable[[list[str]], str]) -> None:
        self.t_us = t_us  # when the first of them was added
        self.seq = seq
        self.text = text
        self.listing = listing
        self.names: list[str] = []
        self.details: dict[str, None] = {}
        self.records = 0

    def add(self, name: str, detail: str) -> None:
        """Add a partition or a producer, and what differs between partitions."""
        self.names.append(name)
        self.details[detail] = None

    def told(self) -> str:
        """Return the line; a detail is left out where partitions differ in it."""
        detail = next(iter(self.details)) if len(self.details) == 1 else ""
        if self.records:
            detail = counted(self.records, "record")
        text = self.text.replace(DETAIL, detail)
        return text.replace(PLACE, self.listing(sorted(dict.fromkeys(self.names))))


class _Line(NamedTuple):
    t_us: int
    rank: int
    seq: int
    text: str
    like: str  # the sentence, before its partitions and numbers were put into it


class Lines:
    """Collects lines while rows are read in order."""

    def __init__(self) -> None:
        self._told: list[_Line] = []
        self._open: dict[str, Gathered] = {}  # by text

    def tell(self, t_us: int, seq: int, text: str, rank: int = EFFECT, like: str = "") -> None:
        """Add a line about the row ``seq``; of many that are alike, ``finish`` folds most."""
        self._told.append(_Line(t_us, rank, seq, text, like or text))

    def gather(
        self, t_us: int, seq: int, text: str, listing: Callable[[list[str]], str] | None = None
    ) -> Gathered:
        """Return the open line with this text, new where there is none.

        ``listing`` writes the names that are added to it; they are partitions by default.
        """
        line = self._open.get(text)
        if line is None:
            line = self._open[text] = Gathered(t_us, seq, text, listing or partitions)
        return line

    def settle(self, now: int | None) -> None:
        """Close the lines that were opened longer ago than a moment, all of them for None."""
        for text, line in list(self._open.items()):
            if now is None or now - line.t_us > SAME_MOMENT_US:
                del self._open[text]
                if line.names:
                    self.tell(line.t_us, line.seq, line.told(), like=line.text)

    def finish(self, ready_us: int, most: int) -> list[str]:
        """Return all lines; times count from ``ready_us``. Of too many the middle is left out."""
        self.settle(None)
        self._told.sort()
        shown = self._folded(ready_us)
        if len(shown) > most:
            left_out = f"            … {len(shown) - most} more lines …"
            return [*shown[: most * 3 // 4], left_out, *shown[-(most // 4) :]]
        return shown

    def _folded(self, ready_us: int) -> list[str]:
        """Return the lines with their times; of many alike the first ones and the last one."""
        alike = Counter(line.like for line in self._told)
        seen: Counter[str] = Counter()
        shown = []
        for line in self._told:
            seen[line.like] += 1
            number, total = seen[line.like], alike[line.like]
            if total <= MOST_ALIKE or number < MOST_ALIKE or number == total:
                shown.append(f"{(line.t_us - ready_us) / 1e6:+9.3f}s  {line.text}")
            elif number == MOST_ALIKE:
                shown.append(f"            … {total - MOST_ALIKE} more lines like the last one …")
        return shown


def partitions(names: Iterable[str]) -> str:
    """Return partitions in short: a run of them as ``orders-0 to orders-5``, many by number."""
    topics: dict[str, list[int]] = {}
    for name in names:
        topic, _, partition = name.rpartition("-")
        topics.setdefault(topic, []).append(int(partition))
    parts = []
    for topic, partitions in topics.items():
        unique = sorted(dict.fromkeys(partitions))
        many = len(unique) > 6 or (topic in INTERNAL and len(unique) > 1)
        if topic not in INTERNAL and 3 < len(unique) == unique[-1] - unique[0] + 1:
            parts.append(f"{topic}-{unique[0]} to {topic}-{unique[-1]}")
        elif many:
            parts.append(f"{topic} ({len(unique)} partitions)")
        else:
            parts.append(", ".join(f"{topic}-{partition}" for partition in unique))
    return ", ".join(parts)
