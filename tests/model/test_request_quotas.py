"""request_percentage: the time of a client's requests, and how long it waits (KIP-124)."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any

from kafkasim.model.broker.common.request_quotas import ClientRequestQuotaManager, ThrottledApis
from kafkasim.model.controller.common.client_quotas import Quotas
from kafkasim.model.effects import Peer, Request
from kafkasim.model.facts import Throttled
from kafkasim.model.messages import ListGroupsRequest, MetadataRequest, WriteTxnMarkersRequest
from kafkasim.model.messages.clients.admin import CLIENT_ID
from kafkasim.scenarios.language.spec import parse
from kafkasim.scenarios.running.runner import run

QUOTA: Quotas = {((CLIENT_ID, "noisy"),): {"request_percentage": 1.0}}


def process(service_us: int) -> Any:
    return SimpleNamespace(
        out=[], throttles={}, peer_of=lambda _connection: Peer("User:ANONYMOUS", "h", "noisy"),
        service_us=lambda _message: service_us,
    )  # fmt: skip


def test_the_time_above_the_quota_is_waited_for_but_for_a_window_at_most() -> None:
    """1 % of a thread is 100 ms in ten windows; another 1 ms is 1 % more, so 100 ms to wait."""
    for served_us, waits_ms in ((1_000, 0), (101_000, 100), (400_000, 1000)):
        broker = process(served_us)
        quota = ClientRequestQuotaManager(broker, SimpleNamespace(client_quotas=QUOTA, offset=7))
        item = Request(-1, 1, MetadataRequest(None), 0)
        assert quota.record(item, 0) == waits_ms
        told = Throttled("noisy", "Metadata", waits_ms, "ANONYMOUS", "request_percentage", "1", 7)
        assert broker.out == [told] * bool(waits_ms)


def test_what_brokers_send_is_exempt() -> None:
    broker, served = process(400_000), []
    quota = ClientRequestQuotaManager(broker, SimpleNamespace(client_quotas=QUOTA, offset=7))
    apis: Any = SimpleNamespace(handle=lambda item, _now: served.append(item.correlation))
    gate = ThrottledApis(broker, apis, quota)
    gate.handle(Request(-1, 1, WriteTxnMarkersRequest(()), 0), 0)
    gate.handle(Request(-1, 2, ListGroupsRequest((), ()), 0), 0)
    assert (served, list(broker.throttles)) == ([1, 2], [(-1, 2)])


def test_a_client_above_its_request_percentage_waits_and_nothing_is_lost() -> None:
    scenario = {
        "name": "noisy", "claim": "Who takes the threads waits.", "duration": "8s",
        "cluster": {"brokers": 1, "controllers": 1,
                    "config": {"offsets.topic.replication.factor": 1}},
        "topics": [{"name": "orders"}],
        "workload": [
            {"kind": "producer", "rate": "300/s", "value-size": 100, "config": {"linger.ms": 0}},
            {"kind": "consumer-group", "group": "readers", "topics": ["orders"]},
        ],
        "operations": [{"kind": "alter-client-quotas", "at": "0s", "client-id": "<default>",
                        "config": {"request_percentage": 0.2}}],
    }  # fmt: skip
    result = run(parse(scenario, "noisy"), 1)
    assert result.verdict == "pass"
    assert "throttled:producer-1" in result.observations
