"""``make clients``: run the suites of other people's clients against ``kafkasim serve``.

``python -m tests.clients [SUITE …] [--test NAME …] [--out DIR]`` runs the suites by name, by
default all. The exit code is 0 if each test has the result that is expected of it: it passes, or
``expected.toml`` has a reason why it does not. A suite whose tools are missing here is one line,
and no failure; with ``--strict`` it is one.
"""

from __future__ import annotations

import argparse
import random
import signal
import sys
import tempfile
import threading
import time
import tomllib
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import Any, NamedTuple

from kafkasim.scenarios.wire.failures import SessionError
from kafkasim.scenarios.wire.fixture import KafkaCluster
from tests.clients.getting import Missing
from tests.clients.suites import SUITES, Place, Results, Suite

FAULT_EVERY_S = 6.0
FAULTS: tuple[tuple[str, dict[str, Any]], ...] = (
    ("crash", {}),
    ("gc-pause", {}),
    ("partition", {"peers": ["servers"]}),
    ("isolate", {}),
)
"""What --faults draws from: Fault kinds with their keys."""

EXPECTED = Path(__file__).with_name("expected.toml")


class Judged(NamedTuple):
    """What became of a suite: counts, and lines about what is not expected."""

    passed: int
    failed: int
    skipped: int
    remarks: list[str]


def judged(results: Results, expected: Mapping[str, Any]) -> Judged:
    """Compare results with what is expected of a suite.

    ``fails`` names the tests that fail, and ``varies`` those that sometimes do, with the reasons.
    """
    fails, varies = expected.get("fails", {}), expected.get("varies", {})
    remarks = []
    for name, outcome in results.items():
        if outcome == "fail" and name not in fails and name not in varies:
            remarks.append(f"fails: {name}")
        elif outcome == "pass" and name in fails:
            remarks.append(f"passes, and is listed: {name}")
    counts = [sum(each == kind for each in results.values()) for kind in ("pass", "fail", "skip")]
    return Judged(*counts, remarks)


@contextmanager
def _within(seconds: int) -> Iterator[None]:
    def late(*_: object) -> None:
        raise TimeoutError

    before = signal.signal(signal.SIGALRM, late)
    signal.alarm(seconds)
    try:
        yield
    finally:
        signal.alarm(0)
        signal.signal(signal.SIGALRM, before)


def _key(setting: str) -> str:
    return f"cluster.{setting}" if setting.startswith("brokers=") else f"cluster.config.{setting}"


@contextmanager
def _faults(cluster: KafkaCluster, seed: int | None) -> Iterator[None]:
    """Break a broker or its links every FAULT_EVERY_S while the block runs.

    The kinds and the brokers are drawn by the seed; None breaks nothing.
    """
    ends = threading.Event()
    draw = random.Random(seed)

    def run() -> None:
        while not ends.wait(FAULT_EVERY_S):
            kind, keys = draw.choice(FAULTS)
            node = f"broker-{draw.randint(1, 3)}"
            cluster.inject(kind, node=node, duration=f"{draw.uniform(1, 4):.1f}s", **keys)

    thread = threading.Thread(target=run)
    if seed is not None:
        thread.start()
    try:
        yield
    finally:
        ends.set()
        if seed is not None:
            thread.join()


def run_suite(
    suite: Suite, directory: Path, tests: tuple[str, ...], seed: int | None = None
) -> Results:
    """Serve a cluster to a suite, and return its results; with a seed under random faults.

    Raises:
        Missing: a tool or the suite is missing here.
        TimeoutError: it did not end in time.
        SessionError: the server does not start.
    """
    directory.mkdir(parents=True, exist_ok=True)
    cluster = KafkaCluster(directory)
    settings = [word for each in suite.settings for word in ("--set", _key(each))]
    try:
        with _within(suite.within_s + 120):
            cluster.start("", *settings, "--for", f"{suite.within_s + 240}s")
            with _faults(cluster, seed):
                return suite.run(Place(cluster.bootstrap_servers, directory, tests))
    finally:
        cluster.stop()


def main(arguments: list[str]) -> int:
    """Run suites, print a line for each; return the exit code."""
    signal.signal(signal.SIGTERM, lambda *_: sys.exit(143))  # so that suite and server end, too
    options = _options(arguments)
    expected = tomllib.loads(EXPECTED.read_text())
    code = 0
    for name in options.suites or SUITES:
        suite, began = SUITES[name], time.monotonic()
        directory = options.out / name
        try:
            results = run_suite(suite, directory, tuple(options.test), options.faults)
        except Missing as missing:
            print(f"{name}: left out: {missing}", flush=True)
            code = max(code, int(options.strict))
            continue
        except (TimeoutError, SessionError) as error:
            print(f"{name}: {error or 'did not end in time'}; see {directory}", flush=True)
            code = 1
            continue
        found = judged(results, expected.get(name, {}))
        code = max(code, int(bool(found.remarks) or not results))
        print(
            f"{name}: {suite.client} {suite.version}: {found.passed} pass, {found.failed} fail,"
            f" {found.skipped} skipped, {time.monotonic() - began:.0f} s; output in {directory}",
            *found.remarks, sep="\n  ", flush=True,
        )  # fmt: skip
    return code


def _options(arguments: list[str]) -> argparse.Namespace:
    parser = argparse.ArgumentParser(
        prog="python -m tests.clients",
        description="Run the suites of Kafka clients against kafkasim serve.",
    )
    parser.add_argument(
        "suites", nargs="*", metavar="SUITE", help=f"by default all: {', '.join(SUITES)}"
    )
    parser.add_argument(
        "--test", action="append", default=[], help="only this test, as the suite names it"
    )
    parser.add_argument(
        "--out", type=Path, help="where output, journal and report of each suite go"
    )
    parser.add_argument(
        "--faults", type=int, metavar="SEED", help="break a broker or its links every few seconds"
    )
    parser.add_argument("--strict", action="store_true", help="a suite that is left out fails")
    options = parser.parse_args(arguments)
    for name in options.suites:
        if name not in SUITES:
            parser.error(f"no suite {name!r}; allowed: {', '.join(SUITES)}")
    if options.out is None:
        options.out = Path(tempfile.mkdtemp(prefix="kafkasim-clients-"))
    return options


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
