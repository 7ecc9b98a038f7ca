"""Small programs that people write for aiokafka: each runs, and the verdict says what it does."""

from __future__ import annotations

from pathlib import Path

import pytest

import kafkasim
from kafkasim.scenarios.language.spec import ScenarioError

HERE = Path(__file__).parent / "apps"

BACK = ("duplicate", "offset-regression", "reordered-commit")

pytestmark = pytest.mark.slow


def run(app: str, scenario: str = "base", **settings: object) -> kafkasim.Outcome:
    """Run a program in place of the one consumer of ``billing``."""
    given = {f"workload.1.{key}": value for key, value in settings.items()}
    chosen = {"workload.1.app": str(HERE / app), **given}
    return kafkasim.run(str(HERE / f"{scenario}.toml"), seed=1, settings=chosen)


@pytest.mark.parametrize("function", ["main", "batches"])
def test_outputs_that_were_not_awaited_are_lost_with_the_process(function: str) -> None:
    outcome = run(f"unawaited.py:{function}", "crash")
    assert (outcome.verdict, outcome.anomalies) == ("fail", ["lost-output"])
    acked = [
        row["record_ids"]
        for row in outcome.facts("Acked").to_pylist()
        if row["node"] == "consumer-1"
    ]
    lost = sum(each.count for each in outcome.result.findings if each.name == "lost-output")
    sent = len(outcome.facts("OutputSent"))
    assert lost > 10
    assert sum(map(len, acked)) == sent - lost  # the run ends with empty producers


def test_outputs_that_were_awaited_are_not_lost() -> None:
    assert run("unawaited.py:awaited", "crash", output="receipts").verdict == "pass"
    assert run("unawaited.py:every_other", "crash").verdict == "pass"


def test_a_group_with_an_output_topic_owes_it_a_record_for_each_input() -> None:
    outcome = run("unawaited.py:every_other", "crash", output="receipts")
    assert (outcome.verdict, outcome.anomalies) == ("fail", ["lost-output"])
    text = outcome.result.findings[0].text
    assert text.endswith("nothing was sent to receipts for record 0 of producer-1")


@pytest.mark.parametrize(
    ("settings", "message"),
    [
        ({"output": "bills"}, "workload.1.output: no topic 'bills'; allowed: orders, receipts"),
        ({"output": "orders"}, "workload.1.output: 'orders' is a topic that it reads"),
    ],
)
def test_a_topic_of_outputs_is_another_topic(settings: dict[str, str], message: str) -> None:
    with pytest.raises(ScenarioError, match=message):
        run("unawaited.py:main", **settings)


def test_position_waits_for_the_reset() -> None:
    assert run("position.py").facts("ApplicationFailed").num_rows == 0


@pytest.mark.parametrize(
    ("function", "anomalies"),
    [
        ("seeks", {"duplicate": "own-seek"}),
        ("seeks_and_commits", dict.fromkeys(["duplicate", "offset-regression"], "own-seek")),
        ("commits", dict.fromkeys(BACK, "own-commit")),
    ],
)
def test_what_an_application_reads_again_is_its_own_choice(
    function: str, anomalies: dict[str, str]
) -> None:
    outcome = run(f"rewind.py:{function}")
    assert {each.name: each.expected_by for each in outcome.result.findings} == anomalies
    assert outcome.verdict == "expected"


def test_values_of_json_are_written_as_they_are() -> None:
    assert kafkasim.run(str(HERE / "json_value.toml")).verdict == "pass"


@pytest.mark.parametrize("app", ["run_itself.py", "pack/absolute.py"])
def test_a_program_is_loaded_as_python_loads_it(app: str) -> None:
    outcome = run(app)
    assert (outcome.verdict, outcome.facts("ApplicationFailed").num_rows) == ("pass", 0)
    assert sum(len(row["offsets"]) for row in outcome.facts("Polled").to_pylist()) > 400


def test_the_modules_of_aiokafka_have_their_names() -> None:
    assert run("submodules.py").facts("ApplicationFailed").num_rows == 0


def test_a_refusal_has_its_file_and_line() -> None:
    (failed,) = [
        each for each in run("executor.py").result.findings if each.name == "application-failed"
    ]
    assert failed.text.endswith("run_in_executor(): the simulation has no threads, sockets or"
                                " processes, at executor:7 in main")  # fmt: skip
