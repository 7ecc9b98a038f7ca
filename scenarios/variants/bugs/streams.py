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


class KeepsWrittenOffsets(StreamsRules):
    """A closed task keeps the offsets that it has written."""

    def forgets_written_offsets(self) -> bool:
        return False


class PurgesConsumed(StreamsRules):
    """Repartition records are deleted up to the consumed offset."""

    def purges_committed_only(self) -> bool:
        return False


class KeepsCaches(StreamsRules):
    """A task that is recycled keeps its caches."""

    def clears_caches_when_recycled(self) -> bool:
        return False


class RecyclesDirty(StreamsRules):
    """A task with uncommitted writes becomes a standby with its store as it is."""

    def refuses_dirty_recycling(self) -> bool:
        return False


class ResumesAtTheLimit(StreamsRules):
    """A partition is resumed when its queue is exactly as long as the limit."""

    def resumes_by_size(self) -> bool:
        return False


class GoesToAnyProcess(StreamsRules):
    """A task goes to any process if none is caught up."""

    def moves_to_most_caught_up(self) -> bool:
        return False


class JoinsAtOnce(StreamsRules):
    """A left join emits a null result as soon as no partner is stored."""

    def holds_unjoined(self) -> bool:
        return False


class SharesJoinClock(StreamsRules):
    """All tasks of a process share the stream time of a join."""

    def shares_join_clock(self) -> bool:
        return True


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
        "S03-checkpoint-written-offsets", "KAFKA-16017", (KeepsWrittenOffsets,),
        "wrong-output", "S03-checkpoint-written-offsets",
        "A checkpoint has the offsets of what is in the stores.",
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
        "S06-purge-uncommitted", "KAFKA-17635", (PurgesConsumed,),
        "lost-output", "S06-purge-uncommitted",
        "Repartition records are deleted below the committed offset only.",
    ),
    Variant(
        "S07-recycle-keeps-cache", "KAFKA-14172", (KeepsCaches,),
        "wrong-output", "S07-recycle-keeps-cache",
        "A task that becomes a standby forgets its cache.",
    ),
    Variant(
        "S08-recycle-dirty", "KAFKA-10198", (RecyclesDirty,),
        "wrong-output", "S08-recycle-dirty",
        "A task with uncommitted writes is closed dirty, and does not become a standby.",
    ),
    Variant(
        "S10-arbitrary-owner", "KAFKA-13600", (GoesToAnyProcess,),
        "LIVE", "S10-arbitrary-owner",
        "If nobody is caught up, a task goes to the process with the least lag.",
    ),
    Variant(
        "S11-spurious-left-join", "KAFKA-10847", (JoinsAtOnce,),
        "duplicate-output", "S11-spurious-left-join",
        "A left join waits for a partner until its window closes.",
    ),
    Variant(
        "S12-shared-join-clock", "KAFKA-14862", (SharesJoinClock,),
        "duplicate-output", "S12-shared-join-clock",
        "Each task of a join has a stream time of its own.",
    ),
    Variant(
        "S14-suppress-restore-metadata", "KAFKA-7895", (ForgetsSuppressedContext,),
        "wrong-output", "S14-suppress-restore-metadata",
        "What suppress() holds back keeps its time when the task moves.",
    ),
    Variant(
        "S16-paused-forever", "KAFKA-17299", (ResumesAtTheLimit,),
        "unseen", "S16-paused-forever",
        "A partition is resumed once its queue has room, also if corrupt records left it.",
    ),
)  # fmt: skip
