"""Axes and points of a sweep: what users write, what it means, and what is refused."""

from __future__ import annotations

import pytest

from kafkasim.analysis.sweeps.axes import (
    Axis,
    Sample,
    SweepError,
    axes_of,
    axis_of,
    parse_axis,
    parse_sample,
    points,
)
from kafkasim.scenarios.commands.spark.sweep_page import page
from kafkasim.scenarios.commands.spark.sweeps import plan
from kafkasim.scenarios.language import library
from kafkasim.scenarios.language.tables import AxisTable


def names(axis: Axis) -> list[str]:
    return [level.name for level in axis.levels]


def test_values_of_a_key() -> None:
    axis = parse_axis("cluster.config.replica.lag.time.max.ms=3000, 10000,30000")
    assert axis.name == "replica.lag.time.max.ms"
    assert names(axis) == ["3000", "10000", "30000"]
    assert axis.levels[1].settings == ("cluster.config.replica.lag.time.max.ms=10000",)


def test_values_with_commas_stand_in_quotes_or_brackets() -> None:
    axis = parse_axis('faults.0.at=["1s", "2s"],"5s"')
    assert [level.settings[0] for level in axis.levels] == [
        'faults.0.at=["1s", "2s"]', 'faults.0.at="5s"',
    ]  # fmt: skip
    assert names(axis) == ['["1s", "2s"]', "5s"]


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ("faults.0.for", "give KEY=V1,V2,V3"),
        ("=2s", "give KEY=V1,V2,V3"),
        ("faults.0.for=2s,,3s", "no empty one"),
        ("faults.0.for=2s,2s", "each value once"),
        ("faults.0.for=2s..12", "two numbers of one unit"),
        ("faults.0.for=12s..2s", "12s is not below 2s"),
    ],
)
def test_what_is_no_axis(text: str, said: str) -> None:
    with pytest.raises(SweepError, match=said):
        parse_axis(text)


def test_a_grid_has_every_combination() -> None:
    axes = [parse_axis("a=1,2,3"), parse_axis("b=x,y")]
    found = points(axes)
    assert len(found) == 6
    assert found[3].settings == ("a=2", "b=y")
    assert found[3].label(axes) == "a=2,b=y"


def test_a_range_needs_a_sample() -> None:
    with pytest.raises(SweepError, match="needs --sample"):
        points([parse_axis("faults.0.for=2s..12s")])


@pytest.mark.parametrize("kind", ["lhs", "sobol"])
def test_a_sample_covers_every_axis_evenly(kind: str) -> None:
    axes = [parse_axis("faults.0.for=2s..12s"), parse_axis("a=1,2,3,4")]
    found = points(axes, Sample(kind, 16))
    assert len(found) == 16
    assert found == points(axes, Sample(kind, 16))  # the same command has the same points
    seconds = sorted(float(point.levels[0].name.removesuffix("s")) for point in found)
    for place, value in enumerate(seconds):  # one in each sixteenth of the range
        assert 2 + place * 10 / 16 - 0.001 <= value <= 2 + (place + 1) * 10 / 16 + 0.001
    levels = [point.levels[1].name for point in found]
    assert all(levels.count(name) == 4 for name in "1234")


def test_a_wide_range_is_divided_in_the_logarithm() -> None:
    axis = parse_axis("cluster.config.replica.lag.time.max.ms=100..10000")
    assert axis.at(0.5).settings == ("cluster.config.replica.lag.time.max.ms=1000",)
    assert parse_axis("k=2..12").at(0.5).name == "7"
    assert parse_axis("k=0.5s..1s").at(0.5).name == "0.75s"


@pytest.mark.parametrize("text", ["lhs", "lhs:0", "sobol:x", "grid:8", "lhs:100000"])
def test_what_is_no_sample(text: str) -> None:
    with pytest.raises(SweepError, match="give lhs:N or sobol:N"):
        parse_sample(text)


def test_levels_of_a_table_set_several_keys() -> None:
    axis = axis_of(
        AxisTable.model_validate(
            {"name": "who", "levels": [{"name": "two", "set": {"a.b": ["x"], "c": True}}]}
        )
    )
    assert axis.levels[0].settings == ('a.b=["x"]', "c=true")


@pytest.mark.parametrize(
    "table", [{"name": "who"}, {"key": "a", "values": [1], "range": [1, 2]}, {"values": [1]}]
)
def test_a_table_gives_one_of_values_range_and_levels(table: dict[str, object]) -> None:
    with pytest.raises(SweepError, match=r"sweep\.axes"):
        axis_of(AxisTable.model_validate(table))


def test_two_axes_of_one_property_are_told_apart() -> None:
    axes = axes_of([], ["topics.0.config.flush.ms=1,2", "topics.1.config.flush.ms=1,2"])
    assert [axis.name for axis in axes] == [
        "topics.0.config.flush.ms", "topics.1.config.flush.ms",
    ]  # fmt: skip
    with pytest.raises(SweepError, match="nothing to vary"):
        axes_of([], [])


@pytest.mark.parametrize("name", library.sweeps())
def test_every_point_of_the_catalogue_is_a_scenario(name: str) -> None:
    planned = plan(name, [], None, [], [])
    assert planned.question.endswith("?")
    assert len(planned.points) >= 5
    assert len(set(planned.labels())) == len(planned.points)


def test_the_page_of_the_catalogue_is_current() -> None:
    assert (library.SWEEPS / "README.md").read_text() == page(), "run make sweeps"


@pytest.mark.parametrize(
    ("name", "unit", "title"),
    [
        ("linger.ms", "", "linger.ms"),
        ("batch.size", "", "batch.size (bytes)"),
        ("workload.0.config.batch.size", "", "workload.0.config.batch.size (bytes)"),
        ("for", "s", "for (s)"),
    ],
)
def test_the_title_of_an_axis_has_the_unit(name: str, unit: str, title: str) -> None:
    assert Axis(name, unit=unit).title == title
