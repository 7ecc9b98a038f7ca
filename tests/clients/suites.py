"""The suites: what each needs, how it is started, and how its report is read.

A suite is a client's own tests, unmodified, at a pinned version. It meets a server of its own. Its
results are by test; the tests of pytest and of Go are read from their reports, those of Kafka's
tools (``kafka_tools.py``) are our own.
"""

from __future__ import annotations

import json
import os
import signal
import subprocess
import xml.etree.ElementTree as ElementTree
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Literal, NamedTuple

from tests.clients import getting
from tests.clients.kafka_tools import run_tools

HERE = Path(__file__).parent
TEST_WITHIN_S = 150

Outcome = Literal["pass", "fail", "skip"]
Results = dict[str, Outcome]


class Place(NamedTuple):
    """Where a suite runs: the servers, and a directory for its output and its report."""

    servers: str
    directory: Path
    chosen: tuple[str, ...] = ()  # only these tests; all if there are none


class Suite(NamedTuple):
    """One client's tests. ``settings`` are the cluster's properties, and ``brokers``."""

    client: str
    version: str
    settings: tuple[str, ...]
    within_s: int
    run: Callable[[Place], Results]


def _pytest(
    place: Place, root: Path, tests: Sequence[str], environment: Mapping[str, str],
    *options: str,
) -> Results:  # fmt: skip
    """Run tests of pytest below a directory; a test that takes TEST_WITHIN_S has failed."""
    report = place.directory / "report.xml"
    report.unlink(missing_ok=True)
    command = [
        str(getting.python()), "-m", "pytest", "-p", "no:cacheprovider", f"--junitxml={report}",
        f"--timeout={TEST_WITHIN_S}", "--timeout-method=signal", "-o", "junit_family=xunit1",
        "-o", "asyncio_default_fixture_loop_scope=function", *options,
        *(place.chosen or tests),
    ]  # fmt: skip
    extra = {"PYTHONPATH": "", "PYTHONDONTWRITEBYTECODE": "1", **environment}
    _run(command, root, place, extra)
    if not report.exists():
        raise getting.Missing(f"pytest wrote no report; see {place.directory / 'output.txt'}")
    found: Results = {}
    for case in ElementTree.parse(report).iter("testcase"):
        name = f"{case.get('classname', '')}::{case.get('name', '')}"
        kinds = {child.tag for child in case}
        bad = bool(kinds & {"failure", "error"})
        found[name] = "fail" if bad else "skip" if "skipped" in kinds else "pass"
    return found


def _run(command: list[str], root: Path, place: Place, environment: Mapping[str, str]) -> None:
    """Run a suite in a process group of its own, which ends with it."""
    with (place.directory / "output.txt").open("w") as output:
        process = subprocess.Popen(
            command, cwd=root, stdin=subprocess.DEVNULL, stdout=output, stderr=output,
            env={**os.environ, **environment}, start_new_session=True,
        )  # fmt: skip
        try:
            process.wait()
        finally:
            if process.poll() is None:
                os.killpg(process.pid, signal.SIGKILL)
                process.wait()


def _kafka_python(place: Place) -> Results:
    root = getting.checkout("kafka-python", "3.0.11", "https://github.com/dpkp/kafka-python")
    first = place.servers.partition(",")[0]
    tests = [f"test/integration/test_{each}_integration.py" for each in ("admin", "consumer")]
    return _pytest(
        place, root, [*tests, "test/integration/test_producer_integration.py"],
        {
            "KAFKA_URI": f"kafka://{first}", "KAFKA_VERSION": "4.1.0",
            "KAFKA_ROOT": str(place.directory),  # must be a directory; no server starts from it
        },
    )  # fmt: skip


def _aiokafka(place: Place) -> Results:
    root = getting.checkout(
        "aiokafka", "v0.14.0", "https://github.com/aio-libs/aiokafka", without="aiokafka"
    )
    files = [
        "client", "consumer", "coordinator", "fetcher", "producer", "pep492", "sender", "admin",
        "conn", "transactional_consumer", "transactional_producer", "message_accumulator",
    ]  # fmt: skip
    return _pytest(
        place, root, [f"tests/test_{each}.py" for each in files],
        {"PYTHONPATH": str(HERE), "KAFKASIM_SERVERS": place.servers},
        "-p", "aiokafka_plugin", "--docker-image", "kafka:4.1.0", "--no-pull",
    )  # fmt: skip


def _confluent(place: Place) -> Results:
    root = getting.checkout(
        "confluent-kafka", "v2.15.0", "https://github.com/confluentinc/confluent-kafka-python"
    )
    folders = ["admin", "consumer", "producer", "share_consumer", "serialization"]
    return _pytest(
        place, root, [f"tests/integration/{each}" for each in folders],
        {"BROKERS": place.servers},
    )  # fmt: skip


def _franz_go(place: Place) -> Results:
    tests, root = getting.go_test("github.com/twmb/franz-go", "1.22.3", "pkg/kgo")
    command = ["go", "tool", "test2json", "-p", "kgo", str(tests), "-test.v=test2json"]
    command += [f"-test.timeout={SUITES['franz-go'].within_s}s"]
    if place.chosen:
        command += ["-test.run", f"^({'|'.join(place.chosen)})$"]
    environment = {"KGO_SEEDS": place.servers, "KGO_TEST_RF": "3", "KGO_TEST_RECORDS": "500"}
    _run(command, root, place, environment)
    found: Results = {}
    for line in (place.directory / "output.txt").read_text().splitlines():
        row = json.loads(line) if line.startswith("{") else {}
        if row.get("Action") in ("pass", "fail", "skip") and "Test" in row:
            found[row["Test"]] = row["Action"]
    return found


def _tools(place: Place) -> Results:
    return run_tools(getting.kafka_jars("4.1.0"), place.servers, place.directory, place.chosen)


AUTHORIZER = (
    "authorizer.class.name=org.apache.kafka.metadata.authorizer.StandardAuthorizer",
    "allow.everyone.if.no.acl.found=true",
)
ONE_BROKER = (
    "brokers=1", "default.replication.factor=1", "min.insync.replicas=1",
    "offsets.topic.replication.factor=1", "transaction.state.log.replication.factor=1",
    "transaction.state.log.min.isr=1", "share.coordinator.state.topic.replication.factor=1",
    "share.coordinator.state.topic.min.isr=1",
)  # fmt: skip


def _known_bugs(place: Place) -> Results:
    """Run programs that show bugs of clients; a bug that is gone is a failure."""
    found: Results = {}
    for script in (HERE / "aiokafka_stale_leader.py",):
        if place.chosen and script.stem not in place.chosen:
            continue
        with (place.directory / "output.txt").open("a") as output:
            command = [str(getting.python()), str(script), place.servers]
            done = subprocess.run(
                command, stdout=output, stderr=output, timeout=TEST_WITHIN_S,
                env={**os.environ, "PYTHONPATH": ""},
            )  # fmt: skip
        found[script.stem] = "fail" if done.returncode else "pass"
    return found


SUITES = {
    "kafka-python": Suite(
        "kafka-python", "3.0.11",
        ("group.min.session.timeout.ms=1000", "num.partitions=4", *AUTHORIZER),
        600, _kafka_python,
    ),
    "aiokafka": Suite("aiokafka", "0.14.0", (*ONE_BROKER, "num.partitions=2"), 1200, _aiokafka),
    "confluent-kafka": Suite(
        "librdkafka 2.16.1, confluent-kafka-python", "2.15.0",
        (
            "group.share.record.lock.duration.ms=1000",
            "group.share.min.record.lock.duration.ms=1000", "min.insync.replicas=1", *AUTHORIZER,
        ), 1200, _confluent,
    ),
    "franz-go": Suite("franz-go kgo", "1.22.3", (), 1500, _franz_go),
    "known-bugs": Suite(
        "bugs of clients", "that kafkasim shows", ("broker.session.timeout.ms=3000",), 300,
        _known_bugs,
    ),
    "kafka-tools": Suite("Kafka's command-line tools", "4.1.0", (), 600, _tools),
}  # fmt: skip
"""By name, in the order in which they run."""
