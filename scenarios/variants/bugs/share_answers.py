"""Share groups: historical bugs of their leaders (KAFKA.md, 8.5), and mutations."""

from __future__ import annotations

from kafkasim.model.replication.share.rules import ShareRules
from kafkasim.scenarios.variants.variant import Variant


class AnswersEarly(ShareRules):
    """An acknowledgement is answered before its state is persisted."""

    def answers_after_write(self) -> bool:
        return False


class DeliversOnceMore(ShareRules):
    """A record is delivered once more than its group's limit says."""

    def delivery_limit(self, limit: int) -> int:
        return limit + 1


class AcquiresInTransition(ShareRules):
    """A released record is given to another member before the release is persisted."""

    def honours_transitions(self) -> bool:
        return False


class TakesGapsForEmpty(ShareRules):
    """A new leader takes gaps in the persisted state for offsets without a record."""

    def fetches_gaps_again(self) -> bool:
        return False


class TakesLateStartOffset(ShareRules):
    """The share coordinator takes the start offset of whatever write came last."""

    def written_start_offset(self, known: int, asked: int) -> int:
        return asked


SHARE_BUGS: tuple[Variant, ...] = (
    Variant(
        "B90-share-gaps-not-fetched", "KAFKA-18494", (TakesGapsForEmpty,),
        "share-skipped", "B90-share-gaps-not-fetched",
        "A new leader fetches again what the last one had handed out and nobody acknowledged.",
    ),
    Variant(
        "B91-share-acquired-in-transition", "KAFKA-18084", (AcquiresInTransition,),
        "held-twice", "B91-share-acquired-in-transition",
        "A record whose release is not persisted yet is nobody's, and no lock is left behind.",
    ),
    Variant(
        "B92-share-start-moves-back", "apache/kafka PR 23074", (TakesLateStartOffset,),
        "accepted-again", "B92-share-start-moves-back",
        "A write that comes late leaves the higher start offset of those before.",
    ),
)  # fmt: skip
"""Bugs that share groups (KIP-932) had before 4.1, and one that 4.2 has, too."""

SHARES: tuple[Variant, ...] = (
    Variant(
        "M80-share-answers-early", "SharePartition.rollbackOrProcessStateUpdates",
        (AnswersEarly,),
        "accepted-again", "share-leader-failover",
        "A member hears that a record is accepted when every later leader will know it.",
    ),
    Variant(
        "M81-share-delivers-once-more", "SharePartition.InFlightState.tryUpdateState",
        (DeliversOnceMore,),
        "over-delivered", "share-poison-record",
        "A record is archived after group.share.delivery.count.limit deliveries.",
    ),
)  # fmt: skip
