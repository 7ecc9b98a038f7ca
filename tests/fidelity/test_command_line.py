"""The command line of ``python -m tests.fidelity``."""

from __future__ import annotations

import signal
from collections.abc import Callable

import pytest

from tests.fidelity.__main__ import HERE, PLAYED, main
from tests.fidelity.playing.__main__ import main as play


@pytest.mark.parametrize(("arguments", "code"), [(["--help"], 0), (["-h"], 0), (["nothing"], 2)])
def test_help_and_unknown_names_ask_no_kafka(
    arguments: list[str], code: int, capsys: pytest.CaptureFixture[str]
) -> None:
    with pytest.raises(SystemExit) as ended:
        main(arguments)
    assert ended.value.code == code
    told = capsys.readouterr()
    assert "usage: python -m tests.fidelity" in told.out + told.err


def test_the_schedules_of_every_history_are_played_again() -> None:
    assert sorted(PLAYED) == sorted(place.name for place in (HERE / "histories").iterdir())


@pytest.mark.parametrize(
    ("ask", "arguments"), [(main, ["defaults", "4.0.0"]), (play, ["broker-killed"])]
)
def test_without_java_a_line_says_what_is_needed(
    ask: Callable[[list[str]], int],
    arguments: list[str],
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:
    monkeypatch.setenv("PATH", "")
    monkeypatch.setattr(signal, "signal", lambda *_: None)  # the schedules set a handler
    assert ask(arguments) == 2
    told = "make fidelity: java is not on PATH: real Kafka needs JDK 17 or newer and Maven\n"
    assert capsys.readouterr().err == told
