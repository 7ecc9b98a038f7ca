"""kafkasim init: what users have becomes a scenario, and all that is not taken is told."""

import json
import tomllib
from pathlib import Path
from typing import Any

import pytest

from kafkasim.scenarios.cli import invoke
from kafkasim.scenarios.importing.cluster import scenario
from kafkasim.scenarios.importing.given import Given
from kafkasim.scenarios.importing.reading import read
from kafkasim.scenarios.language.spec import ScenarioError
from kafkasim.scenarios.language.spec import parse as checked
from kafkasim.scenarios.running.runner import run

EXAMPLES = Path(__file__).parent / "examples"
THREE = tuple(f"three/broker-{n}.properties" for n in (1, 2, 3))
COMPOSE, STRIMZI = ("docker-compose.yaml",), ("strimzi.yaml",)


def made(*names: str) -> tuple[dict[str, Any], Given]:
    given = read([EXAMPLES / name for name in names])
    return scenario(given), given


def of_text(folder: Path, text: str, name: str = "server.properties") -> tuple[Any, Given]:
    (folder / name).write_text(text)
    given = read([folder / name])
    return scenario(given), given


@pytest.mark.parametrize(
    ("files", "cluster"),
    [
        (
            THREE,
            {
                "kafka-version": "4.0", "brokers": 3, "controllers": 3, "combined": 3,
                "racks": ["zone-a", "zone-b", "zone-c"],
                "config": {
                    "log.dirs": "/data/1,/data/2", "num.partitions": 6,
                    "default.replication.factor": 3, "min.insync.replicas": 2,
                },
                "nodes": {"broker-3": {"config": {"num.io.threads": 16}}},
            },
        ),
        (
            ("zookeeper.properties",),
            {
                "mode": "zookeeper", "kafka-version": "3.9", "brokers": 3, "zookeepers": 3,
                "config": {
                    "inter.broker.protocol.version": "2.8-IV1", "default.replication.factor": 3,
                    "min.insync.replicas": 2, "log.retention.ms": 172800000,
                },
            },
        ),
        (
            ("broker.env",),
            {
                "kafka-version": "4.0", "brokers": 1, "controllers": 1, "combined": 1,
                "config": {"num.partitions": 3, "min.insync.replicas": 2},
            },
        ),
        (
            COMPOSE,
            {
                "kafka-version": "3.9", "brokers": 3, "controllers": 3, "combined": 3,
                "config": {
                    "default.replication.factor": 3, "min.insync.replicas": 2,
                    "unclean.leader.election.enable": True,
                },
            },
        ),
        (
            STRIMZI,
            {
                "kafka-version": "4.1", "brokers": 4, "controllers": 3, "racks": ["a", "b", "c"],
                "config": {
                    "default.replication.factor": 3, "min.insync.replicas": 2,
                    "offsets.topic.replication.factor": 3,
                    "log.dirs": "/var/lib/kafka/data-0,/var/lib/kafka/data-1",
                },
            },
        ),
    ],
)  # fmt: skip
def test_the_cluster_is_what_the_files_say(files: tuple[str, ...], cluster: dict[str, Any]) -> None:
    data, _ = made(*files)
    assert data["cluster"] == cluster
    checked(data, "made")


@pytest.mark.early
@pytest.mark.parametrize("files", [THREE, ("zookeeper.properties",), ("broker.env",), COMPOSE])
def test_a_scenario_of_files_runs_and_passes(files: tuple[str, ...]) -> None:
    data, _ = made(*files)
    assert run(checked({**data, "duration": "1s"}, "made"), 1).verdict == "pass"


def test_all_that_is_not_taken_has_its_reason() -> None:
    assert made(*THREE)[1].left_out == [
        "listeners, controller.listener.names: addresses, security or machines, no effect here",
        "compression.lz4.level: Kafka's, but not modelled",
    ]
    env, consumers = made("broker.env")[1].left_out
    place = EXAMPLES / "broker.env"
    assert env == f"KAFKA_LOG4J_LOGGERS, KAFKA_HEAP_OPTS ({place}): no property of a broker"
    assert consumers == (
        "consumers: offsets.topic.replication.factor = 3 is more than brokers = 1, so Kafka cannot"
        " create __consumer_offsets"
    )


def test_a_name_that_kafka_does_not_know_is_told_with_the_name_it_has(tmp_path: Path) -> None:
    text = "process.roles=broker\ncontroller.quorum.voters=1@a:9093\nnum.io.thread=8\n"
    data, given = of_text(tmp_path, text)
    assert given.left_out[0].startswith("num.io.thread: unknown key; did you mean num.io.threads")
    assert (data["cluster"]["controllers"], data["cluster"]["brokers"]) == (1, 3)


def test_topics_of_strimzi_are_topics() -> None:
    assert made(*STRIMZI)[0]["topics"] == [{
        "name": "transfers", "partitions": 12, "replication-factor": 3,
        "config": {"retention.ms": 604800000, "min.insync.replicas": 2},
    }]  # fmt: skip


def test_an_image_of_apache_without_variables_is_one_combined_node(tmp_path: Path) -> None:
    text = "services: {kafka: {image: 'apache/kafka:4.1.0'}}"
    cluster = of_text(tmp_path, text, "compose.yml")[0]["cluster"]
    shape = [cluster[key] for key in ("kafka-version", "brokers", "controllers", "combined")]
    assert shape == ["4.1", 1, 1, 1]
    assert cluster["config"]["offsets.topic.replication.factor"] == 1


def test_an_even_quorum_is_told(tmp_path: Path) -> None:
    voters = ",".join(f"{n}@k{n}:9093" for n in range(1, 5))
    data, given = of_text(tmp_path, f"process.roles=broker\ncontroller.quorum.voters={voters}\n")
    assert data["cluster"]["controllers"] == 3
    assert "controllers = 3: of 4 voters; a scenario has 1, 3 or 5" in given.defaulted


@pytest.mark.parametrize(
    ("name", "text", "said"),
    [
        ("a.yaml", "services: [", "a.yaml: is not YAML: while parsing"),
        ("a.yaml", "{}", "a.yaml: is no docker-compose file"),
        ("a.yaml", "- 1", "a.yaml: is a list, not a table"),
        ("a.yaml", "services: {ui: {image: redis}}", "a.yaml: no broker is in it"),
        ("a.yaml", "kind: KafkaNodePool", "a KafkaNodePool; give the Kafka resource, too"),
        ("a.yaml", "kind: Kafka\nspec: {kafka: {replicas: x}}", "replicas: 'x' is not a number"),
        ("a.yaml", "!!python/object/apply:os.getcwd []", "could not determine a constructor"),
        ("a.properties", "process.roles=controller", "process.roles = controller: give a broker's"),
        ("a.properties", "what", "a.properties:1: 'what' is not key=value"),
    ],
)
def test_what_cannot_be_read_is_one_line_that_names_the_file(
    tmp_path: Path, name: str, text: str, said: str
) -> None:
    with pytest.raises(ScenarioError) as refused:
        of_text(tmp_path, text, name)
    assert said in str(refused.value)
    assert "\n" not in str(refused.value)


def test_zookeeper_and_kraft_together_are_refused(tmp_path: Path) -> None:
    paths = [tmp_path / "a.properties", tmp_path / "b.properties"]
    for path, text in zip(paths, ("process.roles=broker", "zookeeper.connect=z:2181"), strict=True):
        path.write_text(text)
    with pytest.raises(ScenarioError, match="ZooKeeper and KRaft in one cluster is a migration"):
        scenario(read(paths))


def test_the_command_writes_the_scenario_and_never_over_another(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    out = tmp_path / "mine.toml"
    files = [str(EXAMPLES / name) for name in THREE]
    assert invoke(["init", *files, "--out", str(out), "--json"]) == 0
    told = json.loads(capsys.readouterr().out)
    assert "combined = 3: controllers that are brokers as well" in told["took"]
    checked(tomllib.loads(out.read_text()), "mine.toml")
    assert invoke(["init", *files, "--out", str(out)]) == 2
    assert capsys.readouterr().err == (
        f"kafkasim: error: --out {out}: exists; give another file, or --force\n"
    )


def test_one_file_stands_for_as_many_brokers_as_the_user_says(tmp_path: Path) -> None:
    file = tmp_path / "server.properties"
    file.write_text("process.roles=broker\nnode.id=1\n")
    given = read([file], brokers=5)
    assert scenario(given)["cluster"]["brokers"] == 5
    assert "brokers = 5: --brokers" in given.took
    three = read([EXAMPLES / name for name in THREE], brokers=5)
    with pytest.raises(ScenarioError, match="--brokers 5: the files have 3 of their own"):
        scenario(three)


def test_the_properties_of_a_client_are_told_apart(tmp_path: Path) -> None:
    server, client = tmp_path / "server.properties", tmp_path / "consumer.properties"
    server.write_text("process.roles=broker\nnode.id=1\n")
    client.write_text("bootstrap.servers=a:9092\ngroup.id=billing\n")
    given = read([server, client])
    said = f"{client}: properties of a client (bootstrap.servers); name it as config-file of a"
    assert (len(given.servers), given.left_out) == (1, [f"{said} workload"])
    with pytest.raises(ScenarioError, match="give the files of brokers, too"):
        read([client])
