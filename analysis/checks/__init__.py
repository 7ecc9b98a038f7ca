"""The checks: one SQL query per guarantee, over views of all runs' facts (see base.py)."""

from kafkasim.analysis.checks import (
    applications,
    delivery,
    groups,
    liveness,
    order,
    readers,
    replication,
)
from kafkasim.analysis.checks.cleaned.latest import LATEST
from kafkasim.analysis.checks.cleaned.tombstones import HORIZON, LOST_DELETION
from kafkasim.analysis.checks.copies import queries as copies
from kafkasim.analysis.checks.copies import raised_epochs
from kafkasim.analysis.checks.harm import brokers as harm
from kafkasim.analysis.checks.harm import members, rebalances, serving
from kafkasim.analysis.checks.harm.waits import answers, shutdown, watermark
from kafkasim.analysis.checks.harm.waits.dead_members import DEAD_MEMBERS
from kafkasim.analysis.checks.outside.audit import AUDIT
from kafkasim.analysis.checks.outside.results import RESULTS
from kafkasim.analysis.checks.settings.min_isr import HIGH_WATERMARK_NEEDS_MIN_ISR
from kafkasim.analysis.checks.shares import queries as shares
from kafkasim.analysis.checks.transactions import queries as transactions
from kafkasim.analysis.checks.transactions.verified import VERIFIED_IN_ORDER

CHECKS: dict[str, str] = {
    "lost-write": delivery.LOST_WRITE,
    "unseen": delivery.UNSEEN,
    "duplicate": delivery.DUPLICATE,
    "idempotent-duplicate": copies.IDEMPOTENT_DUPLICATE,
    "handover-redelivery": copies.HANDOVER_REDELIVERY,
    "inconsistent-offsets": delivery.INCONSISTENT_OFFSETS,
    "poll-order": order.POLL_ORDER,
    "nonmonotonic-send": order.NONMONOTONIC_SEND,
    "key-order": order.KEY_ORDER,
    "offset-regression": readers.OFFSET_REGRESSION,
    "skipped-by-commit": readers.SKIPPED_BY_COMMIT,
    "reordered-commit": readers.REORDERED_COMMIT,
    "lost-to-retention": readers.LOST_TO_RETENTION,
    "needless-reset": readers.NEEDLESS_RESET,
    "double-owner": groups.DOUBLE_OWNER,
    "old-owners": groups.OWNERS,
    "stale-coordinator": harm.STALE_COORDINATOR,
    "early-handover": groups.EARLY_HANDOVER,
    "stale-commit": groups.STALE_COMMIT,
    "changed-generation": groups.CHANGED_GENERATION,
    "needless-rebalance": rebalances.NEEDLESS_REBALANCE,
    "needless-eviction": members.NEEDLESS_EVICTION,
    "old-id-has-reason": members.NEEDLESS_REVERSAL,
    "long-rebalance": members.LONG_REBALANCE,
    "vanished-offset": readers.VANISHED_OFFSET,
    "one-leader-per-epoch": replication.ONE_LEADER,
    "clean-leader-holds-exposed": replication.CLEAN_LEADER_HOLDS_EXPOSED,
    "high-watermark-min-isr": HIGH_WATERMARK_NEEDS_MIN_ISR,
    "high-watermark-monotonic": replication.HIGH_WATERMARK_MONOTONIC,
    "isr-members-eligible": replication.ISR_ELIGIBLE,
    "readers-stay-in-isr": replication.READ_REPLICA_IN_ISR,
    "isr-change-has-reason": replication.CHANGE_HAS_REASON,
    "logs-agree": replication.LOGS_AGREE,
    "cleaner-keeps-latest": LATEST,
    "tombstones-go": HORIZON,
    "tombstones-stay": LOST_DELETION,
    "log-offsets-in-order": harm.LOG_ORDER,
    "lag-has-reason": harm.LAG_REASON,
    "fence-has-reason": harm.FENCE_REASON,
    "dead-members-leave": DEAD_MEMBERS,
    "deposed-leader-stops": serving.STALE_SERVICE,
    "deposed-reads-stop": serving.STALE_READS,
    "lost-replica-stops": serving.LOST_REPLICAS,
    "metadata-arrives": serving.LATE_METADATA,
    "control-requests-arrive": serving.LATE_REQUESTS,
    "shutdown-ends": shutdown.SHUTDOWN_ENDS,
    "high-watermark-moves": watermark.WATERMARK_STALLS,
    "producers-are-answered": answers.LATE_ANSWERS,
    "application-failed": applications.FAILED,
    "transaction-reads": transactions.READS,
    "torn-transaction": transactions.TORN,
    "hanging-transaction": transactions.HANGING,
    "zombie-producer": transactions.ZOMBIE,
    "needless-epoch": transactions.NEEDLESS_EPOCH,
    "verified-in-order": VERIFIED_IN_ORDER,
    "raise-has-reason": raised_epochs.EPOCH_REASON,
    "processor-outputs": transactions.OUTPUTS,
    "accepted-again": shares.ACCEPTED_AGAIN,
    "held-twice": shares.HELD_TWICE,
    "over-delivered": shares.OVER_DELIVERED,
    "share-skipped": shares.SHARE_SKIPPED,
    "audit": AUDIT,
    "stored-results": RESULTS,
    "no-progress": liveness.NO_PROGRESS,
}
"""Every check by the name that verdicts show."""

NEEDED: dict[str, str] = {
    "old-owners": "PartitionOwner",
    "cleaner-keeps-latest": "Cleaned",
    "tombstones-go": "Cleaned",
    "tombstones-stay": "Cleaned",
    "readers-stay-in-isr": "PreferredReadReplica",
    "deposed-reads-stop": "ReadServed",
    "metadata-arrives": "BrokerHeartbeat",
    "control-requests-arrive": "ZkControllerWrite",
    "needless-rebalance": "GroupState",
    "needless-eviction": "GroupState",
    "old-id-has-reason": "MemberIdReverted",
    "long-rebalance": "GroupState",
    "vanished-offset": "OffsetCommitted",
    "stale-commit": "OffsetCommitted",
    "changed-generation": "GroupState",
    "application-failed": "ApplicationFailed",
    "transaction-reads": "TransactionBegun",
    "torn-transaction": "TransactionBegun",
    "hanging-transaction": "TransactionBegun",
    "zombie-producer": "TransactionBegun",
    "needless-epoch": "TransactionState",
    "verified-in-order": "BatchUnverified",
    "processor-outputs": "ProcessorStarted",
    "accepted-again": "ShareAcquired",
    "held-twice": "ShareAcquired",
    "over-delivered": "ShareAcquired",
    "share-skipped": "SharePartitionLoaded",
    "audit": "AuditPublished",
    "stored-results": "FinalResults",
}
"""The kind of fact without which a check finds nothing. A check is left out where no run has that
kind: to plan the checks of transactions costs more than to judge a small fleet by all others."""

RARE: dict[str, str] = {
    "lost-write": "lost_ids",
    "unseen": "unread_ids",
    "poll-order": "poll_jumps",
    "idempotent-duplicate": "record_copies",
    "handover-redelivery": "handovers",
    "high-watermark-monotonic": "fallen_marks",
    "logs-agree": "differing_logs",
    "reordered-commit": "commits_back",
    "lost-to-retention": "moved_members",
    "needless-reset": "moved_members",
    "needless-eviction": "members_gone",
    "shutdown-ends": "shutdown_waits",
    "high-watermark-moves": "standing_marks",
    "producers-are-answered": "late_answers",
    "raise-has-reason": "raised_producers",
}
"""The view of what a check judges, where a healthy fleet has little of it: a check is left out
where its view has no rows."""

RARE_VIEWS = {
    **delivery.VIEWS, **order.VIEWS, **replication.VIEWS, **readers.VIEWS, **members.VIEWS,
    **shutdown.VIEWS, **watermark.VIEWS, **answers.VIEWS, **copies.VIEWS, **raised_epochs.VIEWS,
}  # fmt: skip
"""Those views, and what else such a check reads, by name."""

__all__ = ["CHECKS", "NEEDED", "RARE", "RARE_VIEWS"]
