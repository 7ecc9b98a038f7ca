"""A user's Python processor is a step of a topology: in a run, and for its judge."""

from __future__ import annotations

import shutil
from pathlib import Path

import pytest

import kafkasim
from kafkasim.analysis.judging.user_processors import load_processor, named

PROJECT = Path(__file__).parents[1] / "example_project"


@pytest.mark.slow
def test_a_users_step_forwards_each_first_order_once_though_an_instance_is_killed() -> None:
    outcome = kafkasim.run(PROJECT / "first_orders.toml", seed=1)
    assert (outcome.verdict, outcome.anomalies) == ("expected", ["duplicate"])


@pytest.mark.parametrize(
    ("process", "line"),
    [
        ("first_orders", "'first_orders' is no processor; allowed: FILE.py:CLASS"),
        ("nowhere.py:First", "nowhere.py: cannot be read: No such file or directory"),
        ("first_orders.py:First", "has no class 'First'; it has FirstOrders"),
    ],
)
def test_a_processor_that_is_not_there_is_one_line(process: str, line: str) -> None:
    with pytest.raises(ValueError, match=r"[.:] ?") as caught:
        named(process, PROJECT)
    assert line in str(caught.value)
    assert "\n" not in str(caught.value)


def test_a_file_that_was_changed_since_the_run_is_refused(tmp_path: Path) -> None:
    file = tmp_path / "steps.py"
    shutil.copy(PROJECT / "first_orders.py", file)
    name = named("steps.py:FirstOrders", tmp_path)
    assert load_processor(name).__name__ == "FirstOrders"  # type: ignore[attr-defined]
    file.write_text(file.read_text() + "\n# changed\n")
    with pytest.raises(ValueError, match="was changed since the run"):
        load_processor(name)


def test_a_class_that_is_no_processor_is_refused(tmp_path: Path) -> None:
    (tmp_path / "steps.py").write_text("class Step:\n    pass\n")
    with pytest.raises(ValueError, match="Step is no processor; allowed: a subclass of"):
        load_processor(named("steps.py:Step", tmp_path))
