"""What exists twice although Kafka promises it once: idempotent producers, graceful rebalances.

Both judges are held to these cases: those in ``analysis/judging``.
"""

from __future__ import annotations

from kafkasim.model import facts
from tests.analysis.analysis_rows import (
    Case,
    T,
    acked,
    appended,
    final,
    marker,
    polled,
    positioned,
    topic,
)
from tests.analysis.gap_cases import of_next


def rewritten(*ids: int, partition: int = 0) -> tuple[str, facts.SequencesRewritten]:
    """The producer has a gap in the partition and numbers the batches in flight there anew."""
    return ("producer-1", facts.SequencesRewritten(T, partition, 7, 1, ids))


def failed(*ids: int, node: str = "producer-1", partition: int = 0) -> tuple[str, facts.SendFailed]:
    """A producer gives a batch up."""
    return (node, facts.SendFailed(T, partition, ids, "TIMED_OUT", True, 9000, 2))


def processor(output: str = "orders") -> tuple[str, facts.ProcessorStarted]:
    """An application writes what it reads to a topic."""
    return ("consumer-1", facts.ProcessorStarted("g", "at-least-once", ("inputs",), output))


TWICE = final(1, 100, 101, 100, leading=True)
BOTH = {"duplicate": 1, "idempotent-duplicate": 1}
STORED = {"duplicate": 1}

IDEMPOTENCE_CASES: dict[str, tuple[Case, dict[str, int]]] = {
    "sent once, stored twice": ([topic(), acked(0, 100, 101), TWICE], BOTH),
    "sent once, stored twice, and the producer was told of an error": (
        [topic(), failed(100), TWICE], BOTH),
    "sent once, stored twice: another partition of the producer had the gap": (
        [topic(), failed(99, partition=1), rewritten(100, partition=1), TWICE], BOTH),
    "sent once, stored twice: another batch was numbered anew": (
        [topic(), failed(99), rewritten(101), TWICE], BOTH),
    "stored twice: the partition has a gap, so the batch was numbered anew": (
        [topic(), failed(99), rewritten(100), TWICE], STORED),
    "stored twice, without idempotence": (
        [topic(), final(1, 100, 100, leading=True, producer=-1)], STORED),
    "stored twice by a processor, which may process twice": (
        [topic(), processor(), TWICE], {"duplicate": 1, "duplicate-output": 1}),
    "stored twice in a topic that the processor does not write": (
        [topic(), processor("results"), TWICE], BOTH),
    "stored twice by a consumer: a dead letter that it sent again": (
        [topic(), positioned(3), ("consumer-1", acked(0, 100)[1]), TWICE], STORED),
    "stored twice by a consumer, the first time with an error": (
        [topic(), positioned(0), failed(100, node="consumer-1"), TWICE], STORED),
    "stored twice in a log that does not lead": ([topic(), final(1, 100, 101, 100)], {}),
    "stored once outside of aborted transactions": (
        [topic(), appended(0, 1), *marker(1, False), appended(2, 3), *marker(3, True),
         final(1, 100, -1, 100, leading=True)], {}),
    "stored twice in transactions that were committed": (
        [topic(), appended(0, 1), *marker(1, True), appended(2, 3), *marker(3, True),
         final(1, 100, -1, 100, leading=True)], BOTH),
}  # fmt: skip


def told(
    offset: int, error: str = "NONE", *, revoking: bool = True
) -> tuple[str, facts.CommitResult]:
    """Auto-commit has its answer, of the commit before a revocation or of another one."""
    said = facts.CommitResult("g", "m1", T, 0, offset, 1, "auto", error, revoking)
    return ("consumer-1", said)


def revoked(*, lost: bool = False, name: str = "orders-0") -> tuple[str, facts.ConsumerRevoked]:
    """The member gives a partition up."""
    return ("consumer-1", facts.ConsumerRevoked("g", "m1", 1, (name,), lost))


BEGUN = [topic(), positioned(0, "committed"), polled([0, 1], [100, 101])]
MORE = polled([2], [102])
REDELIVERED = {"handover-redelivery": 1}

HANDOVER_CASES: dict[str, tuple[Case, dict[str, int]]] = {
    "handover: poll() went on while the commit was under way": (
        [*BEGUN, MORE, told(2), revoked()], REDELIVERED),
    "handover: poll() went on behind the answer": ([*BEGUN, told(2), MORE, revoked()], REDELIVERED),
    "handover: the commit that failed was sent again, with the old position": (
        [*BEGUN, told(2, "NOT_COORDINATOR"), MORE, told(2), revoked()], REDELIVERED),
    "handover: in the second rebalance": (
        [*BEGUN, told(2), revoked(), positioned(2, "committed"), MORE, told(2), revoked()],
        REDELIVERED),
    "handover: of another topic of the name than the commit was told of": (
        [*BEGUN, *of_next(topic(), MORE), told(2), revoked()], REDELIVERED),
    "handover, covered: the commit was told of another topic of the name": (
        [*BEGUN, *of_next(topic(), told(2)), revoked()], {}),
    "handover, covered: the position is another topic's of the name": (
        [*BEGUN, MORE, *of_next(topic(), positioned(0)), told(0), revoked()], {}),
    "handover, covered: all that poll() had returned": ([*BEGUN, told(2), revoked()], {}),
    "handover, covered: nothing was returned": (
        [topic(), positioned(5, "committed"), told(5), revoked()], {}),
    "handover, covered: poll() passed over a marker": (
        [*BEGUN, *marker(2, True), told(2),
         ("consumer-1", facts.Polled("g", "m1", T, 0, 3, 3, (), ())), revoked()], {}),
    "handover, covered: the position went back before the commit": (
        [*BEGUN, MORE, positioned(1, "seek"), told(1), revoked()], {}),
    "handover, not judged: the commit failed": (
        [*BEGUN, MORE, told(2, "UNKNOWN_MEMBER_ID"), revoked()], {}),
    "handover, not judged: its retry failed": (
        [*BEGUN, MORE, told(2), told(2, "REQUEST_TIMED_OUT"), revoked()], {}),
    "handover, not judged: the partition was lost": (
        [*BEGUN, MORE, told(2), revoked(lost=True)], {}),
    "handover, not judged: a commit by the interval": (
        [*BEGUN, told(2, revoking=False), MORE, revoked()], {}),
    "handover, not judged: the commit is of an earlier rebalance": (
        [*BEGUN, told(2), revoked(), positioned(2, "committed"), MORE, revoked()], {}),
    "handover, not judged: another partition is revoked": (
        [*BEGUN, told(2), MORE, revoked(name="orders-1")], {}),
}  # fmt: skip
