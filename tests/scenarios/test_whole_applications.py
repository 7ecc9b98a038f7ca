"""Whole applications, written for aiokafka as its users write them, run as they are."""

from __future__ import annotations

import tomllib
from pathlib import Path
from textwrap import dedent
from typing import Any

import pytest

import kafkasim
from kafkasim.model.facts.names import APPLICATIONS
from kafkasim.scenarios.language import library
from tests.scenarios.test_user_application import run

APPS = Path(__file__).parent / "users_applications"


def scenario(app: str, value: str, group: str) -> dict[str, Any]:
    """Return consumer-crash-rebalance with an application for its members."""
    data = tomllib.loads(library.path("consumer-crash-rebalance").read_text())
    data["topics"].append({"name": "receipts", "partitions": 3, "replication-factor": 3})
    data["workload"][0] |= {"value": value, "keys": "uniform:20"}
    data["workload"][1] |= {"app": str(APPS / app), "group": group}
    return data


JSON = '{{"number": {number}}}'


@pytest.mark.parametrize(
    ("app", "value", "group"),
    [
        ("inventory.py", JSON, "inventory"),  # a listener that looks up positions and commits
        ("enrich.py", JSON, "enrich"),  # transactions from one topic to another
        ("service.py", "order {number}", "group"),  # tasks, queues and time limits
    ],
)
def test_an_application_for_aiokafka_survives_the_crash_of_a_member(
    app: str, value: str, group: str, capsys: pytest.CaptureFixture[str]
) -> None:
    outcome = kafkasim.run(scenario(app, value, group), seed=1)
    assert outcome.verdict != "fail", outcome.explain()
    assert outcome.facts("ApplicationFailed").num_rows == 0
    assert "Exception ignored" not in capsys.readouterr().err


def done(outcome: kafkasim.Outcome) -> tuple[int, int]:
    """Return how many jobs the group has committed, and how many the archive has."""
    ids = [each for row in outcome.facts("Acked").to_pylist() for each in row["record_ids"]]
    committed: dict[int, int] = {}
    for row in outcome.facts("OffsetCommitted").to_pylist():
        committed[row["partition"]] = max(row["offset"], committed.get(row["partition"], 0))
    return sum(committed.values()), len([each for each in ids if each >> 32 >= APPLICATIONS])


@pytest.mark.parametrize("seed", [0, 1, 2])
def test_a_janitor_deletes_what_is_done_and_nothing_else(seed: int) -> None:
    """It makes its topic, its batches and its deletions itself; the twin's deletes what waits."""
    outcome = kafkasim.run(APPS / "workqueue.toml", seed=seed)
    assert outcome.verdict in ("pass", "expected"), outcome.explain()  # a worker crashes
    assert outcome.result.remarks == []
    committed, archived = done(outcome)
    assert archived >= committed > 800
    twin = kafkasim.run(APPS / "workqueue.toml", seed=seed, twin=True)
    assert "application-failed" in twin.anomalies, twin.verdict
    (reason, *_) = [row["reason"] for row in twin.facts("ApplicationFailed").to_pylist()]
    assert "OFFSET_OUT_OF_RANGE: jobs-" in reason


def test_an_application_that_catches_sigterm_closes_its_clients_itself() -> None:
    data = scenario("inventory.py", JSON, "inventory")
    data["faults"][0]["kind"] = "stop"
    del data["expect"]["must-see"]
    outcome = kafkasim.run(data, seed=0)
    assert (outcome.verdict, outcome.anomalies) == ("pass", []), outcome.explain()
    (stopped,) = outcome.facts("HostStopped").to_pylist()
    assert stopped["reason"] == "shutdown"
    reasons = [row["reason"] for row in outcome.facts("GroupState").to_pylist()]
    assert [each for each in reasons if "the consumer is being closed" in each] != []


SIGNALS = """
    from __future__ import annotations
    import asyncio, signal
    from dataclasses import dataclass
    from typing import ClassVar
    from aiokafka import AIOKafkaConsumer

    @dataclass
    class Settings:
        topic: str = "orders"
        kind: ClassVar[str] = "plain"

    async def main():
        task, loop = asyncio.current_task(), asyncio.get_running_loop()
        assert signal.getsignal(signal.SIGTERM) is signal.SIG_DFL
        CATCH
        async with AIOKafkaConsumer(Settings().topic, auto_offset_reset="earliest") as orders:
            async for order in orders:
                pass
"""
STOP = {"kind": "stop", "node": "consumer-1", "at": "2s", "for": "2s"}


@pytest.mark.parametrize(
    ("catch", "stops_at"),
    [
        ("pass", "at once"),
        ("loop.add_signal_handler(signal.SIGTERM, task.cancel)", "at once"),
        ("signal.signal(signal.SIGTERM, lambda number, frame: task.cancel())", "at once"),
        ("signal.signal(signal.SIGTERM, signal.SIG_IGN)", "killed"),
        ("loop.add_signal_handler(signal.SIGINT, task.cancel)", "at once"),
        (
            (
                "loop.add_signal_handler(signal.SIGTERM, print);"
                " loop.remove_signal_handler(signal.SIGTERM)"
            ),
            "at once",
        ),
    ],
)
def test_a_stop_is_a_signal_that_an_application_may_catch(
    tmp_path: Path, catch: str, stops_at: str
) -> None:
    """One that does not end is killed when it is to be started again."""
    app = tmp_path / "app.py"
    app.write_text(dedent(SIGNALS).replace("CATCH", catch))
    outcome = run(str(app), faults=[STOP])
    assert outcome.facts("ApplicationFailed").to_pylist() == []
    (stopped,) = outcome.facts("HostStopped").to_pylist()
    after_s = (stopped["t_us"] - outcome.result.ready_us) / 1e6 - 2
    told = {"at once": ("shutdown", pytest.approx(0, abs=0.3)), "killed": ("crash", 2)}[stops_at]
    assert (stopped["reason"], after_s) == told


@pytest.mark.parametrize("call", ["signal.alarm(3)", "signal.raise_signal(signal.SIGTERM)"])
def test_what_else_the_module_signal_does_is_refused(tmp_path: Path, call: str) -> None:
    app = tmp_path / "app.py"
    app.write_text(dedent(SIGNALS).replace("CATCH", call))
    (failed,) = run(str(app)).facts("ApplicationFailed").to_pylist()
    assert failed["reason"] == (
        f"an application cannot use {call.partition('(')[0]}() (app.py:16): it would leave the"
        " simulation"
    )
