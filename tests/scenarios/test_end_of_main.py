"""What the end of an application's main() does: to its tasks, its process, and its group."""

from __future__ import annotations

from pathlib import Path
from textwrap import dedent

import pytest

from kafkasim.scenarios.language import library
from kafkasim.scenarios.running.runner import run as run_scenario
from tests.scenarios.test_user_application import run

RETURNS = """
    import asyncio, os
    from aiokafka import AIOKafkaConsumer

    async def worker():
        try:
            await asyncio.sleep(1000)
        finally:
            await asyncio.sleep(0.2)
            TIDY

    async def main():
        task = asyncio.create_task(worker())
        orders = AIOKafkaConsumer("orders", auto_offset_reset="earliest", session_timeout_ms=6000)
        await orders.start()
        first = await orders.getone()
        END
"""


def written(tmp_path: Path, end: str, tidy: str) -> str:
    path = tmp_path / "app.py"
    path.write_text(dedent(RETURNS).replace("TIDY", tidy).replace("END", end))
    return str(path)


@pytest.mark.parametrize("end", ["return", "raise ValueError", "raise SystemExit(2)"])
def test_the_end_of_main_cancels_the_other_tasks_and_lets_them_clean_up(
    tmp_path: Path, end: str
) -> None:
    tidy = 'raise LookupError(os.environ["HOSTNAME"])'
    outcome = run(written(tmp_path, end, tidy), **{"expect.within": "1s"})
    first, *others = outcome.facts("ApplicationFailed").to_pylist()
    cleaned, main = (others[0], first) if others and first["ended"] else (first, None)
    assert (cleaned["exception"], cleaned["ended"]) == ("LookupError", False)
    named = [each["exception"] for each in (first, *others) if each["ended"]]
    assert named == ([] if end == "return" else [end.split()[1].partition("(")[0]]), main


def test_a_process_whose_main_returned_is_gone_without_leaving_its_group(tmp_path: Path) -> None:
    """Its sockets are closed at once; the group finds out by the session timeout."""
    once = 'if os.environ["HOSTNAME"] == "consumer-1": return\n    async for _ in orders: pass'
    app = written(tmp_path, once, "pass")
    outcome = run(app, **{"workload.1.count": 2, "workload.0.keys": "uniform:9"},
                  **{"topics.0.partitions": 4})  # fmt: skip
    assert outcome.verdict in ("pass", "expected"), outcome.explain()
    (stopped,) = outcome.facts("HostStopped").to_pylist()
    assert (stopped["node"], stopped["reason"]) == ("consumer-1", "application-returned")
    removed = [
        row for row in outcome.facts("GroupState").to_pylist() if row["seq"] > stopped["seq"]
    ]
    assert (removed[0]["t_us"] - stopped["t_us"]) / 6e6 == pytest.approx(1, abs=0.2), removed


def test_a_run_ends_when_applications_have_handled_what_they_committed_first() -> None:
    app = Path(__file__).parents[1] / "example_project" / "billing.py"
    settings = ["faults=[]", "expect={}", f'workload.1.app="{app}:commit_first"']
    given = library.scenario("consumer-crash-rebalance", settings)[0]
    for seed in range(2):
        assert run_scenario(given, seed).anomalies == []
