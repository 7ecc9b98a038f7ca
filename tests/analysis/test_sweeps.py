"""A sweep and a comparison from end to end: run by Spark, measured, written, drawn and resumed."""

from __future__ import annotations

from pathlib import Path

import pyarrow.parquet as pq
import pytest

from kafkasim.scenarios.cli import invoke

pytestmark = [pytest.mark.spark, pytest.mark.slow, pytest.mark.usefixtures("spark")]

SCENARIO = """
name = "pauses"
claim = "A pause longer than replica.lag.time.max.ms shrinks the ISR."
duration = "9s"
[cluster]
brokers = 3
controllers = 1
[[topics]]
name = "orders"
replication-factor = 3
[[workload]]
kind = "producer"
rate = "15/s"
[[faults]]
kind = "gc-pause"
node = "follower:orders-0"
at = "1s"
for = "4s"
[sweep]
question = "Which lag time forgives the pause?"
measures = ["isr-changes:lag", "latency-p50-ms"]
runs = 3
[[sweep.axes]]
key = "cluster.config.replica.lag.time.max.ms"
values = [2000, 20000]
"""


@pytest.fixture
def scenario(tmp_path: Path) -> str:
    path = tmp_path / "pauses.toml"
    path.write_text(SCENARIO)
    return str(path)


def test_a_sweep(scenario: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    out = tmp_path / "out"
    # Three runs of each point are measured, then two more are added.
    width = ["--until-width", "latency-p50-ms=1e-9", "--most-runs", "5"]
    assert invoke(["sweep", scenario, "--out", str(out), *width]) == 0
    said = capsys.readouterr().out
    assert "Which lag time forgives the pause?" in said
    assert "at 5 runs of a point: no runs are left" in said
    assert "5 runs of each" in said
    assert "4 runs in" in said
    assert "(6 already stored)" in said
    rows = {
        (row["replica.lag.time.max.ms"], row["measure"]): row
        for row in pq.read_table(out / "sweep.parquet").to_pylist()
    }
    assert rows["2000", "isr-changes:lag"]["low"] > 0  # the setting shrinks the ISR in every run
    assert rows["20000", "isr-changes-per-minute"]["most"] == 0
    assert rows["2000", "lost-write"]["unit"] == "probability"
    assert {row["runs"] for key, row in rows.items() if key[1] == "acked-records"} == {5}
    assert (out / "sweep.csv").read_text().startswith('"point","replica.lag.time.max.ms"')
    assert (out / "sweep.png").stat().st_size > 10_000


def test_a_comparison(scenario: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    lag = "cluster.config.replica.lag.time.max.ms"
    sides = ["--a", f"{lag}=2000", "--b", f"{lag}=20000"]
    assert invoke(["compare", scenario, *sides, "--runs", "6", "--out", str(tmp_path / "c")]) == 0
    said = capsys.readouterr().out
    assert "6 pairs of runs" in said
    assert f"kafkasim run {scenario} --seed" in said  # a seed to look at, on both sides
    rows = {
        row["measure"]: row for row in pq.read_table(tmp_path / "c/compare.parquet").to_pylist()
    }
    changes = rows["isr-changes-per-minute"]
    assert (changes["pairs_lower"], changes["pairs_higher"]) == (6, 0)
    assert changes["p_value"] == pytest.approx(2 * 0.5**6)
    assert changes["b"] == 0 < changes["a"]
    assert rows["lost-write"]["p_value"] == 1.0
    assert "ISR changes a minute (median, 1/min)" in (tmp_path / "c/compare.svg").read_text()


@pytest.mark.parametrize(
    ("arguments", "said"),
    [
        (["sweep", "split-brain"], "nothing to vary: give --grid KEY=V1,V2,V3"),
        (["sweep", "split-brain", "--grid", "duration=1s..5s"], "a range needs --sample"),
        (["sweep", "split-brain", "--grid", "faults.9.for=1s,2s"], "faults has entries"),
        (["sweep", "lag-and-pause", "--measures", "latency"], "no measure 'latency'"),
        (["sweep", "lag-and-pause", "--sample", "lhs"], "give lhs:N or sobol:N"),
        (["compare", "split-brain"], "A and B are the same"),
        (["compare", "split-brain", "--a", "duration"], "--a 'duration': give KEY=VALUE"),
    ],
)  # fmt: skip
def test_one_line_says_what_is_wrong(
    arguments: list[str], said: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert invoke([*arguments, "--out", str(tmp_path)]) == 2
    errors = capsys.readouterr().err
    assert said in errors
    assert errors.count("\n") == 1
    assert not list(tmp_path.iterdir())
