"""The idempotent producer against a broker that checks sequences and fails at random: every
acknowledged record is in the log exactly once, in the order of the sends (KIP-98)."""

from __future__ import annotations

import random

import pytest

from kafkasim.model.client.producer.producer import producer_config
from kafkasim.model.errors import NONE, Errors
from kafkasim.model.facts import Acked, SendFailed
from kafkasim.model.messages import ProducePartitionResponse, ProduceRequest, ProduceResponse
from tests.model.client_harness import Cluster, Harness


class SequencedLog:
    """One partition with the producer check of ProducerAppendInfo, refusing at random."""

    def __init__(self, rng: random.Random) -> None:
        self.rng = rng
        self.values: list[int] = []
        self.epoch = 0
        self.last_sequence = -1
        self.recent: dict[tuple[int, int], int] = {}
        self.calm = False

    def __call__(self, node: str, message: ProduceRequest) -> ProduceResponse | None:
        (part,) = message.partitions
        dice = 1.0 if self.calm else self.rng.random()
        if dice < 0.15:
            return self._answer(part.tp, Errors.NOT_ENOUGH_REPLICAS, -1)
        error, base = self._append(part.batch)
        if dice < 0.3:
            return None  # appended, the answer never comes
        if dice < 0.4:
            error = Errors.NOT_ENOUGH_REPLICAS_AFTER_APPEND
        return self._answer(part.tp, error, base)

    def _answer(self, tp: object, error: Errors, base: int) -> ProduceResponse:
        return ProduceResponse((ProducePartitionResponse(tp, error, base, -1, 0),))  # type: ignore[arg-type]

    def _append(self, batch: object) -> tuple[Errors, int]:
        key = (batch.producer_epoch, batch.base_sequence)  # type: ignore[attr-defined]
        if key in self.recent:
            return NONE, self.recent[key]
        if key[0] > self.epoch:
            self.epoch, self.last_sequence = key[0], -1
        if key[0] < self.epoch:
            return Errors.INVALID_PRODUCER_EPOCH, -1
        if key[1] != self.last_sequence + 1:
            return Errors.OUT_OF_ORDER_SEQUENCE_NUMBER, -1
        base = len(self.values)
        self.values += [r.value for r in batch.records]  # type: ignore[attr-defined]
        self.last_sequence = key[1] + len(batch.records) - 1  # type: ignore[attr-defined]
        self.recent[key] = base
        return NONE, base


@pytest.mark.parametrize("seed", range(6))
def test_acked_once_and_in_order(seed: int) -> None:
    rng = random.Random(seed)
    cluster = Cluster(brokers=1)
    log = SequencedLog(rng)
    cluster.handlers[ProduceRequest] = log
    properties = {"linger.ms": 0, "request.timeout.ms": 200, "delivery.timeout.ms": 120_000}
    h = Harness(producer_config(properties), cluster)
    for i in range(60):
        h.call("send", "t", None, i, 10, 0, False)
        h.run(rng.randrange(12))
        if rng.random() < 0.1:
            h.reset("broker-0")
    log.calm = True
    h.run(30_000)
    acked = [i for a in h.of(Acked) for i in a.record_ids]
    assert h.of(SendFailed) == []
    assert sorted(acked) == list(range(60))
    assert log.values == list(range(60))
