"""``kafkasim explain`` and ``report`` of an application of Kafka Streams."""

from __future__ import annotations

from dataclasses import asdict
from pathlib import Path

import pytest

from kafkasim.analysis.judging.finding import Finding
from kafkasim.model import facts
from kafkasim.scenarios.cli import invoke
from kafkasim.scenarios.running.stored import explain
from tests.analysis.analysis_rows import Case, passing, topic, write_run


def task(state: str, reason: str) -> facts.TaskState:
    return facts.TaskState("app", 1, "0_0", "active", state, reason)


MOVED: Case = passing([
    ("world", facts.Phase("ready", "")),
    topic(),
    ("streams-1", task("RUNNING", "restored")),
    ("streams-1", facts.TaskCommitted("app", 1, "0_0", ("orders-0@7",))),
    ("streams-2", facts.TaskState("app", 1, "0_1", "active", "RUNNING", "restored")),
    ("", 1),
    ("streams-1", facts.HostStopped("crash")),
    ("", 6),
    ("streams-2", task("RUNNING", "restored")),
    ("world", facts.Phase("end", "")),
])  # fmt: skip
"""The row of the last TaskState is 6."""

SPEC = {"name": "by-hand", "claim": "none", "duration": "1s", "cluster": {}}


def test_an_output_came_twice_because_the_task_went_on_at_its_last_commit(tmp_path: Path) -> None:
    found = Finding("duplicate-output", "", -1, "twice", group="app", seq=6, t_us=0)
    write_run(
        tmp_path / "run", MOVED, findings=[asdict(found)], missing=[], observations={}, spec=SPEC
    )
    (one,), _ = explain(tmp_path / "run", "duplicate-output")
    assert [step.fact for step in one.steps] == [
        "TaskState", "TaskCommitted", "HostStopped", "TaskState",
    ]  # fmt: skip
    assert one.conclusion == (
        "streams-2 goes on at the last commit: what the task did after it is done again"
    )


@pytest.mark.slow
def test_a_report_has_the_picture_of_tasks(tmp_path: Path) -> None:
    write_run(tmp_path / "run", MOVED, missing=[], observations={}, spec=SPEC, sim_seconds=8.0)
    assert invoke(["report", str(tmp_path / "run")]) == 0
    page = (tmp_path / "run" / "report.html").read_text()
    assert 'alt="Who had which task of Kafka Streams"' in page
