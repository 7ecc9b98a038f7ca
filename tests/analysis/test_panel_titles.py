"""The title of a heat map stays on the page."""

from __future__ import annotations

from kafkasim.analysis.plots.sweep_view import TITLE_COLUMNS, _panel_title


def test_a_long_measure_is_broken_into_lines_that_fit() -> None:
    title = _panel_title("leaderless or under min ISR (median, partition seconds)")
    assert title == "leaderless or under min ISR (median,\npartition seconds)"
    assert max(map(len, title.splitlines())) <= TITLE_COLUMNS
