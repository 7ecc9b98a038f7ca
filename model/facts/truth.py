"""Facts that close a run: the final state of replicas, groups and consumers."""

from __future__ import annotations

from kafkasim.model.values import value


@value
class FinalReplica:
    """A replica's whole log and its offsets; the batches' columns run in parallel."""

    topic_id: str
    partition: int
    leading: bool  # in the replica's own view
    leader_epoch: int
    log_start_offset: int
    high_watermark: int
    last_stable_offset: int
    log_end_offset: int
    epoch_starts: tuple[int, ...]  # the leader-epoch cache: epoch, start offset, epoch, …
    base_offsets: tuple[int, ...]  # one for each batch, as the next five
    next_offsets: tuple[int, ...]
    batch_epochs: tuple[int, ...]
    producer_ids: tuple[int, ...]
    base_sequences: tuple[int, ...]
    record_counts: tuple[int, ...]
    record_ids: tuple[int, ...]  # of all batches; ``record_counts`` says how many each has


@value
class FinalCleaned:
    """Where the records of the replica's ``FinalReplica`` stand, if a batch has lost some.

    Without this row record i of a batch stands i behind its base offset.
    """

    topic_id: str
    partition: int
    leading: bool
    leader_epoch: int
    record_offsets: tuple[int, ...]  # of all ``record_ids``


@value
class FinalOffset:
    """A committed offset, in the view of a coordinator."""

    group: str
    topic: str
    partition: int
    offset: int


@value
class FinalPosition:
    """The position of a consumer that is alive."""

    group: str
    member_id: str
    topic_id: str
    partition: int
    position: int


@value
class FinalResults:
    """What the database of a group's member has of one partition, as a reader of its disk sees it.

    A database belongs to its host; several members have several.
    """

    group: str
    topic_id: str
    partition: int
    offsets: tuple[int, ...]  # of the records whose results it has, one for each result
