"""What waits for a partition that nobody leads: never created for brokers, or without its ELR."""

from __future__ import annotations

import pytest

from kafkasim.analysis.judging.progress import Progress
from kafkasim.analysis.judging.transactions.liveness.controllers.leaderless import (
    CLEARED_ELR,
    LOST_ANSWER,
    UNCLEAN,
    UNKNOWN_LEADER,
    Leaderless,
)
from kafkasim.model import facts
from kafkasim.model.coordinator.hashing import partition_for
from tests.scenarios.fact_makers import FakeTrace, Row

LAG = "group billing is at 0 of 4 in orders-0 (last read by nobody)"
SENDS = "producer-1 has records that are neither acknowledged nor failed"
IDS = {"producer-1": "shop", "processor-1": "billing-1", "processor-2": "billing-2"}
PARTITIONS = 5
FOUND: Row = ("broker-2", facts.ZooKeeperConnection(5, "CONNECTED", "zookeeper-2"))


def _created(topic: str) -> Row:
    return ("broker-2", facts.TopicCreated(1, "C", topic, PARTITIONS, 3, 1))


def _failed(name: str, error: str = "NODEEXISTS") -> Row:
    return ("broker-2", facts.StateChangeFailed("C", partition_for(name, PARTITIONS), error))


def _elected(name: str) -> Row:
    number = partition_for(name, PARTITIONS)
    state = facts.PartitionChanged(9, "C", number, 1, 0, 0, (1,), (1,), "loaded", False)
    return ("broker-3", state)


def _excuse(rows: list[Row], line: str, *members: str, unclean: bool = False) -> str:
    trace = FakeTrace()
    judge = Leaderless(trace, IDS, {"billing": members}, unclean)
    trace.record(rows)
    return Progress(trace).stall_excuse([line], lambda _: "", judge.excuse)


@pytest.mark.parametrize(
    ("topic", "name", "line"),
    [("__consumer_offsets", "billing", LAG), ("__transaction_state", "shop", SENDS)],
)
def test_a_client_waits_for_a_partition_whose_creation_was_not_answered(
    topic: str, name: str, line: str
) -> None:
    created, failed = _created(topic), _failed(name)
    for rows, excuse in (
        ([created, FOUND, failed], LOST_ANSWER),
        ([FOUND, created, failed], ""),  # it never lost a connection since
        ([created, FOUND, failed, _elected(name)], ""),  # the next controller knows it
        ([created, FOUND, _failed(name, "NONODE")], ""),
        ([created, FOUND, _failed("another")], ""),
        ([_created("orders"), FOUND, failed], ""),
    ):
        assert _excuse(rows, line) == excuse


def test_a_producer_without_transactions_waits_for_no_coordinator() -> None:
    rows = [_created("__transaction_state"), FOUND, _failed("shop")]
    assert _excuse(rows, SENDS.replace("producer-1", "producer-2")) == ""


def test_processors_subscribe_once_they_have_their_producer_ids() -> None:
    rows = [_created("__transaction_state"), FOUND, _failed("billing-1")]
    assert _excuse(rows, LAG, "processor-1") == LOST_ANSWER
    assert _excuse(rows, LAG, "processor-1", "processor-2") == ""  # one of them can read
    assert _excuse([*rows, _failed("billing-2")], LAG, "processor-1", "processor-2") == LOST_ANSWER
    assert _excuse(rows, LAG, "consumer-1") == ""
    assert _excuse(rows, LAG) == ""


NOBODY = "orders-0 has no leader"
SECOND: Row = ("", 1)  # a second passes


def _state(epoch: int, leader: int, *elr: int, reason: str = "fenced", number: int = 0) -> Row:
    isr = (leader,) if leader != -1 else ()
    state = facts.PartitionChanged(
        epoch, "C", number, leader, epoch, epoch, isr, (1, 2, 3), reason, False, elr, elr
    )
    return ("controller-1", state)


def _minimum(resource: str = "topic:orders", config: str = "min.insync.replicas") -> Row:
    return ("controller-1", facts.ConfigChanged(8, resource, config, "2"))


def _unclean(offset: int, value: str | None, resource: str = "topic:orders") -> Row:
    return ("controller-1", facts.ConfigChanged(offset, resource, UNCLEAN, value))


LEADERLESS, CLEARED = _state(4, -1, 1), _state(5, -1, reason="min-isr")
LOST = [_created("orders"), LEADERLESS, _minimum(), CLEARED]


def test_nobody_leads_a_partition_whose_elr_was_cleared_while_it_had_no_leader() -> None:
    assert _excuse(LOST, NOBODY) == CLEARED_ELR
    assert _excuse([*LOST[:2], _minimum("broker:"), CLEARED], NOBODY) == CLEARED_ELR
    moved = _state(6, -1, reason="reassignment")
    assert _excuse([*LOST, moved, LEADERLESS], NOBODY) == CLEARED_ELR  # the last is told again


@pytest.mark.parametrize(
    "rows",
    [
        LOST[:2],
        [*LOST[:2], CLEARED],
        [*LOST[:2], _minimum(), SECOND, CLEARED],
        [*LOST[:2], _minimum("topic:outputs"), CLEARED],
        [*LOST[:2], _minimum("broker:2"), CLEARED],
        [*LOST[:2], _minimum(config="retention.ms"), CLEARED],
        [*LOST[:2], _minimum(), _state(5, -1, 1, reason="min-isr")],
        [*LOST[:2], _minimum(), _state(5, -1, reason="registered")],
        [*LOST[:2], _minimum(), _state(5, 2, reason="min-isr")],
        [*LOST[:2], _minimum(), _state(5, -1, reason="min-isr", number=1)],
        [*LOST, _state(6, 1, reason="unclean"), _state(7, -1)],
        [*LOST, ("controller-1", facts.TopicDeleted(9, "C", "orders"))],
    ],
    ids=["elr", "no-minimum", "another-batch", "another-topic", "a-broker", "another-setting",
         "not-cleared", "restarted", "led", "another-partition", "led-again", "deleted"],
)  # fmt: skip
def test_a_partition_that_may_find_a_leader_has_no_excuse(rows: list[Row]) -> None:
    assert _excuse(rows, NOBODY) == ""


def _turned_on(error: str = "NONE", level: int = 1) -> Row:
    reason = f"eligible.leader.replicas.version = {level}"
    return "admin-1", facts.Operated("update-features", "features", error, reason)


def _stayed(*known: int, epoch: int = 4) -> Row:
    """The leader has left by controlled shutdown, and is in the ISR."""
    reason = "controlled-shutdown"
    return "controller-1", facts.PartitionChanged(
        epoch, "C", 0, -1, epoch, epoch, (1,), (1, 2, 3), reason, False, (), known
    )


STAYED, GONE = _stayed(), _state(5, -1, reason="registered")
UNNOTED = [_created("orders"), STAYED, _turned_on(), GONE]


def test_nobody_is_known_to_have_led_before_elr_was_turned_on() -> None:
    assert _excuse(UNNOTED, NOBODY) == UNKNOWN_LEADER
    assert _excuse([*UNNOTED, _state(6, -1, reason="reassignment")], NOBODY) == UNKNOWN_LEADER


@pytest.mark.parametrize(
    "rows",
    [
        [_created("orders"), STAYED, GONE],
        [_created("orders"), _turned_on(), STAYED, GONE],
        [_created("orders"), STAYED, _turned_on("TIMED_OUT"), GONE],
        [_created("orders"), STAYED, _turned_on(level=0), GONE],
        [_created("orders"), STAYED, _state(5, 1, 1), _turned_on(), _state(6, -1)],
        [*UNNOTED[:3], _stayed(1, epoch=5), _state(6, -1)],
        [*UNNOTED, _state(6, 1, 1, reason="unclean")],
        [*UNNOTED, _unclean(9, "true")],
        [_unclean(2, "true"), *UNNOTED],
    ],
    ids=["no-elr", "on-before", "not-answered", "off", "led-since", "noted", "led", "unclean-later",
         "unclean"],
)  # fmt: skip
def test_a_leader_that_elr_had_to_note_has_no_excuse(rows: list[Row]) -> None:
    assert _excuse(rows, NOBODY) == ""


ON, OFF = _unclean(2, "true"), _unclean(3, "false")
ALL_ON, ALL_OFF = _unclean(2, "true", "broker:"), _unclean(3, "false", "broker:")


@pytest.mark.parametrize(
    ("rows", "files", "excuse"),
    [
        ([ON, *LOST], False, ""),
        ([ON, OFF, *LOST], False, CLEARED_ELR),  # no longer, when its ELR is cleared
        ([OFF, ON, *LOST], False, CLEARED_ELR),  # a new controller tells the first setting again
        ([*LOST, _unclean(9, "true"), _unclean(10, "false")], False, ""),  # it had to be led then
        ([*LOST, _unclean(9, "true", "topic:outputs")], False, CLEARED_ELR),
        (LOST, True, ""),
        ([OFF, *LOST], True, CLEARED_ELR),
        ([OFF, _unclean(4, None), *LOST], True, ""),
        ([ALL_OFF, *LOST], True, CLEARED_ELR),
        ([ALL_ON, *LOST], False, ""),
        ([ALL_ON, ALL_OFF, *LOST], False, CLEARED_ELR),
        ([ALL_ON, OFF, *LOST], False, CLEARED_ELR),
        ([ALL_OFF, ON, *LOST], False, ""),
        ([_unclean(2, "true", "broker:3"), *LOST], False, ""),
        ([*LOST, _unclean(9, "true", "broker:")], False, ""),
    ],
)
def test_a_partition_whose_settings_allow_an_unclean_election_gets_a_leader(
    rows: list[Row], files: bool, excuse: str
) -> None:
    assert _excuse(rows, NOBODY, unclean=files) == excuse


def test_what_waits_for_a_partition_without_a_leader_has_its_excuse() -> None:
    opened = "orders-{} has an open transaction of producer id 7 from offset 3 on"
    assert _excuse(LOST, LAG) == _excuse(LOST, opened.format(0)) == CLEARED_ELR
    elsewhere = LAG.replace("orders-0", "orders-1")
    assert _excuse(LOST, elsewhere) == _excuse(LOST, opened.format(1)) == ""
    for line in ("broker-1 is down", "orders-0: ISR [1] of [1, 2, 3]", SENDS):
        assert _excuse(LOST, line) == ""


def test_a_client_waits_for_a_marker_that_nobody_can_write() -> None:
    busy = "processor-1 handles what it was given"
    reads = "group billing is at 0 of 4 in orders-3 (last read by processor-1)"
    for state, where, excuse in (
        ("PrepareCommit", "orders-0", CLEARED_ELR),
        ("PrepareAbort", "orders-0", CLEARED_ELR),
        ("PrepareAbort", "orders-1", ""),
        ("Ongoing", "orders-0", ""),  # the producer may still abort it
        ("CompleteAbort", "orders-0", ""),
    ):
        rows = [*LOST, _transaction("billing-1", state, where)]
        assert _excuse(rows, busy) == _excuse(rows, reads) == excuse
        assert _excuse(rows, SENDS) == _excuse(rows, reads.replace("r-1", "r-2")) == ""
        assert _excuse([*LOST, _transaction("shop", state, where)], SENDS) == excuse


def test_a_decision_may_be_known_to_the_next_coordinator_only() -> None:
    states = ("broker-2", facts.TopicCreated(1, "D", "__transaction_state", PARTITIONS, 3, 1))
    opened = [states, *LOST, _transaction("shop", "Ongoing", "orders-0")]
    asks: Row = ("producer-1", facts.TransactionEnding("shop", 0, False))
    home = partition_for("shop", PARTITIONS)
    loads, unloads, another = (
        ("broker-2", facts.TransactionsLoaded(number, 3, loaded))
        for number, loaded in ((home, True), (home, False), (home + 1, True))
    )
    assert _excuse([*opened, asks, loads], SENDS) == CLEARED_ELR
    for rows in ([asks], [loads], [loads, asks], [asks, unloads], [asks, another]):
        assert _excuse([*opened, *rows], SENDS) == ""
    completed = _transaction("shop", "CompleteAbort", "orders-0")
    assert _excuse([*opened, asks, loads, completed], SENDS) == ""


def _transaction(transactional_id: str, state: str, where: str) -> Row:
    fact = facts.TransactionState(
        transactional_id, 7, 0, "Ongoing", state, (where,), 1000, 0, "end"
    )
    return ("broker-1", fact)


def test_a_coordinator_s_partition_without_a_leader_answers_nobody() -> None:
    offsets = partition_for("billing", PARTITIONS)
    rows = [_created("__consumer_offsets"), _state(4, -1, 1, number=offsets), _minimum("broker:"),
            _state(5, -1, reason="min-isr", number=offsets)]  # fmt: skip
    assert _excuse(rows, LAG) == CLEARED_ELR
    assert _excuse(rows[:2], LAG) == ""


SHARES = "share group billing is at 0 of 4 in orders-0"
ORDERS: Row = ("controller-1", facts.TopicCreated(1, "O", "orders", 1, 3, 1))


def _cleared(number: int) -> list[Row]:
    """Partition ``number`` of the topic "C" loses its leader, then its ELR."""
    cleared = _state(5, -1, reason="min-isr", number=number)
    return [_state(4, -1, 1, number=number), _minimum("broker:"), cleared]


@pytest.mark.parametrize(
    ("topic", "name"), [("__consumer_offsets", "billing"), ("__share_group_state", "billing:O:0")]
)
def test_a_share_group_waits_for_its_coordinators_and_for_no_others(topic: str, name: str) -> None:
    home = partition_for(name, PARTITIONS)
    rows = [ORDERS, _created(topic), *_cleared(home)]
    assert _excuse(rows, SHARES) == CLEARED_ELR
    assert _excuse([*rows, _state(6, 1, reason="unclean", number=home)], SHARES) == ""
    assert _excuse([ORDERS, _created(topic), *_cleared((home + 1) % PARTITIONS)], SHARES) == ""
    assert _excuse([ORDERS, _created("outputs"), *_cleared(home)], SHARES) == ""


def test_a_share_group_s_state_is_found_by_the_topic_that_exists() -> None:
    old: Row = ("controller-1", facts.TopicCreated(1, "P", "orders", 1, 3, 1))
    deleted: Row = ("controller-1", facts.TopicDeleted(2, "P", "orders"))
    homes = [partition_for(f"billing:{topic_id}:0", PARTITIONS) for topic_id in "OP"]
    assert homes[0] != homes[1]
    for home, excuse in zip(homes, (CLEARED_ELR, ""), strict=True):
        rows = [old, deleted, ORDERS, _created("__share_group_state"), *_cleared(home)]
        assert _excuse(rows, SHARES) == excuse


def test_a_share_group_waits_for_the_leader_of_what_it_reads() -> None:
    assert _excuse(LOST, SHARES) == CLEARED_ELR
    assert _excuse(LOST, SHARES.replace("orders-0", "orders-1")) == ""
    assert _excuse(LOST[:2], SHARES) == ""
    assert _excuse([*LOST, _state(6, 1, reason="unclean")], SHARES) == ""
