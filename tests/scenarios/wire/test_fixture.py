"""The fixture kafka_cluster: a server in a child process, faults, a verdict, a failed test."""

from __future__ import annotations

import os
import time

import pytest
from kafka import KafkaProducer

from kafkasim.scenarios.wire.failures import SessionError
from kafkasim.scenarios.wire.fixture import KafkaCluster

pytestmark = pytest.mark.slow


def _send(cluster: KafkaCluster, acks: int | str, seconds: float) -> int:
    """Send to partition 0 of ``weak`` for some time; return how many records were acknowledged."""
    idempotent = acks == "all"
    producer = KafkaProducer(
        bootstrap_servers=cluster.bootstrap_servers, acks=acks, enable_idempotence=idempotent,
        client_id="payments", linger_ms=0, request_timeout_ms=5_000, delivery_timeout_ms=60_000,
    )  # fmt: skip
    futures, until = [], time.monotonic() + seconds
    while time.monotonic() < until:
        futures.append(producer.send("weak", b"%d" % len(futures), partition=0))
        time.sleep(0.05)
    producer.flush(60)
    producer.close()
    return sum(each.succeeded() for each in futures)


def _moved(status: object) -> bool:
    assert isinstance(status, dict)
    return bool(status["partitions"]["weak-0"]["leader"] != 1)


def test_a_service_with_acks_1_loses_what_it_was_told_is_written(
    kafka_cluster: KafkaCluster,
) -> None:
    kafka_cluster.start("split-brain", "--set", "cluster.config.broker.session.timeout.ms=3000")
    assert kafka_cluster.status()["partitions"]["weak-0"]["leader"] == 1
    with kafka_cluster.fault("partition", node="broker-1", peers=["servers"], duration="60s"):
        acked = _send(kafka_cluster, 1, 2.0)
        kafka_cluster.wait_for(_moved, 20)
    assert acked > 20
    outcome = kafka_cluster.verdict()
    assert outcome.anomalies == ["lost-write"]
    assert any("acks=1" in line for line in outcome.explain())


def test_the_cluster_is_gone_afterwards(kafka_cluster: KafkaCluster) -> None:
    with pytest.raises(SessionError, match="never started"):
        kafka_cluster.verdict()
    with pytest.raises(SessionError, match="no-such"):
        kafka_cluster.start("no-such")
    assert kafka_cluster._process is None
    assert kafka_cluster.bootstrap_servers.count(",") == 2
    with pytest.raises(SessionError, match="broker-9"):
        kafka_cluster.inject("crash", node="broker-9")
    with pytest.raises(TimeoutError):
        kafka_cluster.wait_for(lambda status: not status["brokers"], 0.2)
    process = kafka_cluster._process
    assert process is not None
    kafka_cluster.stop()
    with pytest.raises(ProcessLookupError):
        os.kill(process.pid, 0)
    assert kafka_cluster.verdict().verdict == "pass"
