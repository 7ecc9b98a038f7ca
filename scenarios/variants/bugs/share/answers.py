"""Mutations of share groups: what a leader must not do before a state is persisted."""

from __future__ import annotations

from kafkasim.model.replication.share.rules import ShareRules
from kafkasim.scenarios.variants.variant import Variant


class AnswersEarly(ShareRules):
    """An acknowledgement is answered before its state is persisted."""

    def answers_after_write(self) -> bool:
        return False


SHARES: tuple[Variant, ...] = (
    Variant(
        "M80-share-answers-early", "SharePartition.rollbackOrProcessStateUpdates",
        (AnswersEarly,),
        "accepted-again", "share-leader-failover",
        "A member hears that a record is accepted when every later leader will know it.",
    ),
)  # fmt: skip
