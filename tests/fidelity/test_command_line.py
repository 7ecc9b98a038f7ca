"""The command line of ``python -m tests.fidelity``."""

from __future__ import annotations

import pytest

from tests.fidelity.__main__ import HERE, PLAYED, main


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
