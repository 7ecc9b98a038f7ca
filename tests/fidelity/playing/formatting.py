"""The log directories of real nodes: where they are, and what is in them before the first start.

A scenario names directories as ``/data/d1``; here each is below the node's own directory. They are
formatted once, by ``kafka-storage format`` for the first controller, and copied. Of a cluster whose
voters may change (kraft.version 1), only the first voters get the snapshot that names them.
"""

from __future__ import annotations

import base64
import hashlib
import shutil
import subprocess
from collections.abc import Mapping
from pathlib import Path

from kafkasim.model.messages import CLUSTER_ID
from kafkasim.scenarios.language.tables import Scenario
from tests.fidelity.playing.metadata_log import LOG
from tests.fidelity.real_kafka import NoKafka

AWAY = ".away"
"""What a failed directory is called until it is repaired."""


class Directories:
    """The log directories of a cluster's nodes, below one directory."""

    def __init__(self, scenario: Scenario, directory: Path) -> None:
        config = scenario.cluster.config
        self._directory = directory
        self._logs = [str(each) for each in _listed(config.get("log.dirs", []))]
        self._metadata = config.get("metadata.log.dir")

    def logs(self, name: str) -> list[Path]:
        """Return the log directories of a node; a controller has one."""
        root = self._directory / f"data-{name}"
        if not name.startswith("broker-") or not self._logs:
            return [root]
        return [root / Path(each).name for each in self._logs]

    def metadata(self, name: str) -> Path:
        """Return the directory of a node's metadata log."""
        if not name.startswith("broker-") or self._metadata is None:
            return self.logs(name)[0]
        return self._directory / f"data-{name}" / Path(str(self._metadata)).name

    def all(self, name: str) -> list[Path]:
        """Return every directory of a node once."""
        return list(dict.fromkeys([*self.logs(name), self.metadata(name)]))

    def properties(self, name: str) -> dict[str, object]:
        """Return the properties that name a node's directories."""
        return {
            "log.dirs": ",".join(map(str, self.logs(name))),
            "metadata.log.dir": self.metadata(name),
        }

    def directory_id(self, name: str, place: Path | None = None) -> str:
        """Return the id that a directory is formatted with; by default of the metadata log's."""
        place = self.metadata(name) if place is None else place
        drawn = hashlib.sha256(str(place.relative_to(self._directory)).encode()).digest()[:16]
        return base64.urlsafe_b64encode(drawn).decode().rstrip("=").replace("-", "A")

    def fail(self, name: str, scenario_path: str | None) -> None:
        """Put a file in the place of a directory, or of all directories of a node."""
        for place in self._named(name, scenario_path):
            place.rename(place.with_name(place.name + AWAY))
            place.touch()

    def repair(self, name: str, scenario_path: str | None) -> None:
        """Put a directory back."""
        for place in self._named(name, scenario_path):
            place.unlink()
            place.with_name(place.name + AWAY).rename(place)

    def replace(self, name: str, node: int) -> None:
        """Put empty directories, which are formatted anew, in the place of a broker's."""
        for place in self.all(name):
            shutil.rmtree(place)
            place.mkdir(parents=True)
            drawn = self.directory_id(name, place.with_name(place.name + AWAY))
            write_properties(place / "meta.properties", _meta(node, drawn))

    def _named(self, name: str, scenario_path: str | None) -> list[Path]:
        places = self.all(name)
        if scenario_path is None:
            return places
        return [place for place in places if place.name == Path(scenario_path).name]


def format_all(
    command: list[str],
    directories: Directories,
    ids: Mapping[str, int],
    voters: Mapping[str, str],
    *,
    dynamic: bool,
) -> None:
    """Format the directories of all nodes.

    ``command`` formats the first voter. ``voters`` are those of the beginning, as
    ``ID@HOST:PORT`` by name; ``dynamic``: they may change.

    Raises:
        NoKafka: kafka-storage failed.
    """
    if dynamic:
        keys = [f"{at}:{directories.directory_id(name)}" for name, at in voters.items()]
        command = [*command, "--initial-controllers", ",".join(keys)]
    done = subprocess.run(command, capture_output=True, text=True)
    if done.returncode != 0:
        raise NoKafka(f"kafka-storage format failed: {(done.stderr + done.stdout)[-400:]}")
    formatted = directories.metadata(next(iter(voters)))
    for name, node in ids.items():
        for place in directories.all(name):
            if place != formatted:
                shutil.copytree(formatted, place, dirs_exist_ok=True)
            meta = _meta(node, directories.directory_id(name, place))
            write_properties(place / "meta.properties", meta)
            if dynamic and (name not in voters or place != directories.metadata(name)):
                shutil.rmtree(place / LOG.parent)


def _meta(node: int, directory_id: str) -> dict[str, object]:
    return {
        "version": 1, "cluster.id": CLUSTER_ID, "node.id": node, "directory.id": directory_id,
    }  # fmt: skip


def write_properties(file: Path, properties: Mapping[str, object]) -> None:
    """Write a properties file."""
    file.write_text("".join(f"{key}={found}\n" for key, found in properties.items()))


def _listed(found: object) -> list[object]:
    return list(found) if isinstance(found, list | tuple) else str(found).split(",")
