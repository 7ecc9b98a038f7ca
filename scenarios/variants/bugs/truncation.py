"""Historical bugs of log truncation, leader epochs, the high watermark and the log cleaner.

KAFKA.md, 8.1 and 8.6.

B01 to B04, B07 and B13 need followers that truncate by OffsetsForLeaderEpoch: their scripts set
inter.broker.protocol.version below 2.7.
"""

from __future__ import annotations

from typing import Any

from kafkasim.model.errors import Errors
from kafkasim.model.replication.rules import ReplicationRules
from kafkasim.model.storage.rules import StorageRules
from kafkasim.scenarios.variants.variant import Variant


class TruncatesToHighWatermark(ReplicationRules):
    """A new follower truncates to its own high watermark and asks no leader."""

    def looks_up_epochs(self, log: Any) -> bool:
        return False


class HighWatermarkBelowNewStart(StorageRules):
    """A log that begins anew at a higher offset keeps its high watermark."""

    def high_watermark_after_reset(self, high_watermark: int, offset: int) -> int:
        return min(high_watermark, offset)


class ReplyWithoutEpoch(ReplicationRules):
    """OffsetsForLeaderEpoch answers with an end offset and no epoch."""

    def lookup_reply(self, epoch: int, end_offset: int) -> tuple[int, int]:
        return -1, end_offset


class NoFetchFencing(ReplicationRules):
    """Replicas accept requests and responses of another leader epoch."""

    def check_leader_epoch(self, requested: int, current: int) -> Errors:
        return Errors.NONE

    def accepts_lookup_reply(self, sent: Any, leader_epoch: int) -> bool:
        return True


class SendsFromTheFile(ReplicationRules):
    """Broker 1 sends bytes of its log file 4 s after it read them for a follower.

    A truncation meanwhile changes the bytes, and the follower appends them, of whatever epoch.
    """

    def fetch_send_delay_us(self, broker_id: int) -> int:
        return 4_000_000 if broker_id == 1 else 0


class SessionDropsEpoch(ReplicationRules):
    """An incremental fetch session checks no leader epoch."""

    def session_keeps_epoch(self) -> bool:
        return False


class StaleHighWatermarkPosition(ReplicationRules):
    """A leader keeps using the cached position of a high watermark at the end of a segment.

    After a roll that position is the end of the log.
    """

    def consumer_bound(self, log: Any, isolation_level: int) -> int:
        bound = super().consumer_bound(log, isolation_level)
        return int(log.log_end_offset if log.segments[-1].base_offset == bound else bound)


class FollowersAcceptAnyEpoch(StorageRules):
    """A follower's log appends batches of any leader epoch."""

    def follower_accepts(self, batch_epoch: int, leader_epoch: int) -> bool:
        return True


class RemembersFollowers(ReplicationRules):
    """A leader that is elected again keeps its followers' log ends of the earlier epoch."""

    def reset_remote_replicas(self, leader: Any, was_leader: bool, now: int) -> None:
        if not was_leader:
            super().reset_remote_replicas(leader, was_leader, now)
            return
        for replica, remote in leader.remotes.items():
            since = now if replica in leader.isr else 0
            remote.last_fetch_leader_end = leader.log.log_end_offset
            remote.last_fetch_us = since
            remote.last_caught_up_us = since


class JoinsAtHighWatermark(ReplicationRules):
    """A replica joins the ISR once it has reached the leader's high watermark."""

    def reaches_epoch_start(self, follower_end: int, leader_epoch_start: int) -> bool:
        return True


class NoEpochEntryAtElection(ReplicationRules):
    """A leader's epoch enters its epoch cache only with its first record."""

    def assigns_epoch_at_election(self) -> bool:
        return False


class KeepsEpochsAtLogEnd(StorageRules):
    """Truncation at the log end leaves the epoch cache as it is."""

    def trims_epochs_beyond_end(self) -> bool:
        return False


class HighWatermarkBeforeTruncation(ReplicationRules):
    """A follower takes the high watermark from the response that tells it to truncate."""

    def follower_hw_from_diverging(self, response: Any) -> int | None:
        return int(response.high_watermark)


class UsesRepliesOfRemoved(ReplicationRules):
    """A fetch response is applied although its partition is no longer fetched."""

    def uses_reply_of_removed(self) -> bool:
        return True


class AnyUpdateIsNewLeadership(ReplicationRules):
    """Every change of a partition starts a new leadership."""

    def starts_leadership(self, known_epoch: int, leader_epoch: int) -> bool:
        return leader_epoch >= known_epoch


class RepliesMatchByOffset(ReplicationRules):
    """A fetch response is applied if its offset fits, whatever its leader epoch."""

    def accepts_fetch_reply(self, sent: Any, fetch_offset: int, leader_epoch: int) -> bool:
        return bool(sent.fetch_offset == fetch_offset)


class CleansUpToTheActiveSegment(StorageRules):
    """A log is cleaned up to its active segment, committed or not."""

    def cleanable_bound(self, last_stable_offset: int, active_base_offset: int) -> int:
        return active_base_offset


class RetentionUpToTheLogEnd(StorageRules):
    """Retention deletes a segment that is old or large enough, committed or not."""

    def retention_bound(self, high_watermark: int, log_end_offset: int) -> int:
        return log_end_offset


class TombstonesByTheirSegment(StorageRules):
    """A tombstone or marker stays until the last clean segment was written delete.retention.ms
    after its own segment."""

    def delete_horizon_passed(
        self, batch: Any, now_ms: int, modified_ms: int, legacy_horizon_ms: int
    ) -> bool:
        return modified_ms <= legacy_horizon_ms


TRUNCATION: tuple[Variant, ...] = (
    Variant(
        "B01-truncate-to-hw", "KIP-101", (TruncatesToHighWatermark,),
        "ISRDATA", "B01-truncate-to-hw",
        "A new follower truncates where the leader's epoch ended, not at its own high "
        "watermark.",
    ),
    Variant(
        "B02-truncate-to-hw-diverges", "KIP-101", (TruncatesToHighWatermark,),
        "MATCH", "B02-truncate-to-hw-diverges",
        "A follower that comes back truncates where the leader's epoch ended, so that it keeps "
        "no other data than the leader.",
    ),
    Variant(
        "B03-epoch-reply-without-epoch", "KIP-279", (ReplyWithoutEpoch,),
        "MATCH", "B03-epoch-reply-without-epoch",
        "The response of OffsetsForLeaderEpoch names the epoch that it found, so that a "
        "follower can go down to one that both logs have.",
    ),
    Variant(
        "B04-no-fetch-epoch-fencing", "KIP-320", (NoFetchFencing, FollowersAcceptAnyEpoch),
        "MATCH", "B04-no-fetch-epoch-fencing",
        "A fetch of an older leader epoch is refused.",
    ),
    Variant(
        "B05-count-old-epoch-follower-leo", "KIP-320", (RemembersFollowers,),
        "ISRDATA", "B05-count-old-epoch-follower-leo",
        "A leader that is elected again forgets the log ends that followers reported in an "
        "older leader epoch.",
    ),
    Variant(
        "B06-isr-expand-at-hw", "KAFKA-7128", (JoinsAtHighWatermark,),
        "ISRDATA", "B06-isr-expand-at-hw",
        "A new leader admits a replica to the ISR once it holds all records up to the start of "
        "the leader's epoch, not once it reaches the leader's own lagging high watermark.",
    ),
    Variant(
        "B07-no-epoch-entry-on-election", "KAFKA-7415", (NoEpochEntryAtElection,),
        "ISRDATA", "B07-no-epoch-entry-on-election",
        "A leader that has not written in its epoch can still tell followers where the earlier "
        "epochs ended.",
    ),
    Variant(
        "B08-stale-epoch-at-log-end", "KAFKA-10706", (KeepsEpochsAtLogEnd,),
        "LIVE", "B08-stale-epoch-at-log-end",
        "Truncation at the log end still trims the epoch cache, so that the follower can go on.",
    ),
    Variant(
        "B10-follower-hw-before-truncate", "KAFKA-14704", (HighWatermarkBeforeTruncation,),
        "STABLEREAD", "B10-follower-hw-before-truncate",
        "A follower that diverges never raises its high watermark into the records that it is "
        "about to truncate.",
    ),
    Variant(
        "B13-fetch-session-drops-epoch", "KAFKA-9338", (SessionDropsEpoch, FollowersAcceptAnyEpoch),
        "MATCH", "B13-fetch-session-drops-epoch",
        "A fetch session keeps the leader epoch of each partition, so that a fetch of an older "
        "epoch is refused.",
    ),
    Variant(
        "B14-fetcher-removed-race", "KAFKA-13207", (UsesRepliesOfRemoved,),
        "ISRDATA", "B14-fetcher-removed-race",
        "A fetch response counts only while the fetcher that sent the request still fetches the "
        "partition.",
    ),
    Variant(
        "B16-stale-hw-position", "KAFKA-9196", (StaleHighWatermarkPosition,),
        "STABLEREAD", "B16-stale-hw-position",
        "A consumer reads up to the high watermark, also when that is the start of a segment.",
    ),
    Variant(
        "B17-metadata-update-as-new-epoch", "KAFKA-13790", (AnyUpdateIsNewLeadership,),
        "ONELEADER", "B17-metadata-update-as-new-epoch",
        "A partition change without a new leader epoch starts no new leadership: the leader "
        "keeps its followers' progress.",
    ),
    Variant(
        "B82-stale-fetch-reply-epoch", "KAFKA-18991", (RepliesMatchByOffset,),
        "ISRDATA", "B82-stale-fetch-reply-epoch",
        "A response to a fetch of an older leader epoch is not used in a newer one.",
    ),
    Variant(
        "B83-append-newer-epoch-batches", "KAFKA-18723",
        (SendsFromTheFile, FollowersAcceptAnyEpoch),
        "MATCH", "B83-append-newer-epoch-batches",
        "A follower appends no batch of a newer leader epoch than the one it fetched in.",
    ),
    Variant(
        "B80-clean-above-hw", "KAFKA-13194", (CleansUpToTheActiveSegment,),
        "LATEST", "B80-clean-above-hw",
        "An uncommitted record is no reason to remove an older one of its key.",
    ),
    Variant(
        "B81-retention-above-hw", "KAFKA-5634", (RetentionUpToTheLogEnd,),
        "LOGORDER", "B81-retention-above-hw",
        "Retention deletes no record above the high watermark, which a follower may still lack.",
    ),
    Variant(
        "B88-tombstone-removed-early", "KAFKA-4545", (TombstonesByTheirSegment,),
        "LATEST", "B88-tombstone-removed-early",
        "A tombstone stays for delete.retention.ms after the first cleaning that met it, so that "
        "a reader who lags by less gets it.",
    ),
    Variant(
        "B89-tombstone-kept-forever", "KAFKA-8522", (TombstonesByTheirSegment,),
        "HORIZON", "B89-tombstone-kept-forever",
        "The delete horizon of a tombstone never moves, so the first cleaning behind it removes "
        "the tombstone.",
    ),
    Variant(
        "B96-hw-below-new-start", "KAFKA-9491", (HighWatermarkBelowNewStart,),
        "LOGORDER", "B96-hw-below-new-start",
        "A follower whose log begins anew at the leader's log start has its high watermark there.",
    ),
)  # fmt: skip
