"""What ``make clients`` says of results; the suites themselves are run by hand."""

import tomllib
from pathlib import Path

import pytest

from tests.clients import getting
from tests.clients.__main__ import EXPECTED, Judged, judged
from tests.clients.suites import SUITES


def test_a_result_that_nobody_expects_is_named() -> None:
    expected = {"fails": {"old": "why", "mended": "why"}, "varies": {"shaky": "why"}}
    results = {
        "good": "pass", "old": "fail", "mended": "pass", "shaky": "fail", "new": "fail",
        "left": "skip",
    }  # fmt: skip
    remarks = ["passes, and is listed: mended", "fails: new"]
    assert judged(results, expected) == Judged(2, 3, 1, remarks)  # type: ignore[arg-type]


def test_each_expectation_is_of_a_suite_and_has_a_reason() -> None:
    listed = tomllib.loads(EXPECTED.read_text())
    assert [name for name in listed if name not in SUITES] == []
    for tables in listed.values():
        assert [kind for kind in tables if kind not in ("fails", "varies")] == []
        assert all(len(reason) > 10 for table in tables.values() for reason in table.values())


def test_what_is_missing_is_one_line(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(getting, "CACHE", tmp_path)
    monkeypatch.setenv("PATH", str(tmp_path))
    with pytest.raises(getting.Missing, match=r"^java is not on PATH$"):
        getting.kafka_jars("4.1.0")
    with pytest.raises(getting.Missing, match=r"^git is not on PATH$"):
        getting.checkout("some", "v1", "nowhere")
