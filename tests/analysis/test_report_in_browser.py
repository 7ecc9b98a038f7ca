"""The report in a real browser: it loads without an error, fetches nothing, and keys move it."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from kafkasim.scenarios.cli import invoke
from tests.analysis.browser import CHROMIUM, Browser

pytestmark = [
    pytest.mark.slow,
    pytest.mark.skipif(
        CHROMIUM is None, reason="no chromium here: the report was NOT tested in a browser"
    ),
]

RANGE = "document.querySelector('.plot').layout.xaxis.range.map(Number)"
FOCUS = "document.activeElement.className || document.activeElement.tagName"


@pytest.fixture(scope="module")
def page(tmp_path_factory: pytest.TempPathFactory) -> Path:
    directory = tmp_path_factory.mktemp("run")
    assert invoke(["run", "acks-one-loses", "--seed", "7", "--out", str(directory)]) == 0
    assert invoke(["report", str(directory)]) == 0
    return directory / "report.html"


@pytest.fixture(scope="module")
def browser(page: Path, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Browser]:
    with Browser(tmp_path_factory.mktemp("profile")) as running:
        running.open(page)
        yield running


def test_it_loads_without_complaints_and_fetches_nothing(browser: Browser, page: Path) -> None:
    assert browser.complaints == []
    fetched = [url for url in browser.requests if not url.startswith("data:")]
    assert fetched == [page.as_uri()]


def test_the_policy_of_the_page_forbids_to_fetch(browser: Browser) -> None:
    tried = "fetch('https://localhost/').then(() => 'fetched', () => 'refused')"
    before = len(browser.complaints)
    assert browser.value(tried) == "refused"
    assert any("Content Security Policy" in one for one in browser.complaints[before:])
    del browser.complaints[before:]


def test_the_timeline_is_drawn(browser: Browser) -> None:
    assert browser.value("document.querySelectorAll('.plot .barlayer .point path').length") > 30
    assert browser.value("document.querySelectorAll('.plot .scatterlayer .point').length") >= 8
    labels = browser.value(
        "[...document.querySelectorAll('.plot .ytick text')].map(one => one.textContent).join('|')"
    )
    for label in ("lost-write", "leader election", "orders-0", "broker-3"):
        assert label in labels, labels
    assert browser.value("getComputedStyle(document.querySelector('.still')).display") == "none"


def test_keys_alone_reach_zoom_and_move_the_timeline(browser: Browser) -> None:
    browser.value("document.activeElement.blur()")
    for _ in range(40):
        browser.press("Tab")
        if browser.value("document.activeElement.classList.contains('plot')"):
            break
    else:
        pytest.fail(f"Tab does not reach the timeline, the last was {browser.value(FOCUS)}")
    left, right = browser.value(RANGE)
    browser.press("+", "Equal", "+")
    near_left, near_right = browser.value(RANGE)
    assert near_right - near_left == pytest.approx((right - left) / 2)
    browser.press("ArrowRight")
    assert browser.value(RANGE)[0] == pytest.approx(near_left + (near_right - near_left) / 4)
    browser.press("0", "Digit0", "0")
    assert browser.value(RANGE) == pytest.approx([left, right])


def test_a_key_goes_to_the_next_event_and_says_what_it_is(browser: Browser) -> None:
    browser.value("document.querySelector('.plot').focus()")
    browser.press("n", "KeyN", "n")
    first = browser.value("document.querySelector('.now').textContent")
    browser.press("n", "KeyN", "n")
    second = browser.value("document.querySelector('.now').textContent")
    assert "lost-write" in first
    assert second not in ("", first)
    browser.press("+", "Equal", "+")
    left, right = browser.value(RANGE)
    assert left <= float(second.split()[0]) <= right
    marked = browser.value("document.querySelector('tr.current').textContent")
    assert marked.split()[0].startswith(second.split()[0])


def test_printed_a_picture_takes_the_place_of_the_timeline(browser: Browser) -> None:
    browser.call("Emulation.setEmulatedMedia", media="print")
    shown = browser.value(
        "['.plot', '.controls', '.still', '.lines'].map(one =>"
        " getComputedStyle(document.querySelector(one)).display)"
    )
    browser.call("Emulation.setEmulatedMedia", media="")
    assert shown[:3] == ["none", "none", "block"]
    assert shown[3] != "none"
    assert browser.pdf().startswith(b"%PDF-")
