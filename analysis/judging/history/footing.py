"""What an anomaly of transactions rests on: records whose legal loss explains it.

A transaction spans partitions: those of its records, the group's of ``__consumer_offsets``, and its
own of ``__transaction_state``. What a share group has done rests on ``__share_group_state``. A loss
explains an anomaly only if it took records on which the broken promise rested, after they had been
written.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass

from kafkasim.analysis.judging.history.topics import coordinator_partition, offsets_partition
from kafkasim.analysis.judging.promise import FactSource
from kafkasim.analysis.judging.source import UNCLEAN, Losses, PartitionKey
from kafkasim.model import facts
from kafkasim.model.records import TRANSACTION_STATE_TOPIC

END = 1 << 62


@dataclass(frozen=True, slots=True)
class Spot:
    """Records of one partition, from the row that wrote them to the row that broke the promise."""

    key: PartitionKey
    first: int = 0  # offset
    end: int = END  # the offset after the last one
    after: int = -1  # row
    before: int = END  # row


class Footing:
    """Names the partitions of groups and transactional ids, and asks what they have lost."""

    def __init__(self, trace: FactSource, losses: Losses) -> None:
        self._losses = losses
        self._topics: dict[str, facts.TopicCreated] = {}  # by id
        self._old: dict[str, None] = {}  # groups of old consumers, whose offsets are in ZooKeeper
        trace.subscribe(facts.TopicCreated, self._on_topic)
        trace.subscribe(facts.PartitionOwner, self._on_owner)

    def of_group(self, group: str, after: int = -1, before: int = END) -> Spot:
        """Return what a group has committed between two rows."""
        key = offsets_partition(group, self._topics, self._old)
        return Spot(key, after=after, before=before)

    def of_id(self, transactional_id: str, after: int, before: int = END) -> Spot:
        """Return what the coordinator of a transactional id has written between two rows."""
        key = coordinator_partition(TRANSACTION_STATE_TOPIC, transactional_id, self._topics)
        return Spot(key, after=after, before=before)

    def of_share(self, group: str, key: PartitionKey, after: int = -1, before: int = END) -> Spot:
        """Return what a share group's coordinator has written of a partition between two rows."""
        name = f"{group}:{key[0]}:{key[1]}"  # SharePartitionKey.as_coordinator_key
        state = coordinator_partition("__share_group_state", name, self._topics)
        return Spot(state, after=after, before=before)

    def of_reset(self, group: str, key: PartitionKey, row: int) -> list[Spot]:
        """Return what the reset of a group's position at a row rests on: its records or commits."""
        return [Spot(key, before=row), self.of_group(group, before=row)]

    def lost(self, spots: Iterable[Spot]) -> str:
        """Return why records of one of the places were lost, which Kafka allows, or ""."""
        for spot in spots:
            for loss in self._losses(spot.key):
                touched = loss.first < spot.end and spot.first < loss.end
                if touched and spot.after < loss.seq < spot.before and loss.reason != UNCLEAN:
                    return loss.reason
        return ""

    def of_record(
        self, key: PartitionKey, offset: int, before: int, began_us: int | None = None
    ) -> list[str]:
        """Return why the record at an offset was lost before a row; −1 stands for any record.

        ``began_us`` is when its producer began the batch: no loss before that was of it.
        """
        return [
            loss.reason
            for loss in self._losses(key)
            if loss.covers(offset) and loss.seq < before
            and (began_us is None or began_us < loss.t_us)
        ]  # fmt: skip

    def of_moved(self, group: str, key: PartitionKey, reset: int, promise: int, before: int) -> str:
        """Return why a group's position may have gone back, or passed over records, or "".

        Its position was among lost records, so auto.offset.reset has moved it, in the row
        ``reset``; or what it committed between two rows was lost.
        """
        return self.lost(
            [Spot(key, before=min(reset, before)), self.of_group(group, promise, before)]
        )

    def _on_topic(self, _seq: int, _t: int, _node: str, fact: facts.TopicCreated) -> None:
        self._topics[fact.topic_id] = fact

    def _on_owner(self, _seq: int, _t: int, _node: str, fact: facts.PartitionOwner) -> None:
        self._old[fact.group] = None
