"""How far groups have committed, when they last passed each offset, and what they processed."""

from __future__ import annotations

from collections.abc import Iterator

from kafkasim.scenarios.judging.source import PartitionKey

Place = tuple[str, str, int]
"""Group, topic name, partition."""


class Passed:
    """The commits of all groups that no later one has exceeded."""

    def __init__(self) -> None:
        self._commits: dict[Place, list[tuple[int, int]]] = {}
        """(offset, row): the offsets fall, the rows rise"""

    def add(self, place: Place, offset: int, seq: int) -> None:
        """Take a commit, which stands in row ``seq``."""
        commits = self._commits.setdefault(place, [])
        while commits and commits[-1][0] <= offset:
            commits.pop()
        commits.append((offset, seq))

    def highest(self) -> Iterator[tuple[Place, int]]:
        """Yield each group and partition with the highest offset that was committed, sorted."""
        for place, commits in sorted(self._commits.items()):
            yield place, commits[0][0]

    def row(self, place: Place, offset: int) -> int:
        """Return the row of the last commit behind an offset, −1 for none."""
        rows = [seq for end, seq in self._commits.get(place, ()) if end > offset]
        return rows[-1] if rows else -1


class ProcessedRanges:
    """The offsets that each group has processed in each partition."""

    def __init__(self) -> None:
        self._ranges: dict[tuple[str, PartitionKey], list[tuple[int, int]]] = {}

    def add(self, reader: tuple[str, PartitionKey], first: int, end: int) -> None:
        """Take the offsets from ``first`` to before ``end``."""
        ranges = self._ranges.setdefault(reader, [])
        if ranges and ranges[-1][1] == first:
            ranges[-1] = (ranges[-1][0], end)
        else:
            ranges.append((first, end))

    def gaps(
        self, reader: tuple[str, PartitionKey], position: int, end: int
    ) -> Iterator[tuple[int, int]]:
        """Yield what was not processed of the offsets from ``position`` to before ``end``."""
        for low, high in sorted(self._ranges.get(reader, [])):
            if low > position and position < end:
                yield position, min(low, end)
            position = max(position, high)
        if position < end:
            yield position, end
