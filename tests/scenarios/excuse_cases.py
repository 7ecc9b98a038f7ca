"""A variant that fails under each excuse, and the stored scenario that shows it.

The scenarios are seeds of ``tests/bugs/seeds``, or of the catalogue or ``tests/scenarios/excuses``
with own seeds. A variant that attacks what the excuse softens proves more than any other.
"""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True)
class Case:
    """A scenario in which an excuse is in force, with a variant and without."""

    excuse: str  # as the table of scenarios/judging/README.md calls it
    scenario: str
    variant: str
    fails: str  # a finding that the variant adds
    seed: int | None = None  # None: a seed of tests/bugs/seeds, which has its own
    holds: bool = True  # with the variant, too; False: that makes untrue what it excuses
    beside: str = ""  # when the topic of a group beside it grows (excuse_beside.py), "" for none

    @property
    def is_seed_as_found(self) -> bool:
        """Return whether the scenario is a seed of tests/bugs/seeds with nothing beside it."""
        return self.seed is None and not self.beside


CASES: tuple[Case, ...] = (
    Case(
        "last-replica-standing",
        "B02-truncate-to-hw-diverges",
        "B01-truncate-to-hw",
        "ISRDATA",
        seed=1,
    ),
    Case(
        "the last-known leader",
        "excuses/one-replica-and-three",
        "B30-unclean-election",
        "STABLEREAD",
        seed=2,
    ),
    Case(
        "unclean-election",
        "excuses/an-unclean-and-a-clean-topic",
        "B30-unclean-election",
        "STABLEREAD",
        seed=2,
    ),
    Case(
        "lost positions",
        "position-that-never-polled-goes-back",
        "B84-reregistration-keeps-leader",
        "OFFSET",
    ),
    Case("lost commits", "excuses/commits-lost", "M28-loads-one-buffer", "OFFSET", seed=1),
    Case("reopened epoch", "a-gap-behind-a-reopened-epoch", "M01-hw-ignores-followers", "ISRDATA"),
    Case(
        "unfenced in controlled shutdown",
        "unfenced-in-controlled-shutdown",
        "B17-metadata-update-as-new-epoch",
        "ONELEADER",
    ),
    Case(
        "a forgotten expansion",
        "expansion-forgotten-by-its-leader",
        "M01-hw-ignores-followers",
        "ACKED",
    ),
    Case(
        "what a transaction rested on",
        "committed-less-after-a-truncation",
        "B16-stale-hw-position",
        "precommitted-read",
    ),
    Case(
        "an epoch that was given twice",
        "record-taken-for-a-lost-epochs-duplicate",
        "B16-stale-hw-position",
        "precommitted-read",
    ),
    Case(
        "a batch that a later one has overtaken",
        "first-batch-overtaken",
        "B50-dup-after-state-loss",
        "nonmonotonic-send",
        holds=False,
    ),
    Case(
        "a sequence that was given back",
        "a-sequence-given-back-within-one-transaction",
        "B16-stale-hw-position",
        "STABLEREAD",
    ),
    Case(
        "an end that came late",
        "an-earlier-commit-ends-the-next-transaction",
        "B16-stale-hw-position",
        "precommitted-read",
    ),
    Case(
        "a batch that came late",
        "a-batch-that-came-in-the-next-transaction",
        "B16-stale-hw-position",
        "precommitted-read",
    ),
    Case(
        "a share partition initialized again",
        "excuses/share-group-initialized-again",
        "M80-share-answers-early",
        "accepted-again",
        seed=6,
    ),
    Case(
        "an initialization that came late",
        "share-initialization-that-came-late",
        "M80-share-answers-early",
        "accepted-again",
    ),
    Case(
        "a transaction that no epoch is left to end",
        "a-timeout-under-the-last-epoch",
        "B51-double-completion",
        "hanging-transaction",
    ),
    Case(
        "an end that was answered before it was written",
        "share-end-answered-unwritten",
        "B01-truncate-to-hw",
        "ISRDATA",
    ),
    Case(
        "a share partition that fetches below the log start",
        "gap-below-the-log-start",
        "M45-new-partitions-unseen",
        "no-progress",
        beside="4520ms",
    ),
    Case(
        "a read gap of which the log has nothing",
        "share-read-gap-was-removed",
        "M45-new-partitions-unseen",
        "no-progress",
        beside="4800ms",
    ),
    Case(
        "a share partition that starts with removed records",
        "share-start-before-removed-records",
        "B17-metadata-update-as-new-epoch",
        "ONELEADER",
    ),
    Case(
        "a share partition whose start the log start moved",
        "excuses/share-start-and-another-group",
        "M45-new-partitions-unseen",
        "no-progress",
        seed=1,
    ),
    Case(
        "a share partition whose start has no state",
        "excuses/share-start-without-a-state",
        "M45-new-partitions-unseen",
        "no-progress",
        seed=1,
    ),
    Case(
        "a share partition whose start stays behind a read gap",
        "accepted-behind-a-read-gap-and-unheard",
        "M45-new-partitions-unseen",
        "no-progress",
        beside="3s",
    ),
    Case(
        "a group whose consumers have ended",
        "group-that-ended-reads-no-more",
        "M42-heartbeats-unheard",
        "needless-eviction",
    ),
    Case(
        "a share partition whose initialization was forgotten",
        "share-partition-forgotten",
        "M45-new-partitions-unseen",
        "no-progress",
        beside="2000ms",
    ),
    Case(
        "an id that nobody lists",
        "aborted-by-an-operator-while-nobody-listed-it",
        "M51-decisions-forgotten",
        "no-progress",
    ),
    Case(
        "a marker that was skipped",
        "marker-of-a-partition-that-nobody-has-named",
        "M42-heartbeats-unheard",
        "needless-eviction",
    ),
    Case(
        "a coordinator without its log",
        "coordinator-on-a-failed-directory",
        "B61-zombie-offsets-in-txn",
        "duplicate-output",
    ),
    Case(
        "offsets that have expired",
        "offsets-of-a-processor-that-was-away-expire",
        "M43-offsets-expire-at-once",
        "vanished-offset",
    ),
    Case(
        "offsets that a failed transaction left over",
        "offsets-left-to-the-next-transaction",
        "B18-hw-under-min-isr",
        "MINISR",
    ),
    Case(
        "the epoch of a deleted topic",
        "excuses/topic-recreated-and-two-groups",
        "B45-topic-recreated",
        "no-progress",
        seed=2,
    ),
    Case(
        "what a result or a window rested on",
        "excuses/audit-and-a-power-loss",
        "M05-no-min-isr",
        "MINISR",
        seed=1,
    ),
    Case(
        "a member of the ISR that is no replica",
        "isr-with-a-broker-that-is-no-replica",
        "M05-no-min-isr",
        "MINISR",
    ),
    Case("cleaned records", "slow-flush-outlasts-its-fault", "M70-keys-collide", "LATEST"),
    Case(
        "a missed abort marker",
        "abort-marker-removed-before-it-was-copied",
        "B55-abort-index-lost",
        "LATEST",
    ),
    Case("deleted records", "excuses/deleted-and-kept", "B01-truncate-to-hw", "ISRDATA", seed=1),
    Case(
        "a shorter epoch cache",
        "excuses/log-start-forgotten",
        "M71-start-epoch-dropped",
        "EPOCHCACHE",
        seed=1,
    ),
    Case(
        "a stall that waits for an operator",
        "group-waits-within-a-batch",
        "M03-no-truncation",
        "no-progress",
    ),
    Case(
        "what a group could not read in a stall",
        "excuses/old-consumer-and-another-group",
        "M45-new-partitions-unseen",
        "unseen",
        seed=1,
        holds=False,  # another group waits, too, so the stall is not excused
    ),
    Case(
        "a log start that was forgotten",
        "old-consumer-asks-a-follower",
        "M10-short-log-kept",
        "no-progress",
    ),
    Case(
        "a coordinator's partition that nobody leads",
        "lost-answer-to-the-transaction-state",
        "M45-new-partitions-unseen",
        "no-progress",
        beside="664ms",
    ),
    Case(
        "a topic that a deposed controller does not know",
        "isr-proposed-to-a-deposed-controller",
        "B33-zk-write-without-epoch-check",
        "META",
    ),
    Case(
        "a partition whose ELR was cleared while it had no leader",
        "transaction-in-a-partition-without-elr",
        "M45-new-partitions-unseen",
        "no-progress",
        beside="1950ms",
    ),
    Case(
        "a leader that was lost before ELR was turned on",
        "leader-lost-before-elr",
        "M45-new-partitions-unseen",
        "no-progress",
        beside="1200ms",
    ),
    Case(
        "a high watermark that a follower has not taken",
        "high-watermark-not-taken",
        "B03-epoch-reply-without-epoch",
        "needless-reset",
    ),
    Case(
        "partitions that a static leader has not found",
        "excuses/static-leader-and-another-group",
        "M45-new-partitions-unseen",
        "no-progress",
        seed=1,
    ),
    Case(
        "what a static member had to hand over",
        "revoked-by-a-static-member-that-came-back",
        "M43-offsets-expire-at-once",
        "OFFSET",
    ),
    Case(
        "a rebalance after a downgrade that nobody remembers",
        "rebalance-after-a-downgrade-is-forgotten",
        "M45-new-partitions-unseen",
        "no-progress",
        beside="2658ms",
    ),
    Case(
        "a quota that is spent on connections that were left",
        "excuses/old-consumer-and-another-group",
        "M45-new-partitions-unseen",
        "no-progress",
        seed=1,
    ),
    Case(
        "a candidate that was removed",
        "excuses/candidate-removed",
        "M45-new-partitions-unseen",
        "no-progress",
        seed=1,
    ),
    Case(
        "a metadata quorum that has lost its voters",
        "quorum-lost-with-a-voters-disk",
        "M45-new-partitions-unseen",
        "no-progress",
        beside="1100ms",
    ),
    Case(
        "a broker that a lost quorum leaves in ISRs",
        "left-in-isrs-by-a-lost-quorum",
        "B41-raft-leader-same-epoch",
        "no-progress",
    ),
    Case(
        "a transaction that an excused stall leaves open",
        "left-in-isrs-by-a-lost-quorum",
        "B41-raft-leader-same-epoch",
        "hanging-transaction",
        holds=False,  # a controller is down by the bug, so the stall is not excused
    ),
    Case(
        "a leader of the quorum that is no voter",
        "leader-that-is-no-voter-is-not-found",
        "M35-waits-for-every-replica",
        "no-progress",
    ),
    Case(
        "a broker that gave up its registration",
        "registration-of-before-recorded-again",
        "M35-waits-for-every-replica",
        "no-progress",
    ),
    Case(
        "a coordinator that too few replicas are left to",
        "transactions-below-the-minimum",
        "M05-no-min-isr",
        "MINISR",
        holds=False,  # the leader appends below the minimum, so nobody waits for its coordinator
    ),
    Case(
        "a high watermark that too few replicas are left to move",
        "group-at-a-high-watermark-below-the-minimum",
        "B17-metadata-update-as-new-epoch",
        "ONELEADER",
    ),
    Case(
        "a marker that too few replicas are left to take",
        "excuses/decided-below-the-minimum",
        "B16-stale-hw-position",
        "STABLEREAD",
        seed=1,
    ),
    Case(
        "a transaction whose marker the leader has missed",
        "a-marker-that-was-emptied-while-a-replica-was-away",
        "B16-stale-hw-position",
        "STABLEREAD",
    ),
    Case(
        "a transaction that only an uncommitted record told",
        "transaction-told-by-an-uncommitted-record",
        "B17-metadata-update-as-new-epoch",
        "ONELEADER",
    ),
    Case(
        "a transaction that nobody ends",
        "committed-less-after-a-truncation",
        "B16-stale-hw-position",
        "precommitted-read",
    ),
    Case(
        "a replica that lost data in the ISR",
        "joiner-loses-its-disk",
        "M01-hw-ignores-followers",
        "ISRDATA",
    ),
    Case(
        "lost share states",
        "excuses/share-states-lost",
        "M81-share-delivers-once-more",
        "over-delivered",
        seed=1,
    ),
    Case(
        "rewritten sequences",
        "excuses/rewritten-while-in-flight",
        "B58-new-epoch-overtakes",
        "idempotent-duplicate",
        seed=1,
    ),
    Case(
        "a coordinator that cannot load its log",
        "excuses/group-whose-deletion-was-missed",
        "M42-heartbeats-unheard",
        "needless-eviction",
        seed=1,
    ),
    Case(
        "a classic member that nobody watches",
        "a-classic-member-that-nobody-watches",
        "B17-metadata-update-as-new-epoch",
        "no-progress",
    ),
    Case(
        "sequences that a leader has forgotten",
        "excuses/marker-after-the-sequences",
        "B16-stale-hw-position",
        "precommitted-read",
        seed=12,
    ),
)
