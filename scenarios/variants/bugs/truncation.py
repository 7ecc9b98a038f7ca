"""Historical bugs of log truncation, epochs and the high watermark (facts, 8.1).

B01 to B04, B07 and B13 show in lookup mode only: their scripts set inter.broker.protocol.version.
"""

from __future__ import annotations

from typing import Any

from kafkasim.model.errors import Errors
from kafkasim.model.replication.rules import ReplicationRules
from kafkasim.model.storage.rules import StorageRules
from kafkasim.scenarios.variants.variant import Variant


class TruncatesToHighWatermark(ReplicationRules):
    """A new follower cuts its log at its own high watermark and asks nobody."""

    def looks_up_epochs(self, log: Any) -> bool:
        return False


class ReplyWithoutEpoch(ReplicationRules):
    """OffsetsForLeaderEpoch answers with an end offset only."""

    def lookup_reply(self, epoch: int, end_offset: int) -> tuple[int, int]:
        return -1, end_offset


class NoFetchFencing(ReplicationRules):
    """Requests and replies of another leader epoch are taken as if they were of this one."""

    def check_leader_epoch(self, requested: int, current: int) -> Errors:
        return Errors.NONE

    def accepts_lookup_reply(self, sent: Any, state: Any) -> bool:
        return True


class SendsFromTheFile(ReplicationRules):
    """A leader sends a slice of its file; broker 1 is slow to send, and what stands there by then
    is what a follower appends, of whatever epoch."""

    def fetch_send_delay_us(self, broker_id: int) -> int:
        return 4_000_000 if broker_id == 1 else 0


class SessionDropsEpoch(ReplicationRules):
    """An incremental fetch session checks no leader epoch."""

    def session_keeps_epoch(self) -> bool:
        return False


class StaleHighWatermarkPosition(ReplicationRules):
    """The position of a high watermark at a segment's end is not looked up again after a roll."""

    def consumer_bound(self, log: Any, isolation_level: int) -> int:
        bound = super().consumer_bound(log, isolation_level)
        return int(log.log_end_offset if log.segments[-1].base_offset == bound else bound)


class FollowersAcceptAnyEpoch(StorageRules):
    """A follower's log takes batches of any leader epoch."""

    def follower_accepts(self, batch_epoch: int, leader_epoch: int) -> bool:
        return True


class RemembersFollowers(ReplicationRules):
    """A leader that is elected again keeps what it knew of its followers."""

    def reset_remote_replicas(self, partition: Any, was_leader: bool, now: int) -> None:
        if not was_leader:
            super().reset_remote_replicas(partition, was_leader, now)
            return
        for replica, remote in partition.remotes.items():
            since = now if replica in partition.isr else 0
            remote.last_fetch_leader_end = partition.log.log_end_offset
            remote.last_fetch_us = since
            remote.last_caught_up_us = since


class JoinsAtHighWatermark(ReplicationRules):
    """A replica joins the ISR once it has reached the leader's high watermark."""

    def may_join_isr(self, partition: Any, remote: Any) -> bool:
        reached = bool(remote.leo >= partition.log.high_watermark)
        return reached and self.is_eligible(partition, remote)


class NoEpochEntryAtElection(ReplicationRules):
    """A leader's epoch is in its cache from its first record on."""

    def assigns_epoch_at_election(self) -> bool:
        return False


class KeepsEpochsAtLogEnd(StorageRules):
    """Truncating at the log end leaves the epoch cache as it is."""

    def trims_epochs_beyond_end(self) -> bool:
        return False


class HighWatermarkBeforeTruncation(ReplicationRules):
    """A follower takes the leader's high watermark from the reply that tells it to truncate."""

    def follower_hw_from_diverging(self, response: Any) -> int | None:
        return int(response.high_watermark)


class UsesRepliesOfRemoved(ReplicationRules):
    """A fetch reply is applied though its partition is no longer fetched."""

    def uses_reply_of_removed(self, state: Any) -> bool:
        return True


class AnyUpdateIsNewLeadership(ReplicationRules):
    """Every change of a partition begins a new leadership."""

    def starts_leadership(self, partition: Any, leader_epoch: int) -> bool:
        return bool(leader_epoch >= partition.leader_epoch)


class RepliesMatchByOffset(ReplicationRules):
    """A fetch reply belongs to whoever asks at its offset, in whatever epoch."""

    def accepts_fetch_reply(self, sent: Any, state: Any) -> bool:
        return bool(sent.fetch_offset == state.fetch_offset)


TRUNCATION: tuple[Variant, ...] = (
    Variant(
        "B01-truncate-to-hw", "KIP-101", (TruncatesToHighWatermark,),
        "ISRDATA", "B01-truncate-to-hw",
        "A new follower cuts its log where the leader's epoch ended, not at its high watermark.",
    ),
    Variant(
        "B02-truncate-to-hw-diverges", "KIP-101", (TruncatesToHighWatermark,),
        "MATCH", "B02-truncate-to-hw-diverges",
        "A follower that comes back cannot keep other data than the leader below its end.",
    ),
    Variant(
        "B03-epoch-reply-without-epoch", "KIP-279", (ReplyWithoutEpoch,),
        "MATCH", "B03-epoch-reply-without-epoch",
        "The reply to an epoch lookup names the epoch, so that a follower can ask again.",
    ),
    Variant(
        "B04-no-fetch-epoch-fencing", "KIP-320", (NoFetchFencing, FollowersAcceptAnyEpoch),
        "MATCH", "B04-no-fetch-epoch-fencing",
        "A fetch of an older leader epoch is refused.",
    ),
    Variant(
        "B05-count-old-epoch-follower-leo", "KIP-320", (RemembersFollowers,),
        "ISRDATA", "B05-count-old-epoch-follower-leo",
        "What a follower said of its log under an older leader epoch counts for nothing.",
    ),
    Variant(
        "B06-isr-expand-at-hw", "KAFKA-7128", (JoinsAtHighWatermark,),
        "ISRDATA", "B06-isr-expand-at-hw",
        "A replica joins the ISR of a new leader once it holds all below the epoch's start.",
    ),
    Variant(
        "B07-no-epoch-entry-on-election", "KAFKA-7415", (NoEpochEntryAtElection,),
        "ISRDATA", "B07-no-epoch-entry-on-election",
        "A leader that has not written in its epoch can answer where the earlier ones ended.",
    ),
    Variant(
        "B08-stale-epoch-at-log-end", "KAFKA-10706", (KeepsEpochsAtLogEnd,),
        "LIVE", "B08-stale-epoch-at-log-end",
        "Truncation at the log end still trims the epoch cache.",
    ),
    Variant(
        "B10-follower-hw-before-truncate", "KAFKA-14704", (HighWatermarkBeforeTruncation,),
        "STABLEREAD", "B10-follower-hw-before-truncate",
        "A follower that diverges exposes nothing of what it is about to cut.",
    ),
    Variant(
        "B13-fetch-session-drops-epoch", "KAFKA-9338", (SessionDropsEpoch, FollowersAcceptAnyEpoch),
        "MATCH", "B13-fetch-session-drops-epoch",
        "A fetch session keeps the leader epoch of each of its partitions.",
    ),
    Variant(
        "B14-fetcher-removed-race", "KAFKA-13207", (UsesRepliesOfRemoved,),
        "ISRDATA", "B14-fetcher-removed-race",
        "A reply to a fetch counts only while the partition is still being fetched by it.",
    ),
    Variant(
        "B16-stale-hw-position", "KAFKA-9196", (StaleHighWatermarkPosition,),
        "STABLEREAD", "B16-stale-hw-position",
        "A consumer reads up to the high watermark, also at the beginning of a segment.",
    ),
    Variant(
        "B17-metadata-update-as-new-epoch", "KAFKA-13790", (AnyUpdateIsNewLeadership,),
        "LIVE", "B17-metadata-update-as-new-epoch",
        "A partition change without a new leader epoch is no new leadership.",
    ),
    Variant(
        "B82-stale-fetch-reply-epoch", "KAFKA-18991", (RepliesMatchByOffset,),
        "ISRDATA", "B82-stale-fetch-reply-epoch",
        "A reply to a fetch of an older leader epoch is not used in a newer one.",
    ),
    Variant(
        "B83-append-newer-epoch-batches", "KAFKA-18723", (SendsFromTheFile, FollowersAcceptAnyEpoch),
        "MATCH", "B83-append-newer-epoch-batches",
        "A follower appends no batch of a newer leader epoch than it fetched with.",
    ),
)  # fmt: skip
