"""A restart policy starts processes again that applications end, with the kubelet's back-off."""

from __future__ import annotations

from itertools import pairwise
from pathlib import Path
from typing import Any

import pytest

from kafkasim.model import facts
from kafkasim.scenarios.commands.common import InputError
from kafkasim.scenarios.commands.runs import for_consumers
from kafkasim.scenarios.language.spec import parse
from kafkasim.scenarios.running.restarting import BackOff
from kafkasim.scenarios.running.runner import ScenarioRun
from tests.scenarios.test_application_failed import refused

S = 1_000_000

GOES_AFTER_FIVE = """
from aiokafka import AIOKafkaConsumer

async def main():
    orders = AIOKafkaConsumer("orders", auto_offset_reset="earliest")
    await orders.start()
    for _ in range(5):
        await orders.getone()
    await orders.stop()
"""


def delays(ends_s: list[int]) -> list[int]:
    """Return the seconds that restarts wait if a process ends so long after each start."""
    back_off, now, waited = BackOff(), 0, []
    for after_s in ends_s:
        now += after_s * S
        waited.append(back_off.delay(now) // S)
        now += waited[-1] * S
    return waited


def test_the_back_off_doubles_to_five_minutes() -> None:
    assert delays([1] * 9) == [1, 10, 20, 40, 80, 160, 300, 300, 300]


def test_ten_minutes_of_running_begin_the_back_off_anew() -> None:
    assert delays([1, 1, 1, 600, 601, 1]) == [1, 10, 20, 40, 1, 10]


def lives(scenario: dict[str, Any]) -> tuple[list[float], str]:
    """Return when the consumer's process started, in s from its first start, and the verdict."""
    run = ScenarioRun(parse(scenario, "test"), 0, None, ())
    starts: list[float] = []

    def on_start(_seq: int, t_us: int, node: str, _fact: facts.HostStarted) -> None:
        if node == "consumer-1":
            starts.append(t_us / S)

    run.trace.subscribe(facts.HostStarted, on_start)
    verdict = run.execute().verdict
    return [round(at - starts[0]) for at in starts], verdict


def reader(policy: str, app: str | None = None) -> dict[str, Any]:
    """Return a scenario of 16 s whose only consumer has a restart policy."""
    given = refused(duration="16s", expect={"permits": ["application-failed"]})
    given["workload"][1]["restart"] = policy
    if app is not None:
        given["workload"][1] |= {"app": app, "config": {}}
    return given


def test_a_process_that_fails_again_and_again_waits_longer_each_time() -> None:
    starts, verdict = lives(reader("on-failure"))
    assert (starts[:4], verdict) == ([0, 1, 11, 31], "fail")  # nobody has read: no progress
    assert [later - earlier for earlier, later in pairwise(starts)][3:6] == [40, 80, 160]


def test_without_a_policy_it_stays_down() -> None:
    assert lives(reader("never")) == ([0], "expected")


@pytest.mark.parametrize(("policy", "starts"), [("on-failure", [0]), ("always", [0, 4, 17])])
def test_a_process_that_returns_is_restarted_by_always_only(
    policy: str, starts: list[int], tmp_path: Path
) -> None:
    app = tmp_path / "app.py"
    app.write_text(GOES_AFTER_FIVE)
    assert lives(reader(policy, str(app)))[0][:3] == starts


def test_the_command_line_gives_a_policy_to_an_application_only(tmp_path: Path) -> None:
    app = tmp_path / "app.py"
    assert for_consumers("consumer-crash-rebalance", str(app), "always") == [
        f'workload.1.app="{app}:main"', 'workload.1.restart="always"',
    ]  # fmt: skip
    with pytest.raises(InputError, match="--restart always: needs --app; a workload of az-loss"):
        for_consumers("az-loss", None, "always")
