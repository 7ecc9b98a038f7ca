"""The report: one file that fetches nothing, escapes all text, and tells what the trace holds."""

from __future__ import annotations

import json
import re
from html import unescape
from html.parser import HTMLParser
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest

from kafkasim.analysis.figures.timeline import from_directory
from kafkasim.analysis.report.page import Part, Table, render
from kafkasim.analysis.report.run_facts import (
    BROKER,
    CONTROLLER,
    ELECTION,
    EXPAND,
    FAULT,
    FINDING,
    GROUP,
    PARTITION,
    SHRINK,
    TRUNCATION,
    Finding,
    gather,
)
from kafkasim.analysis.report.run_figure import figure
from kafkasim.analysis.runs import find_runs
from kafkasim.analysis.source.jobs import Configuration
from kafkasim.scenarios.cli import invoke

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

FETCHING = ("src", "href", "srcset", "action", "poster", "data", "background")
VOID = {"meta", "link", "img", "br", "input", "hr"}


class Structure(HTMLParser):
    """What a page has: its tags with attributes, its ids, the text of its scripts of data."""

    def __init__(self, text: str) -> None:
        super().__init__()
        self.tags: list[tuple[str, dict[str, str | None]]] = []
        self.unclosed: list[str] = []
        self.figures: list[Any] = []
        self.is_figure = False
        self.feed(text)
        self.close()

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.tags.append((tag, dict(attrs)))
        self.is_figure = dict(attrs).get("class") == "figure"
        if tag not in VOID:
            self.unclosed.append(tag)

    def handle_endtag(self, tag: str) -> None:
        assert self.unclosed.pop() == tag, self.getpos()
        self.is_figure = False

    def handle_data(self, data: str) -> None:
        if self.is_figure:
            self.figures.append(json.loads(data))

    def all(self, tag: str) -> list[dict[str, str | None]]:
        """Return the attributes of all tags of a kind."""
        return [attributes for name, attributes in self.tags if name == tag]


@pytest.fixture(scope="module")
def lossy(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A run whose producers lost acknowledged records, with its report."""
    directory = tmp_path_factory.mktemp("lossy")
    assert invoke(["run", "acks-one-loses", "--seed", "7", "--out", str(directory)]) == 0
    assert invoke(["report", str(directory)]) == 0
    return directory


@pytest.mark.slow
def test_nothing_is_fetched_and_everything_can_be_reached(lossy: Path) -> None:
    page = Structure((lossy / "report.html").read_text())
    assert page.unclosed == []
    for tag, attributes in page.tags:
        for name in FETCHING:
            target = attributes.get(name) or "#"
            assert target.startswith(("#", "data:")), (tag, name, target[:80])
    assert all("src" not in script for script in page.all("script"))
    policy = [meta["content"] for meta in page.all("meta") if meta.get("http-equiv")]
    assert len(policy) == 1
    assert str(policy[0]).startswith("default-src 'none';")
    ids = [attributes["id"] for _, attributes in page.tags if "id" in attributes]
    assert len(ids) == len(set(ids))
    assert {str(link["href"])[1:] for link in page.all("a")} <= set(ids)
    plot = next(one for one in page.all("div") if one.get("class") == "plot")
    assert plot["tabindex"] == "0"
    assert all(image.get("alt") for image in page.all("img"))


@pytest.mark.slow
def test_equal_runs_have_equal_reports(lossy: Path, tmp_path: Path) -> None:
    again = tmp_path / "again.html"
    assert invoke(["report", str(lossy), "--out", str(again)]) == 0
    assert again.read_bytes() == (lossy / "report.html").read_bytes()


KINDS = "|".join((FAULT, ELECTION, SHRINK, EXPAND, CONTROLLER, BROKER, GROUP, TRUNCATION, FINDING,
                  PARTITION))  # fmt: skip
HOVER = re.compile(rf"<b>(broker down:|broker paused:|{KINDS}) (.+?)</b>.*?<br>(-?\d+\.\d+) s")
LAG_HOVER = re.compile(r"<b>(.+?)</b><br>(-?\d+\.\d+) s<br>log end (\d+), HW (\d+)")


def cells_of(table: str) -> list[list[str]]:
    """Return the texts of the cells of a table."""
    return [
        [unescape(re.sub("<.*?>", "", cell)) for cell in re.findall(r"<td.*?>(.*?)</td>", row)]
        for row in table.partition("</table>")[0].split("</tr>")
    ]


@pytest.mark.slow
def test_all_that_can_be_hovered_is_also_in_a_table(lossy: Path) -> None:
    text = (lossy / "report.html").read_text()
    shown = cells_of(text.partition('<table data-key="run-1">')[2])
    rows = {(row[0], row[2], row[3]) for row in shown if row}
    offsets = {tuple(row[:4]) for row in cells_of(text.rpartition("<table>")[2]) if row}
    told = [
        (unescape(one), trace.get("yaxis"))
        for trace in Structure(text).figures[0]["data"]
        for one in trace["hovertext"]
    ]
    lacking = []
    for hover, axis in told:
        if axis == "y2":
            found = LAG_HOVER.fullmatch(hover)
            assert found is not None, hover
            where, began, log_end, high_watermark = found.groups()
            if (began, where, log_end, high_watermark) not in offsets:
                lacking.append(hover)
            continue
        found = HOVER.search(hover)
        assert found is not None, hover
        kind, where, began = found.groups()
        if (began, BROKER if kind.endswith(":") else kind, where) not in rows:
            lacking.append(hover)
    assert lacking == []
    assert len(told) > 500


@pytest.mark.slow
def test_the_rows_of_a_run_tell_elections_truncations_and_the_loss(lossy: Path) -> None:
    run = from_directory(find_runs(lossy)[0][0])
    facts = gather(run, [Finding(5_000_000, "lost-write", "orders-0", "3 records")])
    told = [row for row in facts.rows if row.kind in (ELECTION, TRUNCATION, FINDING)]
    assert [(row.kind, row.where, row.text) for row in told] == [
        (FINDING, "orders-0", "lost-write: 3 records"),
        (ELECTION, "orders-0", "broker-3 leads, before broker-2 (fenced)"),
        (TRUNCATION, "orders-0", "broker-2 cuts 3 records, from 100 to 97"),
        (ELECTION, "orders-0", "broker-2 leads, before broker-3 (fenced)"),
        (ELECTION, "orders-1", "broker-1 leads, before broker-3 (fenced)"),
        (TRUNCATION, "orders-1", "broker-3 cuts 4 records, from 500 to 496"),
    ]
    election = told[1]
    assert (election.leader, election.epoch, election.isr) == ("broker-3", "1", "1,3")
    assert figure(facts) == figure(
        gather(run, [Finding(5_000_000, "lost-write", "orders-0", "3 records")])
    )


@pytest.mark.slow
def test_the_states_of_a_group_are_rows(tmp_path: Path) -> None:
    assert invoke(["run", "consumer-crash-rebalance", "--out", str(tmp_path)]) == 0
    facts = gather(from_directory(find_runs(tmp_path)[0][0]), [])
    states = [row.text.split(" (")[0].split(";")[0] for row in facts.rows if row.kind == GROUP]
    assert states.count("PreparingRebalance") == 3
    assert states[-1] == "Stable"
    assert "group billing" in figure(facts)


def test_a_run_without_topics_has_a_figure(tmp_path: Path) -> None:
    bare = tmp_path / "bare.toml"
    bare.write_text('name = "bare"\nclaim = "Nothing happens."\nduration = "1ms"\n')
    assert invoke(["run", str(bare), "--out", str(tmp_path / "run")]) == 0
    assert figure(gather(from_directory(find_runs(tmp_path)[0][0]), []))


def test_text_is_escaped() -> None:
    evil = "<script>alert('&')</script>"
    part = Part("one", evil, evil, facts={evil: evil}, tables=[Table(evil, [evil], [[evil]])])
    page = Structure(render(evil, evil, [part]))
    assert page.all("script") == []
    assert page.unclosed == []


@pytest.mark.slow
@pytest.mark.spark
def test_a_run_of_a_fleet_is_simulated_again(spark: SparkSession, tmp_path: Path) -> None:
    from kafkasim.analysis.fleet import run_fleet

    place = str(tmp_path)
    run_fleet(spark, [Configuration("acks-one-loses", label="as-it-is")], range(2), place)
    assert invoke(["report", place, "--run", "as-it-is/seed-000001"]) == 0
    text = (tmp_path / "report.html").read_text()
    page = Structure(text)
    sections = [section["id"] for section in page.all("section")]
    assert sections == ["fleet", "run-1"]
    assert '<h2 id="run-1-title">as-it-is, seed 1 ' in text
    assert len(page.figures) == 1
    assert "kafkasim run acks-one-loses --seed 1</dd>" in text
    assert "another digest" not in text
    found = cells_of(text.partition("<caption>What was found</caption>")[2])
    assert [row for row in found if row] == [
        ["lost-write", "2", "0", "0.0% (0.0% to 65.8%)", "2", "100.0% (34.2% to 100.0%)"]
    ]
