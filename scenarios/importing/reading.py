"""Read the files: which kind each is, and what it says.

A YAML file is a docker-compose file or one of Strimzi's resources; any other is a
server.properties, or variables (``KAFKA_…=``) of one container.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

import yaml

from kafkasim.scenarios.importing import environment, strimzi
from kafkasim.scenarios.importing.given import Given, Server
from kafkasim.scenarios.language.files.properties import parse
from kafkasim.scenarios.language.spec import ScenarioError

YAML = (".yaml", ".yml")
IMAGES = ("apache/kafka", "bitnami/kafka", "bitnamilegacy/kafka", "confluentinc/cp-kafka",
          "confluentinc/cp-server", "confluentinc/confluent-local", "wurstmeister/kafka",
          "apache/kafka-native")  # fmt: skip
"""Images whose containers are brokers or controllers."""

NAMES_A_SERVER = ("process.roles", "node.id", "broker.id", "zookeeper.connect")
"""Properties, one of which every server has."""

NAMES_A_CLIENT = (
    "bootstrap.servers", "group.id", "acks", "transactional.id", "key.serializer",
    "key.deserializer", "auto.offset.reset", "enable.auto.commit", "linger.ms",
)  # fmt: skip
"""Properties that no server has."""

OUT_OF_THE_BOX = {
    "process.roles": "broker,controller", "node.id": "1",
    "controller.quorum.voters": "1@localhost:9093", "num.partitions": "3",
    "offsets.topic.replication.factor": "1", "transaction.state.log.replication.factor": "1",
    "transaction.state.log.min.isr": "1", "group.initial.rebalance.delay.ms": "0",
}  # fmt: skip
"""What a container of apache/kafka runs with if no variable of Kafka's is set."""

INTERPOLATED = re.compile(r"\$\{(\w+)(?::?-([^}]*))?\}|\$(\w+)")


def read(paths: Sequence[Path], brokers: int | None = None) -> Given:
    """Return what all the files say together; ``brokers`` is how many the user says there are.

    Raises:
        ScenarioError: a file cannot be read or is of no known kind, or there is no server in any.
    """
    given = Given(name=paths[0].stem.partition(".")[0], brokers=brokers)
    documents: list[tuple[Path, Mapping[str, Any]]] = []
    for path in paths:
        if path.suffix in YAML:
            documents += [(path, each) for each in _documents(path)]
        else:
            _flat(path, given)
    resources = [(path, each) for path, each in documents if "kind" in each]
    for path, each in documents:
        if "services" in each:
            _compose(path, each, given)
        elif "kind" not in each:
            raise ScenarioError(
                f"{path}: is no docker-compose file (services:) and no resource of Strimzi (kind:)"
            )
    strimzi.read(resources, given)
    given.all_servers |= len(given.servers) > 1
    if not given.servers and given.clients:
        raise ScenarioError(f"{given.left_out[0]}; give the files of brokers, too")
    if not given.servers:
        raise ScenarioError(f"{', '.join(map(str, paths))}: no broker is in it")
    return given


def _flat(path: Path, given: Given) -> None:
    found = parse(path)
    if environment.is_environment(found):
        found, others = environment.properties(found)
        _leave(path, others, given)
    of_client = [key for key in NAMES_A_CLIENT if key in found]
    if of_client and not any(key in found for key in NAMES_A_SERVER):
        given.clients.append(str(path))
        given.left_out.append(
            f"{path}: properties of a client ({of_client[0]}); name it as config-file of a workload"
        )
        return
    given.servers.append(Server(str(path), found))


def _leave(place: object, variables: Sequence[str], given: Given) -> None:
    line = f"{', '.join(variables)} ({place}): no property of a broker"
    if variables and line not in given.left_out:
        given.left_out.append(line)


def _documents(path: Path) -> Iterator[Mapping[str, Any]]:
    try:
        with path.open(encoding="utf-8") as file:
            found = list(yaml.safe_load_all(file))
    except OSError as error:
        raise ScenarioError(f"{path}: {error.strerror}") from None
    except (yaml.YAMLError, UnicodeDecodeError, RecursionError) as error:
        raise ScenarioError(f"{path}: is not YAML: {' '.join(str(error).split())}") from None
    for each in found:
        if isinstance(each, Mapping):
            yield each
        elif each is not None:
            raise ScenarioError(f"{path}: is a {type(each).__name__}, not a table")


# ------------------------------------------------------------------------------ docker-compose


def _compose(path: Path, document: Mapping[str, Any], given: Given) -> None:
    services = document["services"]
    if not isinstance(services, Mapping):
        raise ScenarioError(f"{path}: services: is not a table")
    beside = path.parent / ".env"
    values = parse(beside) if beside.is_file() else {}
    given.all_servers = True
    others = []
    for name, service in services.items():
        if not isinstance(service, Mapping):
            raise ScenarioError(f"{path}: services.{name}: is not a table")
        image = _filled(str(service.get("image", "")), values)
        variables = {key: _filled(text, values) for key, text in _variables(path, service).items()}
        if not _server(f"{path}: {name}", image, variables, given):
            others.append(str(name))
            given.zookeepers += "zookeeper" in image
    if others:
        given.left_out.append(f"services {', '.join(others)} ({path}): no brokers or controllers")


def _server(place: str, image: str, variables: Mapping[str, str], given: Given) -> bool:
    """Take a service if it is a server of Kafka, and return whether it is."""
    found, unused = environment.properties(variables)
    repository = image.rpartition(":")[0] or image
    known = repository.removeprefix("docker.io/").endswith(IMAGES)
    if not known and not any(key in found for key in NAMES_A_SERVER):
        return False
    if not found and repository.endswith(("apache/kafka", "apache/kafka-native")):
        found = dict(OUT_OF_THE_BOX)
        given.defaulted.append(f"{place}: the settings that the image has without variables")
    _leave(place.partition(": ")[0], unused, given)
    given.servers.append(Server(place, found))
    given.version = given.version or _release(repository, image[len(repository) + 1 :])
    for text in variables.get("KAFKA_CREATE_TOPICS", "").split(","):
        parts = text.strip().split(":")
        if len(parts) >= 3 and parts[1].isdigit() and parts[2].isdigit():
            given.topics.append({
                "name": parts[0], "partitions": int(parts[1]), "replication-factor": int(parts[2]),
            })  # fmt: skip
    return True


def _variables(path: Path, service: Mapping[str, Any]) -> dict[str, str]:
    """Return a service's variables: those of its env_file, and over them those of environment."""
    found: dict[str, str] = {}
    files = service.get("env_file") or []
    for each in files if isinstance(files, list) else [files]:
        name = each.get("path") if isinstance(each, Mapping) else each
        found |= parse(path.parent / str(name))
    own = service.get("environment") or {}
    if isinstance(own, list):
        own = dict(str(each).partition("=")[::2] for each in own)
    if not isinstance(own, Mapping):
        raise ScenarioError(f"{path}: environment: is neither a table nor a list")
    return found | {str(key): strimzi.text(value) for key, value in own.items()}


def _filled(text: str, values: Mapping[str, str]) -> str:
    """Return a text with ``${NAME:-default}`` filled in, as docker compose does from ``.env``."""

    def value(match: re.Match[str]) -> str:
        return values.get(match[1] or match[3], match[2] or "")

    return INTERPOLATED.sub(value, text.replace("$$", "\0")).replace("\0", "$")


def _release(repository: str, tag: str) -> str:
    """Return the release of Kafka in an image; Confluent 7.9 is 3.9, and 8.0 is 4.0."""
    match = re.match(r"(\d+)\.(\d+)", tag)
    if match is None:
        return ""
    major, minor = int(match[1]), int(match[2])
    return f"{major - 4}.{minor}" if "confluentinc/" in repository else f"{major}.{minor}"
