"""Facts: the ground truth at the end of a run."""

from __future__ import annotations

from kafkasim.model.values import value


@value
class FinalReplica:
    """The end of a run, for one replica: its log and offsets. Lists run in parallel by batch.

    ``epoch_starts`` is the leader-epoch cache as ``epoch, start, epoch, start…``. ``leading`` says
    whether it believes itself leader. ``record_counts`` cuts ``record_ids`` into batches.
    """

    topic_id: str
    partition: int
    leading: bool
    leader_epoch: int
    log_start_offset: int
    high_watermark: int
    last_stable_offset: int
    log_end_offset: int
    epoch_starts: tuple[int, ...]
    base_offsets: tuple[int, ...]
    next_offsets: tuple[int, ...]
    batch_epochs: tuple[int, ...]
    producer_ids: tuple[int, ...]
    base_sequences: tuple[int, ...]
    record_counts: tuple[int, ...]
    record_ids: tuple[int, ...]


@value
class FinalOffset:
    """The end of a run: a committed offset at the current coordinator."""

    group: str
    topic: str
    partition: int
    offset: int


@value
class FinalPosition:
    """The end of a run: a live consumer's position."""

    group: str
    member_id: str
    topic_id: str
    partition: int
    position: int
