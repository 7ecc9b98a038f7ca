"""Kafka Streams: historical bugs of its runtime and its operators."""

from __future__ import annotations

from kafkasim.model.streams.rules import StreamsRules
from kafkasim.scenarios.variants.variant import Variant


class KeepsUncleanState(StreamsRules):
    """A restart under exactly_once_v2 restores over state without a checkpoint."""

    def wipes_unclean_state(self) -> bool:
        return False


class LeavesCheckpoint(StreamsRules):
    """The checkpoint that ends a restore stays while the task writes."""

    def deletes_checkpoint_before_running(self) -> bool:
        return False


class CommitsOnlyOffsets(StreamsRules):
    """A transaction without offsets is not committed."""

    def commits_open_transaction(self) -> bool:
        return False


class CommitsForOthers(StreamsRules):
    """A revocation commits the thread's transaction without the offsets of other tasks."""

    def commits_only_for_revoked(self) -> bool:
        return False


class PurgesConsumed(StreamsRules):
    """Repartition records are deleted up to the consumed offset."""

    def purges_committed_only(self) -> bool:
        return False


class GoesToAnyProcess(StreamsRules):
    """A task goes to any process if none is caught up."""

    def moves_to_most_caught_up(self) -> bool:
        return False


class JoinsAtOnce(StreamsRules):
    """A left join emits a null result as soon as no partner is stored."""

    def holds_unjoined(self) -> bool:
        return False


class ForgetsSuppressedContext(StreamsRules):
    """A restored suppress() takes the time of its changelog record."""

    def restores_suppressed_context(self) -> bool:
        return False


STREAMS: tuple[Variant, ...] = (
    Variant(
        "S01-eos-keep-state-without-checkpoint", "KAFKA-7192", (KeepsUncleanState,),
        "wrong-output", "S01-eos-keep-state-without-checkpoint",
        "Under exactly_once_v2 state that an instance left in a crash is wiped.",
    ),
    Variant(
        "S02-eos-checkpoint-left-after-restore", "KAFKA-20685", (LeavesCheckpoint,),
        "wrong-output", "S02-eos-checkpoint-left-after-restore",
        "Under exactly_once_v2 a running task has no checkpoint file.",
    ),
    Variant(
        "S04-commit-needs-offsets", "KAFKA-14294", (CommitsOnlyOffsets,),
        "lost-output", "S04-commit-needs-offsets",
        "What a punctuator of an idle task writes is committed.",
    ),
    Variant(
        "S05-revoke-commits-foreign-writes", "KAFKA-18943", (CommitsForOthers,),
        "wrong-output", "S05-revoke-commits-foreign-writes",
        "A revocation commits the writes of a task only with its offsets.",
    ),
    Variant(
        "S11-spurious-left-join", "KAFKA-10847", (JoinsAtOnce,),
        "duplicate-output", "S11-spurious-left-join",
        "A left join waits for a partner until its window closes.",
    ),
    Variant(
        "S14-suppress-restore-metadata", "KAFKA-7895", (ForgetsSuppressedContext,),
        "wrong-output", "S14-suppress-restore-metadata",
        "What suppress() holds back keeps its time when the task moves.",
    ),
)  # fmt: skip
