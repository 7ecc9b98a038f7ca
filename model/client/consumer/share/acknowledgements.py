"""What an application says of the records that it was given, offset by offset (Acknowledgements).

On the wire offsets that follow each other are one batch. It has one type if all are of one type;
a run of more than ten offsets of one type is a batch of its own.
"""

from __future__ import annotations

from typing import TypeAlias

from kafkasim.model.messages.share import AcknowledgementBatch
from kafkasim.model.records import TopicPartition

Acknowledgements: TypeAlias = dict[int, int]
"""Offset to acknowledge type, in the order of the application's calls."""

TopicIdPartition: TypeAlias = tuple[str, TopicPartition]
"""Topic id, and the partition by the topic's name."""

ByPartition: TypeAlias = dict[TopicIdPartition, Acknowledgements]

LONG_RUN = 10


def batches_of(acknowledgements: Acknowledgements) -> tuple[AcknowledgementBatch, ...]:
    """Return the batches that go on the wire (getAcknowledgementBatches)."""
    found: list[AcknowledgementBatch] = []
    ranges: list[list[int]] = []
    for offset in sorted(acknowledgements):
        if ranges and offset == ranges[-1][-1] + 1:
            ranges[-1].append(offset)
        else:
            ranges.append([offset])
    for offsets in ranges:
        mixed: list[int] = []
        for run in _runs(offsets, acknowledgements):
            if len(run) > LONG_RUN:
                _add(found, mixed, acknowledgements)
                _add(found, run, acknowledgements)
                mixed = []
            else:
                mixed += run
        _add(found, mixed, acknowledgements)
    return tuple(found)


def _runs(offsets: list[int], acknowledgements: Acknowledgements) -> list[list[int]]:
    """Cut offsets where the type changes."""
    runs: list[list[int]] = []
    for offset in offsets:
        if runs and acknowledgements[runs[-1][-1]] == acknowledgements[offset]:
            runs[-1].append(offset)
        else:
            runs.append([offset])
    return runs


def _add(
    found: list[AcknowledgementBatch], offsets: list[int], acknowledgements: Acknowledgements
) -> None:
    if offsets:
        types = tuple([acknowledgements[offset] for offset in offsets])
        if len(set(types)) == 1:
            types = types[:1]
        found.append(AcknowledgementBatch(offsets[0], offsets[-1], types))


def merge(into: ByPartition, more: ByPartition) -> None:
    """Add acknowledgements to others; the later ones win."""
    for key, acknowledgements in more.items():
        into.setdefault(key, {}).update(acknowledgements)
