"""Connect: historical bugs of its workers (KAFKA.md, 8.9)."""

from __future__ import annotations

from kafkasim.model.connect.workers.rules import WorkerRules
from kafkasim.scenarios.variants.variant import Variant


class KeepsTasks(WorkerRules):
    """A worker that cannot reach the group coordinator goes on with its tasks."""

    def stops_without_coordinator(self) -> bool:
        return False


class SkipsRevocation(WorkerRules):
    """What a rebalance revokes runs on if the work of the one before was not started yet."""

    def stops_revoked(self, resolved: bool) -> bool:
        return resolved


class WaitsForPresentWorkers(WorkerRules):
    """Work that no worker reports waits for the delay, although no worker has left."""

    def missing_of_present_workers_is_lost(self) -> bool:
        return True


class RevokesOnce(WorkerRules):
    """A rebalance that follows one with revocations revokes nothing."""

    def may_revoke_twice(self) -> bool:
        return False


class CommitsTogether(WorkerRules):
    """Source offsets are committed once all records on their way are acknowledged."""

    def commits_each_partition(self) -> bool:
        return False


class KeepsLost(WorkerRules):
    """With scheduled.rebalance.max.delay.ms = 0 lost work is given out in the next rebalance."""

    def reassigns_without_delay(self) -> bool:
        return False


WORKER_BUGS: tuple[Variant, ...] = (
    Variant(
        "C01-zombie-keeps-tasks", "KAFKA-9184", (KeepsTasks,),
        "task-twice", "C01-zombie-keeps-tasks",
        "A worker that is cut off stops its tasks before the group gives them to another one.",
    ),
    Variant(
        "C02-revocation-skipped", "KAFKA-10763", (SkipsRevocation,),
        "task-twice", "C02-revocation-skipped",
        "A worker stops what is revoked, however quickly rebalances follow each other.",
    ),
    Variant(
        "C03-delay-without-loss", "KAFKA-9848", (WaitsForPresentWorkers,),
        "LIVE", "C03-delay-without-loss",
        "Work that a worker was not told of is given out again in the next rebalance.",
    ),
    Variant(
        "C04-revokes-once", "KAFKA-12495", (RevokesOnce,),
        "tasks-uneven", "C04-revokes-once",
        "Workers that join one after the other all get their share.",
    ),
    Variant(
        "C05-commits-together", "KAFKA-12226", (CommitsTogether,),
        "mirror-replay", "C05-commits-together",
        "A partition that is offline in the target stops no other one's source offsets.",
    ),
    Variant(
        "C06-lost-is-kept", "KAFKA-15693", (KeepsLost,),
        "LIVE", "C06-lost-is-kept",
        "With scheduled.rebalance.max.delay.ms = 0 the tasks of a lost worker run on elsewhere.",
    ),
)  # fmt: skip
