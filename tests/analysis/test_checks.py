"""Every check on hand-written rows that violate it and on rows that do not.

All cases are runs of one trace, judged by one Spark job: a check must not mix runs up either.
"""

from __future__ import annotations

import re
from dataclasses import astuple, replace
from typing import TYPE_CHECKING, Any

import pytest
from tests.scenarios.carried_cases import CARRIED
from tests.scenarios.unverified_cases import UNVERIFIED_BATCHES

from kafkasim.model import facts
from kafkasim.model.config import BrokerConfig
from tests.analysis.analysis_rows import (
    At,
    Case,
    T,
    acked,
    assigned,
    changed,
    committed,
    elected,
    end,
    fetched,
    final,
    led,
    mark,
    passing,
    polled,
    positioned,
    processed,
    registered,
    tombstone,
    topic,
    write_fleet,
    zk_write,
)
from tests.analysis.application_cases import FAILURES
from tests.analysis.cleaning_cases import (
    CLEANED_LOGS,
    CLEANED_READS,
    DELETION_CASES,
    HORIZON_CASES,
    LATEST_CASES,
)
from tests.analysis.copies_cases import HANDOVER_CASES, IDEMPOTENCE_CASES
from tests.analysis.gap_cases import GAP_CASES
from tests.analysis.harm_cases import HARM_CASES
from tests.analysis.key_cases import KEY_CASES
from tests.analysis.owner_cases import OWNERS
from tests.analysis.reader_cases import (
    AUDIT_CASES,
    AUDIT_EXCUSES,
    COMMIT_CASES,
    RESET_CASES,
    RESULT_CASES,
    RESULT_EXCUSES,
    RETENTION_CASES,
)
from tests.analysis.share_cases import (
    SHARE_CASES,
    SHARE_EXCUSES,
    SHARE_LATE,
    SHARE_LOSSES,
    SHARE_UNWRITTEN,
)
from tests.analysis.story_cases import SPEC, STORY_CASES
from tests.scenarios.transaction_cases import (
    BACK,
    EXCUSES,
    EXPIRED_OFFSETS,
    LATE_BATCHES,
    LATE_ENDS,
    LEFT_OPEN,
    MISSED_MARKERS,
    ORDER_SENT,
    OVERTAKEN,
    RESTING,
    SKIPPED_MARKERS,
    STORIES,
    TAKEN,
    UNLISTED_IDS,
    excused,
)

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

    from kafkasim.analysis.stored import Stored

pytestmark = pytest.mark.spark

DELETED_OFFSET = tombstone()
STRANGER = [  # broker-4 is in the ISR, and the replicas are 1, 2 and 3
    ("broker-3", facts.ZkControllerWrite(2, 1, "/controller_epoch", 1)), topic(),
    *[registered(each) for each in (1, 2, 3, 4)], changed((1, 4), 4), led(1, 1, 0, (1, 4)),
]  # fmt: skip
STATIC_JOIN = (
    "broker-1",
    facts.MemberRequest("g", "", "a", "JoinGroup", -1, ("orders",), ("range",), 6000, 10_000),
)


def loaded(member: str) -> tuple[str, Any]:
    """A coordinator loads a group of one member."""
    return "broker-1", facts.GroupState("g", "Stable", 1, (member,), "range", "loaded", member)


MEMBERLESS = ("broker-1", facts.GroupState("g", "Empty", 1, (), "", "no members"))
LEAVES = ("broker-1", facts.MemberRequest("g", "m1", None, "LeaveGroup", -1, (), (), 0, 0))
DELETED_GROUP = ("broker-1", facts.GroupState("g", "Dead", 1, (), "", "deleted"))

BROKERS = [registered(1), registered(2), registered(3)]
HEALTHY = [
    topic(), *BROKERS, changed((1, 2, 3), 0, reason="created"), led(1, 1, 0),
    positioned(0), acked(0, 100, 101), mark(2), polled([0, 1], [100, 101]), processed(0, 2),
    committed(2), fetched(2), changed((1, 2), 1), changed((1, 2, 3), 2, reason="caught-up"),
    end(), final(1, 100, 101, leading=True), final(2, 100, 101), final(3, 100, 101),
]  # fmt: skip

CASES: dict[str, tuple[Case, dict[str, int]]] = {
    "healthy": (HEALTHY, {}),
    "lost: absent from the leader's log": (
        [acked(0, 100, 101), final(1, 100, leading=True)], {"lost-write": 1}),
    "not lost: below the log start": (
        [acked(0, 100), final(1, leading=True, start=5)], {}),
    "not lost: nobody leads": ([acked(0, 100), final(1)], {}),
    "unseen": (
        [positioned(0), acked(0, 100, 101), polled([0], [100]), final(1, 100, 101, leading=True)],
        {"unseen": 1}),
    "not unseen, not skipped by commit: deleted before anybody read": (
        [topic(), positioned(0), acked(0, 100, 101), committed(2),
         final(1, 100, 101, leading=True, deleted=2)], {}),
    "not unseen: before the group's start": (
        [positioned(1), acked(0, 100, 101), polled([1], [101]),
         final(1, 100, 101, leading=True)], {}),
    "duplicate: stored twice": (
        [final(1, 100, 100, leading=True)], {"duplicate": 1, "idempotent-duplicate": 1}),
    "duplicate: delivered twice": (
        [positioned(0), polled([0], [100]), positioned(0, "seek"), polled([0], [100])],
        {"duplicate": 1}),
    "inconsistent": (
        [positioned(0), polled([0], [100]), positioned(0, member="m2"),
         polled([0], [101], member="m2")],
        {"inconsistent-offsets": 1, "duplicate": 1}),
    "skip": ([positioned(0), polled([0, 2], [100, 102])], {"poll-skip": 1}),
    "not skipped: sought": (
        [positioned(0), polled([0], [100]), positioned(2, "seek"), polled([2], [102])], {}),
    "back": (
        [positioned(5), polled([5], [105]), polled([4], [104])], {"nonmonotonic-poll": 1}),
    "send order": ([acked(0, 101), acked(1, 100)], {"nonmonotonic-send": 1}),
    "not judged: no idempotence": ([acked(0, 101, producer=-1), acked(1, 100, producer=-1)], {}),
    "commit back": ([topic(), committed(5), committed(3)], {"offset-regression": 1}),
    "fetch back": ([topic(), committed(5), fetched(3)], {"offset-regression": 1}),
    "fetch nothing": ([topic(), committed(5), fetched(-1)], {"offset-regression": 1}),
    "fetch nothing: the topic was deleted": (
        [topic(), committed(5), ("controller-1", facts.TopicDeleted(9, T, "orders")), fetched(-1)],
        {}),
    "fetch nothing: an operator deleted it": (
        [topic(), committed(5), DELETED_OFFSET, fetched(-1), committed(2)], {}),
    "fetch nothing: an operator deleted it while the commit waited for replicas": (
        [topic(), tombstone(7), committed(5, end=6), fetched(-1), committed(2)], {}),
    "fetch nothing: the commit stands behind the tombstone": (
        [topic(), tombstone(7), committed(5, end=8), fetched(-1)], {"offset-regression": 1}),
    "fetch nothing: the next coordinator stored the commit": (
        [topic(), tombstone(7), committed(5, epoch=2, end=6), fetched(-1, epoch=2)],
        {"offset-regression": 1}),
    "fetch nothing: no member for the retention": (
        [topic(), committed(5), MEMBERLESS, ("broker-1", At(62.0, fetched(-1)[1]))], {}),
    "fetch nothing: it may have expired before a member came": (
        [topic(), committed(5), MEMBERLESS, ("broker-1", At(62.0, loaded("m1")[1])),
         ("broker-1", At(63.0, fetched(-1)[1]))], {}),
    "fetch nothing: committed since a member came": (
        [topic(), MEMBERLESS, ("broker-1", At(62.0, loaded("m1")[1])),
         ("broker-1", At(63.0, committed(5)[1])),
         ("broker-1", At(64.0, fetched(-1)[1]))], {"offset-regression": 1}),
    "fetch nothing: no member for less than the retention": (
        [topic(), committed(5), MEMBERLESS, ("broker-1", At(61.9, fetched(-1)[1]))],
        {"offset-regression": 1}),
    "fetch nothing: a member was there for a second of the minute": (
        [topic(), committed(5), MEMBERLESS, ("broker-1", At(30.0, loaded("m1")[1])),
         ("broker-1", At(30.5, LEAVES[1])), ("broker-1", At(31.0, MEMBERLESS[1])),
         ("broker-1", At(63.0, fetched(-1)[1]))], {"offset-regression": 1}),
    "fetch less: no member for the retention": (
        [topic(), committed(5), MEMBERLESS, ("broker-1", At(62.0, fetched(3)[1]))],
        {"offset-regression": 1}),
    "commit back after a deletion": (
        [topic(), DELETED_OFFSET, committed(5), committed(3)], {"offset-regression": 1}),
    "not back: a deposed coordinator": ([topic(), committed(5, epoch=2), fetched(3)], {}),
    "skipped by commit": (
        [topic(), positioned(0), processed(0, 2), processed(4, 6), committed(6),
         final(1, 1, 2, 3, 4, 5, 6, leading=True)], {"skipped-by-commit": 1}),
    "skipped by commit, nothing done": (
        [topic(), positioned(0), committed(2), final(1, 1, 2, leading=True)],
        {"skipped-by-commit": 1}),
    "skipped at the start": (
        [topic(), positioned(0), processed(2, 4), committed(4),
         final(1, 1, 2, 3, 4, leading=True)], {"skipped-by-commit": 1}),
    "two owners": ([assigned("m1", "orders-0"), assigned("m2", "orders-0")], {"double-owner": 1}),
    "one owner: the group was deleted between": (
        [assigned("m1", "orders-0"), DELETED_GROUP, assigned("m2", "orders-0")], {}),
    "one owner: the topic was created again between": (
        [topic(), assigned("m1", "orders-0"),
         ("controller-1", facts.TopicCreated(9, "next-id", "orders", 1, 1, 1)),
         assigned("m2", "orders-0")], {}),
    "two owners: the topic was told again between": (
        [topic(), assigned("m1", "orders-0"), topic(), assigned("m2", "orders-0")],
        {"double-owner": 1}),
    "two owners after a deletion": (
        [assigned("m1", "orders-0"), DELETED_GROUP, assigned("m2", "orders-0"),
         assigned("m3", "orders-0")], {"double-owner": 1}),
    "one owner: a static member's new id was loaded": (
        [STATIC_JOIN, loaded("a-1"), assigned("a-1", "orders-0"), loaded("a-2"),
         assigned("a-2", "orders-0")], {}),
    "two owners: the old id of a static member was loaded": (
        [STATIC_JOIN, loaded("a-1"), assigned("a-1", "orders-0"), assigned("a-1"), loaded("a-2"),
         assigned("a-2", "orders-0"), loaded("a-1"), assigned("a-1", "orders-0")],
        {"double-owner": 1}),
    "two owners: a group was loaded without a member": (
        [STATIC_JOIN, loaded("a-1"), assigned("a-1", "orders-0"), loaded("b-1"),
         assigned("b-1", "orders-0")],
        {"double-owner": 1}),
    "one owner a generation": (
        [assigned("m1", "orders-0"), assigned("m2", "orders-0", generation=2)], {}),
    "two leaders": ([led(1, 4, 0), led(2, 4, 0)], {"ONELEADER": 1}),
    "a leader begins anew": ([led(1, 4, 0), led(1, 4, 3)], {"ONELEADER": 1}),
    "a leader is started again": (
        [led(1, 4, 0), ("broker-1", facts.HostStarted(1)), led(1, 4, 3)], {}
    ),
    "a leader loads its log again": (
        [led(1, 4, 0), ("broker-1", facts.LogLoaded(T, 0, 0, 3, 3, False)), led(1, 4, 3)], {}
    ),
    "a leader begins anew after it has loaded another log": (
        [led(1, 4, 0), ("broker-1", facts.LogLoaded(T, 1, 0, 3, 3, False)), led(1, 4, 3)],
        {"ONELEADER": 1},
    ),
    "short leader": ([led(1, 1, 0), mark(10), led(2, 2, 8)], {"ACKED": 1}),
    "short leader, unclean": (
        [*BROKERS, led(1, 1, 0), mark(10),
         changed((2,), 3, leader=2, reason="unclean", unclean=True, leader_epoch=2),
         led(2, 2, 8)], {}),
    "short leader, after a deposed one went on": (
        [*BROKERS, led(1, 1, 0), mark(2), changed((2,), 3, leader=2, reason="unclean", unclean=True,
                                                  leader_epoch=2),
         led(2, 2, 1), mark(10), led(3, 3, 5)], {}),
    "short leader, after one that was about to be deposed": (
        [*BROKERS, led(1, 1, 0), mark(2), changed((2,), 3, leader=2, reason="unclean", unclean=True,
                                                  leader_epoch=2),
         led(2, 2, 1), mark(10, epoch=2, broker=2), led(3, 3, 5)], {"ACKED": 1}),
    "short leader after an unclean one": (
        [*BROKERS, led(1, 1, 0), mark(10),
         changed((2,), 3, leader=2, reason="unclean", unclean=True, leader_epoch=2),
         led(2, 2, 4), mark(6, epoch=2, broker=2), led(3, 3, 5)], {"ACKED": 1}),
    "a deposed leader exposes after an unclean election": (
        [*BROKERS, led(1, 1, 0), mark(5),
         changed((2,), 3, leader=2, reason="unclean", unclean=True, leader_epoch=2),
         led(2, 2, 4), mark(9, epoch=1), led(3, 3, 5)], {}),
    "a deposed leader exposes, and nobody was elected uncleanly": (
        [*BROKERS, led(1, 1, 0), led(1, 3, 0), mark(9, epoch=1), led(2, 4, 5)], {"ACKED": 1}),
    "too few": ([topic(), mark(1, by=(1,))], {"MINISR": 1}),
    "too few: a member of the ISR is no replica": (
        [*STRANGER, mark(1, by=(1,))], {}),
    "too few: a member of the ISR is no replica, in KRaft": (
        [*STRANGER[1:], mark(1, by=(1,))], {"MINISR": 1}),
    "too few: the leader has removed the member that is no replica": (
        [*STRANGER, ("broker-1", facts.IsrChanged(T, 0, 1, 5, "shrink", (4,), (1,))),
         mark(1, by=(1,))], {"MINISR": 1}),
    "two of two": ([topic(min_isr=3, replication_factor=2), mark(1, by=(1, 2))], {}),
    "watermark back": ([mark(5), mark(4)], {"HWMONO": 1}),
    "fenced member": (
        [*BROKERS, registered(3, fenced=True), changed((1, 2, 3), 1)], {"ISRELIG": 1}),
    "stopping member": (
        [*BROKERS, registered(3, shutting_down=True), changed((1, 2, 3), 1)], {"ISRELIG": 1}),
    "a dead member stays a while with ZooKeeper": (
        [*BROKERS, zk_write(1), changed((1, 2, 3), 1), registered(3, fenced=True),
         registered(2, fenced=True), zk_write(2), changed((1, 3), 2)], {}),
    "a dead member joins with ZooKeeper": (
        [*BROKERS, zk_write(1), changed((1, 2), 1), registered(3, fenced=True), zk_write(2),
         changed((1, 2, 3), 2)], {"ISRELIG": 1}),
    "a leader writes its ISR into ZooKeeper": (
        [*BROKERS, zk_write(1), changed((1, 2), 1), registered(3, fenced=True),
         changed((1, 2, 3), 2)], {}),
    "a deposed ZooKeeper controller tells late": (
        [*BROKERS, elected(1, "broker-4"), zk_write(2), changed((1, 2), 1), elected(2, "broker-5"),
         registered(3, shutting_down=True, by="broker-4"), zk_write(3), changed((1, 2, 3), 3)],
        {}),
    "the ZooKeeper controller tells": (
        [*BROKERS, elected(1, "broker-4"), zk_write(2), changed((1, 2), 1), elected(2, "broker-5"),
         registered(3, shutting_down=True, by="broker-5"), zk_write(3), changed((1, 2, 3), 3)],
        {"ISRELIG": 1}),
    "leader outside": ([*BROKERS, changed((2, 3), 1, leader=1)], {"ISRELIG": 1}),
    "the last member is down": (
        [*BROKERS, registered(1, fenced=True), changed((1,), 1, leader=-1)], {}),
    "no reason": (
        [*BROKERS, changed((1, 2, 3), 0), changed((1, 2), 1, reason="mood")], {"ISRREASON": 1}),
    "logs differ": ([final(1, 1, 2), final(2, 1, 2, producer=8)], {"MATCH": 1}),
    "a batch is missing": (
        [final(1, 1, 2, 3), final(2, 1, 2, high_watermark=3)], {"MATCH": 1}),
    "logs differ above the mark only": (
        [final(1, 1, 2, 3, high_watermark=2), final(2, 1, 2, high_watermark=2)], {}),
    "an application raised": ([("consumer-1", facts.ApplicationFailed(
        "consumer-1-task-1", True, "KafkaError", "INVALID_SESSION_TIMEOUT", ()))],
        {"application-failed": 1}),
    "stuck": ([end("orders-0 has no leader")], {"no-progress": 1}),
    **{name: (passing(rows), expected) for name, (rows, expected) in FAILURES.items()},
    **{name: (rows, {"EXCL": 1} if said else {}) for name, (rows, said) in OWNERS.items()},
    **GAP_CASES,
    **LATEST_CASES,
    **HORIZON_CASES,
    **{name: (passing(rows), expected) for name, (rows, expected) in DELETION_CASES.items()},
    **CLEANED_READS,
    **CLEANED_LOGS,
    **HARM_CASES,
    **STORY_CASES,
    **RETENTION_CASES,
    **{name: (rows, expected) for name, (rows, expected, _) in RESET_CASES.items()},
    **COMMIT_CASES,
    **IDEMPOTENCE_CASES,
    **HANDOVER_CASES,
    **RESULT_CASES,
    **KEY_CASES,
    **AUDIT_CASES,
    **{name: (passing(rows), expected) for name, (rows, expected) in SHARE_CASES.items()},
    **{name: (rows, expected) for name, (rows, _, expected) in SHARE_LOSSES.items()},
    **{
        f"transactions: {name}": (rows, dict.fromkeys(expected, 1))
        for name, (rows, expected) in (STORIES | RESTING | BACK).items()
    },
    **{  # Spark counts what is open of a producer in a partition once
        f"transactions: {name}": (passing(rows), dict.fromkeys(expected, 1))
        for name, (rows, expected) in UNVERIFIED_BATCHES.items()
    },
    **{
        f"transactions: {name}": (passing(rows), expected)
        for known in (
            CARRIED, EXPIRED_OFFSETS, LATE_BATCHES, LATE_ENDS, MISSED_MARKERS, SKIPPED_MARKERS,
            UNLISTED_IDS,
        )
        for name, (rows, expected) in known.items()
    },
}  # fmt: skip


LOSSES: dict[str, list[tuple[Any, ...]]] = {
    name: [(*key, *astuple(loss)) for key, loss in lost]
    for name, lost in (
        *((name, lost) for name, (_, _, lost) in RESET_CASES.items()),
        *((name, lost) for name, (_, lost, _) in SHARE_LOSSES.items()),
    )
}
"""What the runs of some cases have legally lost."""

for story, (good, bad) in EXCUSES.items():
    for number, ((topic_id, partition), loss) in enumerate([*good, *bad]):
        case = f"excused, {story}: {number}"
        shown = dict.fromkeys((STORIES | RESTING)[story][1], 1)
        if number < len(good):
            shown = {name: 1 for name in shown if name == "duplicate"}  # it rests on nothing lost
        CASES[case] = excused(story), shown
        LOSSES[case] = [(topic_id, partition, *astuple(loss))]

CASES |= {
    story: (rows, {"nonmonotonic-send": 1} if breaks else {})
    for story, (rows, breaks) in (ORDER_SENT | OVERTAKEN).items()
}
for story, (rows, good, bad) in TAKEN.items():
    for number, ((topic_id, partition), loss) in enumerate([*good, *bad]):
        case = f"excused, {story}: {number}"
        CASES[case] = rows, {} if number < len(good) else {"lost-write": 1}
        LOSSES[case] = [(topic_id, partition, *astuple(loss))]

CASES |= {
    name: (rows, {} if excused else {"accepted-again": 1})
    for name, (rows, excused) in SHARE_UNWRITTEN.items()
}
CASES |= {
    name: (rows, {} if excused else expected)
    for name, (rows, expected, excused) in SHARE_LATE.items()
}

OF_OTHERS = RESULT_EXCUSES | AUDIT_EXCUSES | SHARE_EXCUSES
for story, (rows, expected, good, bad) in OF_OTHERS.items():
    for number, ((topic_id, partition), loss) in enumerate([*good, *bad]):
        case = f"excused, {story}: {number}"
        rests = {name: 1 for name in expected if name in ("duplicate", "needless-reset")}
        if topic_id == T and "reset" in story:
            rests.pop("duplicate", None)  # lost positions explain a second delivery, too
        CASES[case] = rows, rests if number < len(good) else expected
        LOSSES[case] = [(topic_id, partition, *astuple(loss))]

STALLS: dict[str, tuple[str, str]] = {}
"""What the runs of some cases miss, and why Kafka would."""

OPENED = "{}-{} has an open transaction of producer id 7 from offset {} on"
for story, (rows, first, stall, expected) in LEFT_OPEN.items():
    CASES[story] = passing(rows), expected
    STALLS[story] = "; ".join([OPENED.format(*key, at) for key, at in first.items()]), stall


@pytest.fixture(scope="module")
def stored(spark: SparkSession, tmp_path_factory: pytest.TempPathFactory) -> Stored:
    from kafkasim.analysis.stored import open_stored

    target = tmp_path_factory.mktemp("checks")
    write_fleet(target, {name: case for name, (case, _) in CASES.items()}, LOSSES, SPEC, STALLS)
    return open_stored(spark, str(target))


def kinds_apart() -> list[list[str]]:
    """Return the kinds that checks need, in lists: no check of a kind reads another of its list.

    So all kinds of a list may be left out at once, and each check misses its own kind alone.
    """
    from kafkasim.analysis.checks import CHECKS, NEEDED
    from kafkasim.analysis.load import JUDGED_VIEWS
    from kafkasim.analysis.spark.asking import read_by, words

    found: list[list[str]] = []
    read: dict[str, set[str]] = {}
    for kind in sorted(set(NEEDED.values())):
        texts = [CHECKS[name] for name, needed in NEEDED.items() if needed == kind]
        texts += read_by(texts, JUDGED_VIEWS).values()
        read[kind] = words(texts)
    for kind in sorted(read, key=lambda kind: len(read[kind] & read.keys()), reverse=True):
        for apart in found:
            if not any(kind in read[other] or other in read[kind] for other in apart):
                apart.append(kind)
                break
        else:
            found.append([kind])
    return found


@pytest.mark.soak
@pytest.mark.timeout(1_800)
def test_checks_that_are_left_out_find_nothing_without_their_kind(stored: Stored) -> None:
    from kafkasim.analysis.checks import CHECKS, NEEDED
    from kafkasim.analysis.checks.base import NO_CONTENTS
    from kafkasim.analysis.load import JUDGED_VIEWS, views
    from kafkasim.analysis.spark.asking import read_by
    from kafkasim.analysis.stored import StoredFleet

    assert isinstance(stored, StoredFleet)
    for kinds in kinds_apart():
        parts = {other: files for other, files in stored.parts.items() if other not in kinds}
        left_out = {name: CHECKS[name] for name, needed in NEEDED.items() if needed in kinds}
        with views(replace(stored, parts=parts), texts=list(left_out.values())):
            for name, text in left_out.items():
                assert (name, stored.spark.sql(text).collect()) == (name, [])
            if "contents" in read_by(left_out.values(), JUDGED_VIEWS):
                whole, nothing = stored.spark.table("contents"), stored.spark.sql(NO_CONTENTS)
                assert whole.dtypes == nothing.dtypes


def without(view: str, text: str) -> str:
    """Return a query with nothing in a view, which it reads itself or through other views."""
    from kafkasim.analysis.checks import RARE_VIEWS

    while f" {view}" not in text:
        before = text
        for other, query in RARE_VIEWS.items():
            text = re.sub(rf"\b(FROM|JOIN) {other}\b", lambda m, q=query: f"{m[1]} ({q})", text)
        assert text != before, f"{view} is not read"
    return text.replace(f" {view}", f" (SELECT * FROM {view} WHERE false)")


@pytest.mark.soak
@pytest.mark.timeout(1_800)
def test_checks_that_are_left_out_find_nothing_without_rows_of_what_they_judge(
    stored: Stored,
) -> None:
    from kafkasim.analysis.checks import CHECKS, RARE
    from kafkasim.analysis.load import views

    with views(stored, texts=[CHECKS[name] for name in RARE]):
        for name, view in RARE.items():
            assert stored.spark.table(view).count() > 0
            text = without(view, CHECKS[name])
            assert (name, stored.spark.sql(text).collect()) == (name, [])


def test_limits_that_no_scenario_sets_are_those_of_the_brokers() -> None:
    from kafkasim.analysis.checks.harm.limits import SETTINGS

    known = BrokerConfig().properties()
    assert {name: default for name, default, _ in SETTINGS.values()} == {
        name: known[name] for name, _, _ in SETTINGS.values()
    }


def test_no_check_reads_an_element_that_may_be_missing() -> None:
    """Compiled code may read it before the condition that guards it, and fails (``get`` is NULL).

    An index of a name is a key of a map, or the place of an element that ``posexplode`` has told.
    """
    from kafkasim.analysis.checks import CHECKS
    from kafkasim.analysis.load import JUDGED_VIEWS

    risky = re.compile(r"\w\[(?![a-z]+\]|')|(?<!try_)\belement_at\(")
    texts = CHECKS | JUDGED_VIEWS
    assert [name for name, text in texts.items() if risky.search(text)] == []


def test_every_check_has_a_case_that_violates_it() -> None:
    from kafkasim.analysis.checks import CHECKS

    anomalies: dict[str, Any] = {a: 1 for _, expected in CASES.values() for a in expected}
    # poll-order, transaction-reads, processor-outputs, audit and stored-results name two; the five
    # of checks/harm/serving.py name one together
    assert len(anomalies) == len(CHECKS) + 4 - 4
