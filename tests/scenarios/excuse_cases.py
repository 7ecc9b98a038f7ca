"""A variant that fails under each excuse, and the stored scenario that shows it.

The scenarios are seeds of ``tests/bugs/seeds``, or of the catalogue or ``tests/scenarios/excuses``
with own seeds. A variant that attacks what the excuse softens proves more than any other.
"""

from __future__ import annotations

from tests.scenarios.excuse_case import Case

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
        "a batch that nobody verified",
        "a-batch-behind-its-marker",
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
        "an end that was answered before it was written",
        "share-end-answered-unwritten",
        "M02-isr-expands-unchecked",
        "ISRDATA",
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
        "a deposed coordinator",
        "coordinator-on-a-failed-directory",
        "B61-zombie-offsets-in-txn",
        "duplicate-output",
    ),
    Case(
        "deleted inputs that are there again",
        "deleted-inputs-are-processed-again",
        "B96-hw-below-new-start",
        "LOGORDER",
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
        "what a result or a window rested on",
        "excuses/audit-and-a-power-loss",
        "M05-no-min-isr",
        "MINISR",
        seed=1,
    ),
    Case(
        "a member of the ISR that is no replica",
        "isr-with-a-broker-that-is-no-replica",
        "M01-hw-ignores-followers",
        "ISRDATA",
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
        "an epoch that a late answer cut off",
        "stale-reply-cuts-an-epoch-off",
        "M01-hw-ignores-followers",
        "ISRDATA",
    ),
    Case(
        "a shorter epoch cache",
        "excuses/log-start-forgotten",
        "M71-start-epoch-dropped",
        "EPOCHCACHE",
        seed=1,
    ),
    Case(
        "a transaction that an excused stall leaves open",
        "left-in-isrs-by-a-lost-quorum",
        "B41-raft-leader-same-epoch",
        "hanging-transaction",  # a controller is down by the bug, so the stall is not excused
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
)
