"""A pytest plugin: the fixture ``kafka`` runs scenarios, ``--kafkasim-seed`` chooses the seed.

    def test_acks_all_survives_a_crash(kafka):
        outcome = kafka.run("my.toml")
        assert outcome.verdict == "pass", kafka.why(outcome)

The fixture ``kafka_cluster`` serves a cluster to real clients, in any language:

    def test_no_payment_is_lost(kafka_cluster):
        service = start_my_service(kafka_cluster.bootstrap_servers)
        with kafka_cluster.fault("gc-pause", node="broker-1", duration="15s"):
            service.pay(100)
        assert kafka_cluster.verdict().anomalies == []

pytest loads the plugin by itself where kafkasim is installed. A failed test shows the seed, the
anomalies and the command that runs it again for each run that it made.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest

import kafkasim

if TYPE_CHECKING:
    from kafkasim.scenarios.wire.fixture import KafkaCluster

SEED = "--kafkasim-seed"


class Kafka:
    """Runs scenarios for one test, all with the seed of the command line."""

    def __init__(self, seed: int, directory: Path) -> None:
        self.seed = seed
        self.directory = directory
        self.outcomes: list[kafkasim.Outcome] = []

    def run(
        self,
        scenario: str | Path | Mapping[str, Any],
        *,
        seed: int | None = None,
        settings: Mapping[str, Any] | None = None,
        twin: bool = False,
        variants: Sequence[str] = (),
    ) -> kafkasim.Outcome:
        """Run a scenario (a name, a file or a mapping) and return its outcome.

        The arguments are those of :func:`kafkasim.run`; the trace stays until the test session is
        over. ``seed`` goes before the seed of the command line.

        Raises:
            ScenarioError: the scenario, a setting or a variant is not right.
        """
        outcome = kafkasim.run(
            scenario,
            seed=self.seed if seed is None else seed,
            settings=settings,
            twin=twin,
            variants=variants,
            directory=self.directory / f"run-{len(self.outcomes)}",
        )
        self.outcomes.append(outcome)
        return outcome

    def why(self, outcome: kafkasim.Outcome) -> str:
        """Return what led to the anomalies of a run, as ``kafkasim explain`` prints it."""
        return "\n".join(outcome.explain())


def pytest_addoption(parser: pytest.Parser) -> None:
    """Add the options of kafkasim."""
    group = parser.getgroup("kafkasim", "simulated Apache Kafka")
    group.addoption(
        SEED, type=int, default=1, metavar="N", help="the seed of the fixture `kafka` (default: 1)"
    )


@pytest.fixture
def kafka(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> Kafka:
    """Run scenarios on a simulated Kafka: ``kafka.run(scenario)``."""
    runner = Kafka(request.config.getoption(SEED), tmp_path_factory.mktemp("kafkasim"))
    request.node.stash[_RUNNER] = runner
    return runner


@pytest.fixture
def kafka_cluster(
    request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory
) -> Iterator[KafkaCluster]:
    """Serve a simulated cluster to real clients: ``kafka_cluster.bootstrap_servers``."""
    from kafkasim.scenarios.wire.fixture import KafkaCluster

    cluster = KafkaCluster(tmp_path_factory.mktemp("kafkasim"))
    request.node.stash[_CLUSTER] = cluster
    yield cluster
    cluster.stop()


_RUNNER = pytest.StashKey[Kafka]()
_CLUSTER: pytest.StashKey[KafkaCluster] = pytest.StashKey()


@pytest.hookimpl(wrapper=True)
def pytest_runtest_makereport(item: pytest.Item) -> Any:
    """Add to the report of a failed test which runs it made."""
    report = yield
    runner = item.stash.get(_RUNNER, None)
    if report.when == "call" and report.failed and runner is not None and runner.outcomes:
        lines = []
        for outcome in runner.outcomes:
            result = outcome.result
            found = ", ".join(outcome.anomalies) or "nothing"
            lines.append(f"{result.scenario}, seed {result.seed}: {outcome.verdict} ({found})")
            lines.append(f"  kafkasim replay {outcome.directory}")
            lines.append(f"  kafkasim explain {outcome.directory}")
        report.sections.append(("kafkasim", "\n".join(lines)))
    cluster = item.stash.get(_CLUSTER, None)
    if report.when == "call" and report.failed and cluster is not None and cluster.journal.exists():
        text = f"the session is in {cluster.journal}\n  {cluster.replay_command}"
        report.sections.append(("kafkasim", text))
    return report
