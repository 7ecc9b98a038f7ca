"""``kafkasim explain`` of compacted topics: who removed a record, and what replaces it."""

from __future__ import annotations

from dataclasses import asdict
from pathlib import Path
from typing import Any

import pytest

from kafkasim.analysis.explain.chain import Explanation
from kafkasim.analysis.judging.finding import Finding
from kafkasim.scenarios.running.stored import explain
from tests.analysis.analysis_rows import Case, T, mark, marker, passing, polled, topic, write_run
from tests.analysis.cleaning_cases import A_B_A, EARLY, KEPT, LOADED, READ_VALUE, cleaned, keyed

NOTHING: dict[str, Any] = {
    "findings": [], "missing": [], "observations": {},
    "spec": {"name": "by-hand", "claim": "none", "duration": "1s", "cluster": {}},
}  # fmt: skip


def explained(place: Path, case: Case, wanted: str, **found: Any) -> Explanation:
    """Return the only explanation of a run with these rows."""
    write_run(place / "run", passing(case), **{**NOTHING, **found})
    (one,), _ = explain(place / "run", wanted)
    return one


def violation(name: str, seq: int, offset: int = 0) -> list[dict[str, Any]]:
    return [asdict(Finding(name, T, 0, "broken", offset=offset, seq=seq, t_us=0))]


REPLACED = [*A_B_A, cleaned(0, 1, end=3)]
TAKEN_BACK = [
    topic(), *keyed(0, "a", gone=(0,)), *marker(1, False), *keyed(2, "a"), mark(3),
    cleaned(0, 1, end=3),
]  # fmt: skip

RECORDS = {
    "a later one": (REPLACED, 0,
        ("broker-1 removed the value of a at 0: the value of a at 2 replaces it, the last one of"
        " its key")),
    "a later one, and one behind it": ([*REPLACED, *keyed(3, "a", gone=(3,))], 0,
        ("broker-1 removed the value of a at 0: the value of a at 2 replaces it, and later"
        " the deletion of a at 3")),
    "none": ([*A_B_A, cleaned(2, 3, end=3)], 2,
        ("broker-1 removed the value of a at 2: no later record of the key was below offset 3, the"
        " end of the cleaning's key map")),
    "it was aborted": (TAKEN_BACK, 0,
        ("broker-1 removed the deletion of a at 0: its transaction was aborted, so the first"
        " cleaning that reads it removes it")),
    "its horizon": ([*KEPT, cleaned(0, 1, end=2, began=1005)], 0,
        ("broker-1 removed the deletion of a at 0: no later record of the key replaces it, and"
        " the cleaning began 1000 ms after the first one that met it; delete.retention.ms was"
        " 1000 ms")),
    "it is there": (REPLACED, 1, "no log cleaner has removed the value of b at 1"),
}  # fmt: skip


@pytest.mark.parametrize("name", RECORDS)
def test_what_became_of_a_record(tmp_path: Path, name: str) -> None:
    case, offset, conclusion = RECORDS[name]
    found = explained(tmp_path, case, f"orders-0@{offset}")
    assert (found.where, found.conclusion) == ("orders-0", conclusion)
    assert found.turn in found.steps


def test_an_offset_without_a_record_has_no_story(tmp_path: Path) -> None:
    write_run(tmp_path / "run", REPLACED, **NOTHING)
    assert explain(tmp_path / "run", "orders-0@9")[0] == []
    assert explain(tmp_path / "run", "nowhere-0@0")[0] == []


def test_a_record_that_had_to_stay_is_told_with_what_stands_above_the_high_watermark(
    tmp_path: Path,
) -> None:
    case = [topic(), *keyed(0, "a", "b", "a"), mark(2), cleaned(0, 1, end=3)]
    found = explained(tmp_path, case, "LATEST", findings=violation("LATEST", 4))
    assert found.turn is not None
    assert found.turn.fact == "Cleaned"
    assert found.conclusion == (
        "broker-1 removed the value of a at 0: the value of a at 2 replaces it, the last one of"
        " its key, but the high watermark was 2"
    )


def test_of_two_removals_the_wrong_one_is_told(tmp_path: Path) -> None:
    """The value at 1 is committed, so that at 0 may go; the one at 2 is not."""
    case = [topic(), *keyed(0, "a", "a", "a"), mark(2), cleaned(0, 2, end=3)]
    found = explained(tmp_path, case, "LATEST", findings=violation("LATEST", 4, 1))
    assert found.conclusion == (
        "broker-1 removed the value of a at 1: the value of a at 2 replaces it, the last one of"
        " its key, but the high watermark was 2"
    )


def test_the_deletion_that_stayed_too_long_is_told_since_its_log_was_loaded(
    tmp_path: Path,
) -> None:
    """The cleaning before that, and the other tombstone, set no horizon that counts."""
    case = [
        topic(), *keyed(0, "a", "b", gone=(0, 1)), mark(2), cleaned(end=2, began=5), LOADED,
        cleaned(end=2, began=100), cleaned(end=2, began=1110),
    ]  # fmt: skip
    found = explained(tmp_path, case, "HORIZON", findings=violation("HORIZON", 7, 1))
    assert found.conclusion == (
        "this cleaning began 10 ms after the delete horizon of the deletion of b at 1, and kept it"
    )


def test_a_deletion_that_stayed_is_told_with_the_cleaning_that_met_it(tmp_path: Path) -> None:
    case = [*KEPT, ("", 1), cleaned(end=2, began=1015)]
    found = explained(tmp_path, case, "HORIZON", findings=violation("HORIZON", 5))
    assert [step.fact for step in found.steps] == ["KeysAppended", "Cleaned", "Cleaned"]
    assert found.conclusion == (
        "this cleaning began 10 ms after the delete horizon of the deletion of a at 0, and kept it"
    )


def test_a_deletion_that_a_group_has_missed_is_told_from_the_value_that_it_got(
    tmp_path: Path,
) -> None:
    case = [*READ_VALUE, EARLY, ("", 0.4), polled([2], [102])]
    lost = [asdict(Finding("lost-deletion", T, 0, "broken", offset=1, group="g", seq=12))]
    found = explained(tmp_path, case, "lost-deletion", findings=lost)
    assert [step.fact for step in found.steps] == [
        "KeysAppended", "Polled", "Cleaned", "Cleaned", "Polled",
    ]  # fmt: skip
    assert found.conclusion.endswith("; group g has the value, and passed offset 1")
    unmet = Finding("seen:missed-deletion", "", -1, "missed-deletion happened", t_us=400_000)
    seen = {"findings": [asdict(unmet)]}
    again = explained(tmp_path / "observed", case, "seen:missed-deletion", **seen)
    assert again.steps == found.steps
