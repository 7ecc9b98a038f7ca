"""The combination of state batches into disjoint ones (PersisterStateBatchCombiner).

Of two batches that overlap, the one that was delivered more often wins their common offsets; of two
that were delivered as often, the one with the higher delivery state. Batches that touch and have
the same state and count become one.
"""

from __future__ import annotations

from collections.abc import Iterable
from heapq import heapify, heappop, heappush

from kafkasim.model.messages.share import StateBatch

Entry = tuple[int, int, int, int]
"""(first offset, last offset, delivery count, delivery state): sorts as Kafka's batches do."""


def combine(
    so_far: tuple[StateBatch, ...], new: tuple[StateBatch, ...], start_offset: int
) -> tuple[StateBatch, ...]:
    """Return disjoint batches of both, without offsets below ``start_offset`` (−1: keep all).

    Fewer than two batches are returned as they are.
    """
    entries = list(_pruned((*so_far, *new), start_offset))
    if len(entries) < 2:
        return tuple([_batch(entry) for entry in entries])
    heapify(entries)
    combined: list[Entry] = []
    while entries:
        first = heappop(entries)
        if not entries or not _mergeable(first, entries[0]):
            combined.append(first)
            continue
        second = heappop(entries)
        if second != first:  # a TreeSet has each batch once
            for entry in _merged(first, second):
                heappush(entries, entry)
        else:
            heappush(entries, first)
    return tuple([_batch(entry) for entry in combined])


def _batch(entry: Entry) -> StateBatch:
    first_offset, last_offset, count, state = entry
    return StateBatch(first_offset, last_offset, state, count)


def _pruned(batches: Iterable[StateBatch], start_offset: int) -> Iterable[Entry]:
    for batch in batches:
        if start_offset == -1 or batch.last_offset >= start_offset:
            first_offset = max(batch.first_offset, start_offset)
            yield first_offset, batch.last_offset, batch.delivery_count, batch.delivery_state


def _mergeable(first: Entry, second: Entry) -> bool:
    """Return whether two batches overlap, or touch and are in the same state."""
    return second[0] <= first[1] or (second[0] == first[1] + 1 and first[2:] == second[2:])


def _merged(first: Entry, second: Entry) -> list[Entry]:
    """Return what replaces two mergeable batches, ``first`` being the smaller in their order."""
    if first[2:] == second[2:]:
        return [(first[0], max(first[1], second[1]), *first[2:])]
    if second[2:] < first[2:]:
        rest = (first[1] + 1, second[1], *second[2:])
        return [first, rest] if second[1] > first[1] else [first]
    parts = [second]
    if second[0] > first[0]:
        parts.append((first[0], second[0] - 1, *first[2:]))
        if second[1] < first[1]:
            parts.append((second[1] + 1, first[1], *first[2:]))
    return parts
