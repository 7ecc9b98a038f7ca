"""A server.properties is read into a scenario; what it cannot mean is said."""

from pathlib import Path

import pytest

from kafkasim.scenarios.language import library
from kafkasim.scenarios.language.spec import ScenarioError

SCENARIO = """
name = "with-properties"
claim = "A file of broker settings counts."
duration = "1s"
[cluster]
config-file = "server.properties"
config = { "num.io.threads" = 4 }
"""


def write(folder: Path, properties: str) -> str:
    (folder / "server.properties").write_text(properties)
    path = folder / "mine.toml"
    path.write_text(SCENARIO)
    return str(path)


def test_known_keys_count_and_the_scenarios_own_stand_above(tmp_path: Path) -> None:
    place = write(
        tmp_path,
        "# a comment\nreplica.lag.time.max.ms = 3000\nnum.io.threads=2\n"
        "listeners=PLAINTEXT://:9092\nlog.dirs=/data\n",
    )
    notes: list[str] = []
    scenario, _ = library.scenario(place, notes=notes)
    assert scenario.cluster.config == {
        "replica.lag.time.max.ms": "3000", "num.io.threads": 4, "log.dirs": "/data",
    }  # fmt: skip
    assert notes == [f"{tmp_path}/server.properties: ignored: listeners"]


def test_what_is_not_modelled_is_refused_unless_allowed(tmp_path: Path) -> None:
    place = write(tmp_path, "compression.type=lz4\n")
    with pytest.raises(ScenarioError, match=r"compression\.type: is not modelled") as refused:
        library.scenario(place)
    assert "--allow-unmodelled" in str(refused.value)
    notes: list[str] = []
    library.scenario(place, allow_unmodelled=True, notes=notes)
    assert notes == [f"{tmp_path}/server.properties: ignored: compression.type"]


@pytest.mark.parametrize(
    ("properties", "said"),
    [("novalue\n", "1: 'novalue' is not key=value"), ("num.io.threads=x\n", "not a number")],
)
def test_mistakes_name_the_place(tmp_path: Path, properties: str, said: str) -> None:
    place = write(tmp_path, properties)
    text = (tmp_path / "mine.toml").read_text().replace("config = {", "#")
    (tmp_path / "mine.toml").write_text(text)
    with pytest.raises(ScenarioError, match=said):
        library.scenario(place)
