"""A server.properties is read into a scenario; what it cannot mean is said."""

from dataclasses import fields
from pathlib import Path

import pytest

from kafkasim.model.config import BrokerConfig
from kafkasim.scenarios.language import library
from kafkasim.scenarios.language.files.kafka_defaults import UNMODELLED_DEFAULTS
from kafkasim.scenarios.language.files.properties import BOTH_ROLES
from kafkasim.scenarios.language.spec import ScenarioError
from kafkasim.scenarios.running.runner import run
from tests.fidelity.kafka_settings import VERSIONS, committed

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


def test_a_setting_without_effect_is_ignored_in_a_file(tmp_path: Path) -> None:
    place = write(tmp_path, "group.share.assignors=simple\n")
    notes: list[str] = []
    scenario, _ = library.scenario(place, notes=notes)
    assert scenario.cluster.config == {"num.io.threads": 4}
    assert notes == [f"{tmp_path}/server.properties: ignored: group.share.assignors"]


def test_what_is_not_modelled_is_refused_unless_allowed(tmp_path: Path) -> None:
    place = write(tmp_path, "compression.lz4.level=12\n")
    with pytest.raises(ScenarioError, match=r"compression\.lz4\.level: is not modelled") as refused:
        library.scenario(place)
    assert "--allow-unmodelled" in str(refused.value)
    notes: list[str] = []
    library.scenario(place, allow_unmodelled=True, notes=notes)
    assert notes == [f"{tmp_path}/server.properties: ignored: compression.lz4.level"]


def test_a_scenario_allows_what_is_not_modelled_for_every_command(tmp_path: Path) -> None:
    place = Path(write(tmp_path, "compression.lz4.level=12\n"))
    allowing = "[cluster]\nallow-unmodelled = true"
    place.write_text(place.read_text().replace("[cluster]", allowing))
    notes: list[str] = []
    library.scenario(str(place), notes=notes)
    assert notes == [f"{tmp_path}/server.properties: ignored: compression.lz4.level"]


def test_what_is_not_modelled_may_have_kafkas_default(tmp_path: Path) -> None:
    notes: list[str] = []
    library.scenario(write(tmp_path, "compression.lz4.level=9\n"), notes=notes)
    assert notes == []


def test_the_defaults_of_what_is_not_modelled_are_those_of_every_release() -> None:
    releases = [committed(version) for version in VERSIONS]
    assert {
        key: {release["broker", key].default for release in releases if ("broker", key) in release}
        for key in UNMODELLED_DEFAULTS
    } == {key: {default} for key, default in UNMODELLED_DEFAULTS.items()}
    modelled = {field.name.replace("_", ".") for field in fields(BrokerConfig)}
    assert [key for key in UNMODELLED_DEFAULTS if key in modelled] == []


def test_a_file_is_read_as_java_reads_it(tmp_path: Path) -> None:
    place = write(
        tmp_path,
        "listener.name.internal.scram-sha-512.sasl.jaas.config=ScramLoginModule required \\\n"
        '   username="admin" \\\n   password="secret";\n'
        "# a comment does not go on \\\nreplica.lag.time.max.ms: 3000\n"
        "min.insync.replicas 2\nlog.dirs=/data/1,\\\n  /data\\u002f2\n",
    )
    notes: list[str] = []
    scenario, _ = library.scenario(place, notes=notes)
    assert scenario.cluster.config == {
        "replica.lag.time.max.ms": "3000", "min.insync.replicas": "2",
        "log.dirs": "/data/1,/data/2", "num.io.threads": 4,
    }  # fmt: skip
    jaas = "listener.name.internal.scram-sha-512.sasl.jaas.config"
    assert notes == [f"{tmp_path}/server.properties: ignored: {jaas}"]


def test_a_node_with_both_roles_is_told_where_its_controller_runs(tmp_path: Path) -> None:
    place = write(tmp_path, "process.roles=broker, controller\n")
    notes: list[str] = []
    library.scenario(place, notes=notes)
    path = f"{tmp_path}/server.properties"
    assert notes == [f"{path}: ignored: process.roles", f"{path}: {BOTH_ROLES}"]


def test_all_that_is_not_modelled_is_named_at_once_and_security_is_not(tmp_path: Path) -> None:
    place = write(
        tmp_path,
        "compression.lz4.level=12\nsuper.users=User:admin\nallow.everyone.if.no.acl.found=false\n"
        "compression.gzip.level=9\n",
    )
    with pytest.raises(
        ScenarioError,
        match=r"compression\.lz4\.level, compression\.gzip\.level: are not modelled; remove them",
    ):
        library.scenario(place)


@pytest.mark.parametrize(
    ("file", "shape"),
    [
        (
            "process.roles=broker,controller\nnode.id=1\ncontroller.quorum.voters=1@a:9093",
            (1, 1, 1),
        ),
        ("process.roles=broker\ncontroller.quorum.voters=7@a:9093", (3, 1, 0)),
        ("process.roles=controller\ncontroller.quorum.voters=1@a:1,2@b:1,3@c:1", (3, 3, 0)),
    ],
)
def test_a_cluster_has_the_voters_of_its_file(
    tmp_path: Path, file: str, shape: tuple[int, int, int]
) -> None:
    cluster = library.scenario(write(tmp_path, file))[0].cluster
    assert (cluster.brokers, cluster.controllers, cluster.combined) == shape


def test_a_file_with_zookeeper_is_zookeeper_mode_unless_the_scenario_says_otherwise(
    tmp_path: Path,
) -> None:
    place = write(tmp_path, "broker.id=1\nzookeeper.connect=z1:2181,z2:2181,z3:2181/kafka\n")
    notes: list[str] = []
    cluster = library.scenario(place, notes=notes)[0].cluster
    assert (cluster.mode, cluster.kafka_version, cluster.zookeepers) == ("zookeeper", "3.9", 3)
    assert notes[1].endswith("server.properties: as it says: mode = zookeeper, zookeepers = 3")
    other = (
        Path(place)
        .read_text()
        .replace("[cluster]", '[cluster]\nmode = "zookeeper"\nzookeepers = 5')
    )
    Path(place).write_text(other)
    assert library.scenario(place)[0].cluster.zookeepers == 5


def test_keys_of_other_programs_are_told_apart_from_typos(tmp_path: Path) -> None:
    notes: list[str] = []
    place = write(tmp_path, "log4j.rootLogger=INFO\nrest.port=8083\ncruise.control.metrics=x\n")
    library.scenario(place, notes=notes)
    names = "log4j.rootLogger, rest.port, cruise.control.metrics"
    assert notes == [f"{tmp_path}/server.properties: ignored: {names}"]
    with pytest.raises(ScenarioError, match=r"num\.io\.thread: unknown key; did you mean num\.io"):
        library.scenario(write(tmp_path, "num.io.thread=8\n"))


CLIENT = """
name = "with-client"
claim = "A client's file counts."
duration = "1s"
[[topics]]
name = "orders"
[[workload]]
kind = "producer"
config-file = "producer.properties"
config = { "linger.ms" = 7 }
[[workload]]
kind = "consumer-group"
config-file = "consumer.properties"
"""


def test_files_of_clients_are_given_whole(tmp_path: Path) -> None:
    (tmp_path / "producer.properties").write_text(
        "bootstrap.servers=kafka:9092\nsecurity.protocol=SSL\nssl.keystore.password=x\n"
        "acks=all\nlinger.ms=20\ntransactional.id=bookings\nvalue.serializer=a.B\n"
    )
    (tmp_path / "consumer.properties").write_text(
        "group.id=billing\nauto.offset.reset=earliest\nsasl.jaas.config=x\n"
    )
    (tmp_path / "mine.toml").write_text(CLIENT)
    notes: list[str] = []
    sent, read = library.scenario(str(tmp_path / "mine.toml"), notes=notes)[0].workload
    assert (sent.kind, sent.config) == ("producer", {"acks": "all", "linger.ms": 7})
    assert sent.kind == "producer"
    assert sent.transactional_id == "bookings"
    assert read.kind == "consumer-group"
    assert (read.group, read.config) == ("billing", {"auto.offset.reset": "earliest"})
    ignored = "bootstrap.servers, security.protocol, ssl.keystore.password, value.serializer"
    assert notes == [
        f"{tmp_path}/producer.properties: ignored: {ignored}",
        f"{tmp_path}/producer.properties: as it says: transactional-id = bookings",
        f"{tmp_path}/consumer.properties: ignored: sasl.jaas.config",
        f"{tmp_path}/consumer.properties: as it says: group = billing",
    ]


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


COMMON = """
num.network.threads=3
num.io.threads=8
socket.send.buffer.bytes=102400
socket.receive.buffer.bytes=102400
socket.request.max.bytes=104857600
num.partitions=1
num.recovery.threads.per.data.dir=1
offsets.topic.replication.factor=1
transaction.state.log.replication.factor=1
transaction.state.log.min.isr=1
log.retention.hours=168
log.retention.check.interval.ms=300000
"""
ZOOKEEPER = """
broker.id=0
log.dirs=/tmp/kafka-logs
zookeeper.connect=localhost:2181
zookeeper.connection.timeout.ms=18000
group.initial.rebalance.delay.ms=0
"""
KRAFT = """
log.segment.bytes=1073741824
controller.listener.names=CONTROLLER
"""
SHARES = """
share.coordinator.state.topic.replication.factor=1
share.coordinator.state.topic.min.isr=1
"""
LISTENERS = """
inter.broker.listener.name=PLAINTEXT
listener.security.protocol.map=CONTROLLER:PLAINTEXT,PLAINTEXT:PLAINTEXT,SSL:SSL,SASL_SSL:SASL_SSL
"""
STATIC = "controller.quorum.voters=1@localhost:9093"
DYNAMIC = "controller.quorum.bootstrap.servers=localhost:9093"
COMBINED = """
process.roles=broker,controller
node.id=1
listeners=PLAINTEXT://:9092,CONTROLLER://:9093
advertised.listeners=PLAINTEXT://localhost:9092,CONTROLLER://localhost:9093
log.dirs=/tmp/kraft-combined-logs
"""
BROKER = """
process.roles=broker
node.id=2
listeners=PLAINTEXT://localhost:9092
advertised.listeners=PLAINTEXT://localhost:9092
log.dirs=/tmp/kraft-broker-logs
"""
CONTROLLER = """
process.roles=controller
node.id=1
listeners=CONTROLLER://:9093
advertised.listeners=CONTROLLER://localhost:9093
log.dirs=/tmp/kraft-controller-logs
"""
TOGETHER, APART = "controllers = 1\ncombined = 1", "controllers = 1"
STOCK = {
    "3.9 zookeeper": (COMMON + ZOOKEEPER, 'mode = "zookeeper"'),
    "3.9 combined": (COMMON + KRAFT + LISTENERS + COMBINED + STATIC, TOGETHER),
    "3.9 broker": (COMMON + KRAFT + LISTENERS + BROKER + DYNAMIC, APART),
    "3.9 controller": (COMMON + KRAFT + CONTROLLER + DYNAMIC, APART),
    "4.0 combined": (COMMON + KRAFT + SHARES + LISTENERS + COMBINED + DYNAMIC, TOGETHER),
    "4.0 broker": (COMMON + KRAFT + SHARES + LISTENERS + BROKER + DYNAMIC, APART),
    "4.0 controller": (COMMON + KRAFT + SHARES + CONTROLLER + DYNAMIC, APART),
}
"""What the files in Kafka's config directory set, and a cluster with such a server.

The map of listeners to protocols is shorter than Kafka's.
"""


@pytest.mark.parametrize("file", STOCK)
def test_kafkas_stock_files_run_as_they_are(tmp_path: Path, file: str) -> None:
    properties, cluster = STOCK[file]
    release = f'kafka-version = "{file.split()[0]}"'
    place = write(tmp_path, properties)
    text = Path(place).read_text()
    text = text.replace('config = { "num.io.threads" = 4 }', f"{release}\n{cluster}")
    Path(place).write_text(text)
    notes: list[str] = []
    scenario, _ = library.scenario(place, notes=notes)
    assert "num.recovery.threads.per.data.dir" in notes[0]
    assert "log.retention.hours" not in notes[0]
    assert scenario.cluster.config["log.retention.ms"] == "604800000"
    assert run(scenario, 1).verdict == "pass"


@pytest.mark.parametrize(
    ("text", "taken"),
    [
        ("log.retention.hours=2\nlog.roll.hours=3", ("7200000", "10800000")),
        ("log.retention.hours=2\nlog.retention.minutes=5", ("300000", None)),
        ("log.retention.minutes=5\nlog.retention.ms=7", ("7", None)),
        ("log.retention.hours=-1", ("-1", None)),
    ],
)
def test_the_finest_unit_of_a_retention_counts(
    tmp_path: Path, text: str, taken: tuple[str | None, str | None]
) -> None:
    """KafkaConfig.logRetentionTimeMillis and logRollTimeMillis."""
    scenario, _ = library.scenario(write(tmp_path, text))
    config = scenario.cluster.config
    assert (config.get("log.retention.ms"), config.get("log.roll.ms")) == taken


@pytest.mark.parametrize("text", ["log.retention.hours=a day", "log.retention.hours=-2"])
def test_a_retention_that_cannot_be_is_refused(tmp_path: Path, text: str) -> None:
    with pytest.raises(ScenarioError, match=r"log\.retention"):
        library.scenario(write(tmp_path, text))
