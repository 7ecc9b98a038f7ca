"""What an old consumer is given after auto.offset.reset: what it had fetched before comes first.

ConsumerFetcherThread.handleOffsetOutOfRange moves the fetched and the consumed offset, and leaves
the chunks in the queue. Of the chunk that is being read, ConsumerIterator.makeNext rejects what
lies below the consumed offset, but for the last record; that one moves the consumed offset back, so
chunks behind it are read in full. Then comes the chunk that was fetched at the new offset. A reset
back is not known here: whoever was given the lost records is flagged.
"""

from __future__ import annotations

from kafkasim.analysis.judging.promise import FactSource
from kafkasim.model import facts

RESETS = ("earliest", "latest")

Reader = tuple[str, str, tuple[str, int]]
"""Group, member, and topic name with partition."""


class FetchedBefore:
    """Follows the resets of old consumers to a higher offset."""

    def __init__(self, trace: FactSource) -> None:
        self._old: dict[tuple[str, str], None] = {}  # (group, member id)
        self._resets: dict[Reader, tuple[int, int]] = {}  # the offsets expected before and after
        trace.subscribe(facts.PartitionOwner, self._on_owner)

    def positioned(
        self, readers: dict[Reader, int], reader: Reader, fact: facts.Positioned
    ) -> None:
        """Set the offset that a reader must get next, or forget the reader: its reason is none."""
        before, after = readers.pop(reader, fact.offset), fact.offset
        self._resets.pop(reader, None)
        if fact.reason == "none":
            return
        readers[reader] = after
        is_old = (fact.group, fact.member_id) in self._old
        if is_old and fact.reason in RESETS and before < after:
            self._resets[reader] = (before, after)

    def explains(self, reader: Reader, expected: int, offset: int) -> bool:
        """Return whether a jump leads to what was fetched before the last reset, or behind it.

        It leads back once, at the first record after the reset.
        """
        before, after = self._resets.get(reader, (-1, -1))
        if expected == after and before <= offset < after:
            self._resets[reader] = (after, after)
            return True
        return expected < after and offset == after

    def _on_owner(self, _seq: int, _t: int, _node: str, fact: facts.PartitionOwner) -> None:
        self._old[fact.group, fact.member_id] = None
