"""Which excuses of ``scenarios/judging/README.md`` have spoken in a run.

An excuse lives where its judge asks for it. Several of them give the same reason, that of the loss
they rest on, and some keep a finding from being made at all, so that a result cannot tell them
apart. So this listens to the judges' questions: an excuse is *in force* in a run if its judge asked
it for a finding, and it answered. Only judges are listened to, and nothing is answered for them.
"""

from __future__ import annotations

import importlib
from bisect import bisect_right
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from typing import Any
from unittest.mock import patch

from kafkasim.scenarios.judging.copies.idempotence import REWRITTEN
from kafkasim.scenarios.judging.copies.missed_markers import MISSED_MARKER
from kafkasim.scenarios.judging.delivery import FROM_POSITIONS
from kafkasim.scenarios.judging.invariants.traced import FROM_EPOCH
from kafkasim.scenarios.judging.shares.late import LATE_INITIALIZATION
from kafkasim.scenarios.judging.shares.unwritten import UNWRITTEN
from kafkasim.scenarios.judging.source import (
    FORGOTTEN,
    LAST_REPLICA,
    UNCLEAN,
    acknowledged,
)
from kafkasim.scenarios.judging.transactions.known.late_batches import LATE_BATCH
from kafkasim.scenarios.judging.transactions.known.late_ends import LATE_END
from kafkasim.scenarios.judging.transactions.known.outputs.carried_offsets import CARRIED
from kafkasim.scenarios.judging.transactions.known.outputs.deleted_inputs import DELETED_INPUTS
from kafkasim.scenarios.judging.transactions.known.outputs.expired_offsets import EXPIRED
from kafkasim.scenarios.judging.transactions.known.skipped_markers import SKIPPED_MARKER
from kafkasim.scenarios.judging.transactions.known.unlisted import UNLISTED
from kafkasim.scenarios.judging.transactions.known.unverified import UNVERIFIED
from kafkasim.scenarios.judging.transactions.liveness.controllers.leaderless import (
    CLEARED_ELR,
    UNKNOWN_LEADER,
)
from kafkasim.scenarios.judging.transactions.liveness.controllers.lost_answers import UNKNOWN_TOPIC
from kafkasim.scenarios.judging.transactions.liveness.controllers.lost_voters import (
    LOST as LOST_VOTERS,
)
from kafkasim.scenarios.judging.transactions.liveness.controllers.lost_voters import UNSTARTABLE
from kafkasim.scenarios.judging.transactions.liveness.failed_replicas import (
    FORGOTTEN as FORGOTTEN_START,
)
from kafkasim.scenarios.judging.transactions.liveness.shares.moved_starts import (
    LACKS_STATE,
    MOVED,
)
from kafkasim.scenarios.judging.transactions.outputs import DEPOSED
from kafkasim.scenarios.judging.verdict import Result

Sign = Callable[[Any, tuple[Any, ...]], Any]
"""``sign(answer, arguments)``: whether an answer of a judge is the excuse's."""


def _answered(answer: Any, _asked: tuple[Any, ...]) -> Any:
    return answer


def _is_elected_cleanly(_answer: Any, asked: tuple[Any, ...]) -> bool:
    state, *_, reason = asked
    return bool(reason == LAST_REPLICA and state.led_epoch > state.unclean_epoch)


def _is_last_known(_answer: Any, asked: tuple[Any, ...]) -> bool:
    state, *_, reason = asked
    return bool(reason == LAST_REPLICA and state.led_epoch <= state.unclean_epoch)


def _is_unclean(answer: Any, asked: tuple[Any, ...]) -> bool:
    return asked[-1] == UNCLEAN and answer is not False


def _is_reopened(_answer: Any, asked: tuple[Any, ...]) -> bool:
    cluster, invariant, _, _, key, _, *expected = asked
    return invariant in FROM_EPOCH and not any(expected) and bool(cluster.partition(*key).reopened)


def _has_lost_data(_answer: Any, asked: tuple[Any, ...]) -> bool:
    """Return whether a member of the ISR lacks what leaders have exposed."""
    _, state, _, _, node, replica, _ = asked
    return replica.suspect and node in state.members and not state.holds_exposed(replica)


def _lacks_what_was_exposed(_answer: Any, asked: tuple[Any, ...]) -> bool:
    """Return whether a member of the ISR lacks what the leader has just exposed."""
    logs, _, _, _, fact = asked
    state = logs.cluster.partition(fact.topic_id, fact.partition)
    members = [state.replica(node) for node in state.members]
    return any(each.suspect and not state.holds_exposed(each) for each in members)


def _lacks_deleted(answer: Any, asked: tuple[Any, ...]) -> bool:
    state, replica = asked
    return bool(answer) and not replica.holds(state.exposed, state.exposed_hash)


def _starts_above(log_start: Any, asked: tuple[Any, ...]) -> bool:
    """Return whether acknowledged records are not asked for, because the log starts above them."""
    delivery, key, leader = asked
    placed = acknowledged(delivery._acked.get(key, [])).items()
    kept = dict.fromkeys(leader.record_ids)
    return any(0 <= offset < log_start and of not in kept for of, (offset, _, _) in placed)


def _caches_less(_answer: Any, asked: tuple[Any, ...]) -> bool:
    """Return whether a batch above the log start lacks the epoch that its replica has dropped."""
    cluster, _, _, node, fact, _ = asked
    trimmed = cluster.partition(fact.topic_id, fact.partition).replica(node).trimmed
    epochs, starts = fact.epoch_starts[::2], fact.epoch_starts[1::2]
    for base, epoch in zip(fact.base_offsets, fact.batch_epochs, strict=True):
        at = bisect_right(starts, base) - 1
        if fact.log_start_offset <= base < trimmed and (at < 0 or epochs[at] != epoch):
            return True
    return False


def _is_positions(answer: Any, asked: tuple[Any, ...]) -> bool:
    return bool(answer) and asked[2] in FROM_POSITIONS


def _joins_while_stopping(answer: Any, asked: tuple[Any, ...]) -> bool:
    return any(broker in asked[2].isr for broker in answer)


LIVENESS = "transactions.liveness"
EARS: dict[str, tuple[tuple[str, Sign], ...]] = {
    "last-replica-standing": (
        ("invariants.traced:TracedPartition.lose", _is_elected_cleanly),
    ),
    "the last-known leader": (("invariants.traced:TracedPartition.lose", _is_last_known),),
    "unclean-election": (
        ("invariants.traced:TracedPartition.lose", _is_unclean),
        ("invariants.traced:TracedPartition.expose_deposed", _is_unclean),
    ),
    "lost positions": (("delivery:Delivery._explains", _is_positions),),
    "lost commits": (
        ("delivery:Delivery._commits_lost", _answered),
        ("invariants.traced:TracedCluster.lost_between", _answered),
    ),
    "reopened epoch": (
        ("invariants.traced:TracedCluster.violated", _is_reopened),
        ("invariants.traced:TracedPartition.only_rewritten", _answered),
        ("invariants.traced:TracedPartition.was_reopened", _answered),
    ),
    "a replica that lost data in the ISR": (
        ("invariants.logs:Logs._on_high_watermark", _lacks_what_was_exposed),
        ("invariants.logs:Logs._check_isr_member", _has_lost_data),
    ),
    "unfenced in controlled shutdown": (
        ("invariants.metadata:Metadata._added", _joins_while_stopping),
    ),
    "a forgotten expansion": (
        ("invariants.traced:TracedLog.was_forgotten", _answered),
        ("invariants.traced:TracedPartition.expose_unawaited", _answered),
    ),
    "an epoch that was given twice": (
        ("transactions.known.given_again:GivenAgain.excuse", _answered),
        ("transactions.known.reused_epochs:ReusedEpochs.excuse", _answered),
    ),
    "a batch that a later one has overtaken": (("copies.overtaken:Overtaken.covers", _answered),),
    "a sequence that was given back": (
        ("transactions.known.given_again:GivenBack.excuse", _answered),
        ("transactions.known.given_again:GivenBack.excuse_in", _answered),
    ),
    "a marker that was skipped": (
        ("transactions.known.skipped_markers:SkippedMarkers.excuse_open", _answered),
    ),
    "a batch that nobody verified": (
        ("transactions.known.unverified:UnverifiedBatches.excuse_open", _answered),
    ),
    "a member of the ISR that is no replica": (
        ("invariants.zookeeper:Strangers.count", _answered),
    ),
    "cleaned records": (
        ("transactions.holes:Holes.was_removed", _answered),
        ("transactions.holes:Holes.was_removed_at", _answered),
    ),
    "a missed abort marker": (
        ("invariants.cleaned.latest:Cleanings._takes_otherwise", _answered),
    ),
    "a transaction whose marker the leader has missed": (
        ("copies.missed_markers:MissedEnds.excuse_open", _answered),
    ),
    "deleted records": (
        ("invariants.traced:TracedPartition.holds_exposed", _lacks_deleted),
        ("delivery:Delivery._log_start", _starts_above),
    ),
    "a shorter epoch cache": (("invariants.final:_check_epochs", _caches_less),),
    "an epoch that a late answer cut off": (("copies.stale_replies:StaleReplies.cut", _answered),),
    "a stall that waits for an operator": (
        (
            f"{LIVENESS}.failed_replicas:FailedReplicas.why",
            lambda why, _asked: why not in ("", FORGOTTEN_START),
        ),
        (
            f"{LIVENESS}.controllers.lost_answers:LostAnswers.why",
            lambda why, _asked: why not in ("", UNKNOWN_TOPIC),
        ),
        ("progress:Progress.stall_excuse", lambda why, _asked: why == "late-registration"),
    ),
    "a topic that a deposed controller does not know": (
        (
            f"{LIVENESS}.controllers.lost_answers:LostAnswers.why",
            lambda why, _asked: why == UNKNOWN_TOPIC,
        ),
    ),
    "what a group could not read in a stall": (("readers.passed:Stalled.excuse", _answered),),
    "a group whose consumers have ended": (("readers.passed:EndedGroups.excuse", _answered),),
    "a log start that was forgotten": (
        (
            f"{LIVENESS}.failed_replicas:FailedReplicas.why",
            lambda why, _asked: why == FORGOTTEN_START,
        ),
    ),
    "a coordinator's partition that nobody leads": (
        (
            f"{LIVENESS}.controllers.leaderless:Leaderless.excuse",
            lambda why, _asked: why not in ("", CLEARED_ELR, UNKNOWN_LEADER),
        ),
    ),
    "a partition whose ELR was cleared while it had no leader": (
        (
            f"{LIVENESS}.controllers.leaderless:Leaderless.excuse",
            lambda why, _asked: why == CLEARED_ELR,
        ),
    ),
    "a leader that was lost before ELR was turned on": (
        (
            f"{LIVENESS}.controllers.leaderless:Leaderless.excuse",
            lambda why, _asked: why == UNKNOWN_LEADER,
        ),
    ),
    "a high watermark that a follower has not taken": (
        (f"{LIVENESS}.groups.untaken_watermarks:UntakenWatermarks.excuse", _answered),
    ),
    "partitions that a static leader has not found": (
        (f"{LIVENESS}.groups.static_leader:StaticLeaders.excuse", _answered),
    ),
    "what a static member had to hand over": (
        (f"{LIVENESS}.groups.static_owner:StaticOwners.excuse", _answered),
    ),
    "a rebalance after a downgrade that nobody remembers": (
        (f"{LIVENESS}.groups.downgrade:Downgrades.excuse", _answered),
    ),
    "a coordinator that cannot load its log": (
        (f"{LIVENESS}.groups.failed_loads:FailedLoads.excuse", _answered),
    ),
    "a quota that is spent on connections that were left": (
        (f"{LIVENESS}.groups.left_connections:LeftConnections.excuse", _answered),
    ),
    "a share partition whose initialization was forgotten": (
        (f"{LIVENESS}.shares.forgotten_shares:ForgottenShares.excuse", _answered),
    ),
    "a share partition that fetches below the log start": (
        (f"{LIVENESS}.shares.stopped_shares:StoppedShares.excuse", _answered),
    ),
    "a share partition whose start stays behind a read gap": (
        (f"{LIVENESS}.shares.read_gaps:ReadGaps.excuse", _answered),
    ),
    "a read gap of which the log has nothing": (
        (f"{LIVENESS}.shares.removed_gaps:RemovedGaps.excuse", _answered),
    ),
    "a share partition that starts with removed records": (
        (f"{LIVENESS}.shares.stale_records:StaleRecords.excuse", _answered),
    ),
    "a share partition whose start the log start moved": (
        (f"{LIVENESS}.shares.moved_starts:MovedStarts.excuse", lambda why, _asked: why == MOVED),
    ),
    "a share partition whose start has no state": (
        (
            f"{LIVENESS}.shares.moved_starts:MovedStarts.excuse",
            lambda why, _asked: why == LACKS_STATE,
        ),
    ),
    "the epoch of a deleted topic": (
        (f"{LIVENESS}.groups.carried_epochs:CarriedEpochs.excuse", _answered),
    ),
    "a classic member that nobody watches": (
        (f"{LIVENESS}.groups.unwatched:UnwatchedMembers.excuse", _answered),
    ),
    "a candidate that was removed": (
        (
            f"{LIVENESS}.controllers.lost_voters:LostVoters.excuse",
            lambda why, _asked: why == UNSTARTABLE,
        ),
    ),
    "a metadata quorum that has lost its voters": (
        (
            f"{LIVENESS}.controllers.lost_voters:LostVoters.excuse",
            lambda why, _asked: why == LOST_VOTERS,
        ),
    ),
    "a leader of the quorum that is no voter": (
        (f"{LIVENESS}.controllers.unlisted_leader:UnlistedLeader.excuse", _answered),
    ),
    "a broker that a lost quorum leaves in ISRs": (
        (f"{LIVENESS}.controllers.left_in_isr:LeftInIsr.excuse", _answered),
    ),
    "a transaction that an excused stall leaves open": (
        ("transactions.known.left_open:LeftOpen.excuse", _answered),
    ),
    "a broker that gave up its registration": (
        (f"{LIVENESS}.controllers.registrations:Registrations.excuse", _answered),
    ),
    "a coordinator that too few replicas are left to": (
        (f"{LIVENESS}.controllers.below_minimum:BelowMinimum.excuse", _answered),
    ),
    "a high watermark that too few replicas are left to move": (
        (f"{LIVENESS}.controllers.below_minimum:HeldWatermarks.excuse", _answered),
    ),
    "a marker that too few replicas are left to take": (
        (f"{LIVENESS}.coordinators.unwritten_markers:UnwrittenMarkers.excuse", _answered),
    ),
    "a transaction that no epoch is left to end": (
        (f"{LIVENESS}.exhausted_epochs:ExhaustedEpochs.excuse", _answered),
    ),
    "a transaction that only an uncommitted record told": (
        (f"{LIVENESS}.coordinators.uncommitted_loads:UncommittedLoads.excuse", _answered),
    ),
    "a transaction that nobody ends": (
        (f"{LIVENESS}.standstill:Standstill.excuse", _answered),
    ),
}  # fmt: skip
"""Of each excuse: the questions of judges that it answers, and how its answer looks"""

OF_STALLS = tuple(
    name for name, ears in EARS.items() if any(place.startswith(LIVENESS) for place, _ in ears)
)
"""Excuses of what a stalled run misses; a run that misses nothing needs none."""

LOST = (LAST_REPLICA, FORGOTTEN)
TOLD: tuple[tuple[str, tuple[str, ...], tuple[str, ...]], ...] = (
    ("lost share states", LOST, ("accepted-again", "share-skipped")),
    ("a share partition initialized again", LOST, ("accepted-again", "share-skipped")),
    ("an end that was answered before it was written", (UNWRITTEN,), ()),
    ("an initialization that came late", (LATE_INITIALIZATION,), ()),
    (
        "what a transaction rested on",
        LOST,
        (
            "aborted-read", "precommitted-read", "torn-transaction", "hanging-transaction",
            "zombie-producer", "lost-output", "duplicate-output",
        ),
    ),
    (
        "what a result or a window rested on",
        LOST,
        ("lost-result", "duplicate-result", "audit-missing", "audit-surplus"),
    ),
    ("an end that came late", (LATE_END,), ()),
    ("a batch that came late", (LATE_BATCH,), ()),
    ("a batch that nobody verified", (UNVERIFIED,), ()),
    ("an id that nobody lists", (UNLISTED,), ()),
    ("a marker that was skipped", (SKIPPED_MARKER,), ()),
    ("a deposed coordinator", (DEPOSED,), ()),
    ("offsets that have expired", (EXPIRED,), ()),
    ("deleted inputs that are there again", (DELETED_INPUTS,), ()),
    ("offsets that a failed transaction left over", (CARRIED,), ()),
    ("rewritten sequences", (REWRITTEN,), ()),
    ("a missed abort marker", (MISSED_MARKER,), ()),
)  # fmt: skip
"""Excuses that a result tells: by their reasons, and the anomalies, () for all"""

OF_RESULTS = tuple(name for name, _, _ in TOLD)


@dataclass
class Heard:
    """What was heard of one run."""

    excuses: dict[str, None] = field(default_factory=dict)

    def in_force(self, result: Result) -> list[str]:
        """Return the excuses that were in force in the run with this result."""
        found = dict(self.excuses)
        for name, reasons, of in TOLD:
            told = [each.expected for each in result.delivery if not of or each.name in of]
            if any(reason in told for reason in reasons):
                found[name] = None
        return [name for name in found if result.missing or name not in OF_STALLS]


@contextmanager
def listening() -> Iterator[Heard]:
    """Hear which excuses speak in the runs within the block."""
    heard = Heard()
    places: dict[str, list[tuple[str, Sign]]] = {}
    for name, ears in EARS.items():
        for place, sign in ears:
            places.setdefault(place, []).append((name, sign))
    patches = [_patch(place, signs, heard) for place, signs in places.items()]
    for each in patches:
        each.start()
    try:
        yield heard
    finally:
        for each in patches:
            each.stop()


def _patch(place: str, signs: list[tuple[str, Sign]], heard: Heard) -> Any:
    module, _, path = place.partition(":")
    owner: Any = importlib.import_module(f"kafkasim.scenarios.judging.{module}")
    *classes, method = path.split(".")
    for name in classes:
        owner = getattr(owner, name)
    asks = getattr(owner, method)

    def listens(*asked: Any, **named: Any) -> Any:
        answer = asks(*asked, **named)
        for name, sign in signs:
            if sign(answer, asked):
                heard.excuses[name] = None
        return answer

    return patch.object(owner, method, listens)
