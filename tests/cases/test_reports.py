"""What people report about Kafka: each report is a scenario, and a run of it says what they missed.

The scenarios were written after public reports. Whoever brings one looks for a sentence: why the
records were read again, for whom the group waits, what ended the broker. The table has it.
"""

from __future__ import annotations

from pathlib import Path

import pytest

from kafkasim.scenarios import cli

HERE = Path(__file__).parent / "reports"

TOLD: dict[str, tuple[str, ...]] = {
    "14b-record-too-large": (
        "pass  record-too-large",
        "note: not one record was acknowledged: 22 with MESSAGE_TOO_LARGE",
        "the producer of producer-1 did not take 2 records of big: larger than max.request.size",
        "more lines like the last one",
        "topic big: 0 records acknowledged, 22 failed (MESSAGE_TOO_LARGE)",
    ),
    "08-controllers-ephemeral": (
        "expected(META, ONELEADER, no-progress)",
        "broker-3 ends itself: raft: epoch 1 has leaders 3003 and 3001",
        "controller-1 becomes the active controller (epoch 1)",
        "both lead the metadata quorum in epoch 1 [expected: lost-metadata]",
    ),
    "09-controller-cpu-starved": (
        "pass  controller-cpu-starved",
        (
            "controller-2 becomes the active controller (epoch 3): nothing was heard of the leader,"
            " node 3003, for controller.quorum.fetch.timeout.ms"
        ),
        "controller-3 resigns as controller (epoch 1): no majority of voters has fetched from it",
        (
            "controller-3 resigns as controller (epoch 4): node 3001 is a candidate in the higher"
            " epoch 5"
        ),
    ),
    "15-disk-full": (
        "fail(no-progress)",
        "no-progress: broker-1 is down",
        "the disk of broker-1 is full: disk-capacity is 170 MiB",
        "broker-1 ends itself: log directory failed: No space left on device: metrics-1/",
        "broker-2 becomes the active controller (epoch 2): /controller was free",
        "operator: start broker-1: done",
        "the disk of broker-1 is full: disk-capacity is 170 MiB",
        "broker-1 ends itself: log directory failed: No space left on device: metrics-0/",
    ),
    "01-rebalance-five-minutes": (
        (
            "group campaigns rebalances: consumer-2 joins: need to re-join with the given"
            " member-id: consumer-2; it waits for consumer-1 to join again, 5 min at most"
        ),
        "generation 2, members consumer-2; its rebalance waited 290.1 s: consumer-1 left",
        "the commit of campaigns-0 to campaigns-3 by consumer-1 fails: the group has removed",
    ),
    "02-offsets-expired": (
        (
            "the coordinator removes the committed offset 30 of group reader in events-0: the group"
            " has had no member for offsets.retention.minutes"
        ),
        "group reader is removed: it is empty",
        "consumer-1 will read events-0 from offset 0: auto.offset.reset is earliest",
    ),
    "04-static-id-shared": (
        "refuses consumer-1: group.instance.id apigw of group apigw is held by consumer-2, until",
    ),
    "10-transactional-id-expired": (
        "forgets the transactional id holding-sender (producer id 0, epoch 0): nobody has used it",
        "producer-1 failed to send 1 record of holdings-0: INVALID_PRODUCER_ID_MAPPING",
    ),
    "26-unreleased-instance-id": (
        "refuses a member: group.instance.id pod-0 of group ingestion is held by consumer-1, until",
    ),
    "24-no-coordinator": (
        "no-progress in events-0: 1 record, first: group group is at 0 of 620 in events-0 (no",
        "broker-1 cannot have __consumer_offsets created, which groups need for a coordinator",
    ),
    "05-rf1-under-min-isr": (
        "pass  rf1-under-min-isr",
        "TIMED_OUT, not appended; the last attempt failed with NOT_ENOUGH_REPLICAS",
        "topic my-topic2: 0 records acknowledged, 620 failed",
    ),
}
"""By report: what a run with seed 1 says, in this order."""


def said(report: str, capsys: pytest.CaptureFixture[str], *more: str) -> str:
    """Return what ``kafkasim run --explain`` prints of a report."""
    cli.invoke(["run", str(HERE / f"{report}.toml"), "--seed", "1", "--explain", *more])
    return capsys.readouterr().out


@pytest.mark.slow
@pytest.mark.parametrize("report", [*TOLD])
def test_a_run_says_what_its_reporter_looks_for(
    report: str, capsys: pytest.CaptureFixture[str]
) -> None:
    printed, at = said(report, capsys), 0
    for sentence in TOLD[report]:
        at = printed.find(sentence, at)
        assert at >= 0, f"{sentence!r} is not said, or not there:\n{printed}"


@pytest.mark.slow
def test_a_record_that_no_producer_takes_is_an_event_that_a_scenario_can_forbid(
    capsys: pytest.CaptureFixture[str],
) -> None:
    never = 'expect.never=["send-failed:MESSAGE_TOO_LARGE"]'
    assert said("14b-record-too-large", capsys, "--set", never).startswith("fail(")


@pytest.mark.slow
def test_that_a_group_stands_still_for_ever_can_be_what_a_scenario_claims(
    capsys: pytest.CaptureFixture[str],
) -> None:
    claims = (
        "--set", 'expect.permits=["no-progress"]', "--set", 'expect.must-see=["no-progress"]'
    )  # fmt: skip
    assert said("24-no-coordinator", capsys, *claims).startswith("expected(no-progress)")
    healthy = ("--set", 'cluster.config={"offsets.topic.replication.factor"=1}', *claims)
    assert said("24-no-coordinator", capsys, *healthy).startswith("fail(missing:no-progress)")
