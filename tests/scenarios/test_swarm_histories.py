"""Seeds whose transactional ids have few epochs left."""

from __future__ import annotations

import pytest

from kafkasim.scenarios.language.nodes import epochs_used
from kafkasim.scenarios.language.spec import parse
from kafkasim.scenarios.searching.draw import draw
from kafkasim.scenarios.searching.worlds import histories


def test_some_ids_have_few_epochs_left_and_other_seeds_stay_as_they_are(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    drawn = [draw(seed) for seed in range(160)]
    monkeypatch.setattr(histories, "SHARE", 0)
    without = [draw(seed) for seed in range(160)]
    used = [epochs_used(parse(data, data["name"])) for data in drawn]
    assert [own == {} for own in used] == [a == b for a, b in zip(drawn, without, strict=True)]
    assert {n for own in used for n in own.values()} <= {
        32_766 - n for n in (*histories.LEFT, *histories.LEFT_TO_FENCES)
    }
    assert any(used)
