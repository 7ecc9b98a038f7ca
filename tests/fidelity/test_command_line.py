"""The command line of ``python -m tests.fidelity``."""

from __future__ import annotations

import pytest

from tests.fidelity.__main__ import main


@pytest.mark.parametrize(("arguments", "code"), [(["--help"], 0), (["-h"], 0), (["nothing"], 2)])
def test_help_and_unknown_names_ask_no_kafka(
    arguments: list[str], code: int, capsys: pytest.CaptureFixture[str]
) -> None:
    with pytest.raises(SystemExit) as ended:
        main(arguments)
    assert ended.value.code == code
    told = capsys.readouterr()
    assert "usage: python -m tests.fidelity" in told.out + told.err
