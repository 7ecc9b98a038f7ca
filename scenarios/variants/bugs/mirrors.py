"""MirrorMaker 2: historical bugs of its tasks (KAFKA.md, 8.8)."""

from __future__ import annotations

from kafkasim.model.connect.rules import MirrorRules
from kafkasim.scenarios.variants.variant import Variant


class Extrapolates(MirrorRules):
    """A group's offset in the target is as far behind the last offset sync as in the source."""

    def translated(self, up: int, down: int, offset: int) -> int:
        return down + (offset - up)


class DropsZero(MirrorRules):
    """A translated offset of 0 becomes no checkpoint."""

    def may_be_emitted(self, down: int) -> bool:
        return down > 0


class TakesSourceOffset(MirrorRules):
    """Without an offset sync of its partition an offset is translated to itself."""

    def translated_without_sync(self, offset: int) -> int | None:
        return offset


class KeepsNewestSync(MirrorRules):
    """Only the newest offset sync of a partition is kept."""

    def keeps_older_syncs(self) -> bool:
        return False


class ForgetsSyncs(MirrorRules):
    """A task that starts takes only the last offset sync of each partition."""

    def only_last_sync_at_start(self, checkpoints_read: bool) -> bool:
        return True


class DropsSyncs(MirrorRules):
    """An offset sync that is not due, or finds ten in flight, is dropped."""

    def queues_syncs(self) -> bool:
        return False


class ExtrapolatesStaleness(MirrorRules):
    """An offset sync is stale when extrapolating from it would be wrong by offset.lag.max."""

    def sync_is_stale(self, up: int, down: int, last_up: int, last_down: int, lag_max: int) -> bool:
        return down - (last_down + up - last_up) >= lag_max


class TranslatesAtOnce(MirrorRules):
    """A task that starts translates by the newest offset sync that it has read so far."""

    def waits_for_syncs(self) -> bool:
        return False

    def reads_checkpoints(self) -> bool:
        return False

    def keeps_older_syncs(self) -> bool:
        return False


class MirrorsConnectTopics(MirrorRules):
    """Of internal topics only those are left out that MirrorMaker itself names, and Kafka's."""

    def is_internal(self, topic: str) -> bool:
        own = topic.startswith("mm2-offset-syncs.") or topic.endswith(".checkpoints.internal")
        return own or topic.startswith(("__", ".")) or topic.endswith("-internal")


MIRROR_BUGS: tuple[Variant, ...] = (
    Variant(
        "B104-extrapolated-translation", "KAFKA-12468", (Extrapolates,),
        "translated-past", "B104-extrapolated-translation",
        "No record that a group has not read is in front of its translated offset.",
    ),
    Variant(
        "B105-zero-checkpoint-dropped", "KAFKA-10048", (DropsZero,),
        "skipped-at-failover", "B105-zero-checkpoint-dropped",
        "A group that has committed offset 0 begins at offset 0 in the target.",
    ),
    Variant(
        "B106-checkpoint-without-sync", "KAFKA-12635", (TakesSourceOffset,),
        "translated-past", "B106-checkpoint-without-sync",
        "A partition of which nothing is mirrored has no checkpoint.",
    ),
    Variant(
        "B107-newest-sync-only", "KAFKA-14666", (KeepsNewestSync,),
        "checkpoint-behind", "B107-newest-sync-only",
        "A group that lags behind the mirror has a checkpoint about as far behind.",
    ),
    Variant(
        "B108-restart-forgets-syncs", "KAFKA-15905", (ForgetsSyncs,),
        "checkpoint-behind", "B108-restart-forgets-syncs",
        "A restarted mirror goes on to translate the offsets of groups that lag.",
    ),
    Variant(
        "B109-offset-sync-dropped", "KAFKA-15906", (DropsSyncs,),
        "checkpoint-behind", "B109-offset-sync-dropped",
        "A group that has read a quiet partition reads nothing again in the target.",
    ),
    Variant(
        "B110-staleness-extrapolated", "KAFKA-14797", (ExtrapolatesStaleness,),
        "checkpoint-behind", "B110-staleness-extrapolated",
        "Offset syncs of a partition are at most offset.lag.max records apart.",
    ),
    Variant(
        "B111-translated-while-loading", "KAFKA-13659", (TranslatesAtOnce,),
        "checkpoint-regression", "B111-translated-while-loading",
        "A restarted mirror takes no group back, however long it reads its offset syncs.",
    ),
    Variant(
        "B112-internal-topic-mirrored", "KAFKA-13397", (MirrorsConnectTopics,),
        "internal-mirrored", "B112-internal-topic-mirrored",
        "No mirror copies the topics in which Connect keeps its state.",
    ),
)  # fmt: skip
