"""AssignmentsManager (KIP-858): tells the controller in which log directory each replica lies.

Assignments are gathered for a while, sent by a link of their own, one request at a time, and sent
again until the controller has answered each without an error. What is no replica of this broker any
more is dropped. A broker with one directory has nothing to tell.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from kafkasim.model.broker.common.controller_link import ControllerLink
from kafkasim.model.channel import Failed
from kafkasim.model.errors import Errors
from kafkasim.model.messages import AssignReplicasToDirsRequest, AssignReplicasToDirsResponse

if TYPE_CHECKING:
    from kafkasim.model.broker.kraft.broker import Broker

LANE = "directory-assignments"
MAX_ASSIGNMENTS = 2250  # of one request
BACKOFF_US, MAX_BACKOFF_US = 100_000, 10_000_000
SEND = "send-assignments"

Key = tuple[str, int]  # (topic id, partition)


class AssignmentsManager:
    """What is to be told (``ready``), and what is on its way."""

    def __init__(self, broker: Broker, voters: dict[int, str]) -> None:
        self.broker = broker
        timeout_ms = broker.config.request_timeout_ms
        self._link = ControllerLink(broker, broker.raft, voters, LANE, timeout_ms, 60_000)
        self.ready: dict[Key, str] = {}
        self.inflight: dict[Key, str] = {}
        self._failures = 0  # of whole requests, in a row

    def assign(self, topic_id: str, partition: int, directory_id: str, now: int) -> None:
        """Let the controller know that a replica lies in a directory (onAssignment)."""
        key = (topic_id, partition)
        if self.inflight.get(key) != directory_id:
            self.ready[key] = directory_id
            self._schedule(now)

    def _schedule(self, now: int) -> None:
        timers = self.broker.timers
        if not timers.armed(SEND):
            delay = min(BACKOFF_US << min(self._failures, 10), MAX_BACKOFF_US)
            timers.arm(SEND, now + delay, LANE, self._send)

    def _send(self, now: int) -> None:
        broker, image = self.broker, self.broker.publisher.image
        if self.inflight or broker.stopping:
            return
        for key in list(self.ready)[:MAX_ASSIGNMENTS]:
            directory_id = self.ready.pop(key)
            partition = image.partition(*key)
            if partition is not None and broker.broker_id in partition.replicas:
                self.inflight[key] = directory_id
        if self.inflight:
            asked = tuple([(to, *key) for key, to in self.inflight.items()])
            request = AssignReplicasToDirsRequest(broker.broker_id, broker.broker_epoch, asked)
            self._link.send(request, now, self._on_answer)

    def _on_answer(self, answer: AssignReplicasToDirsResponse | Failed, now: int) -> None:
        sent, self.inflight = self.inflight, {}
        if isinstance(answer, Failed) or answer.error is not Errors.NONE:
            self._failures += 1
        else:
            self._failures = 0
            for _, topic_id, partition, error in answer.directories:
                if error is Errors.NONE:
                    del sent[topic_id, partition]
        for key, directory_id in sent.items():
            self.ready.setdefault(key, directory_id)
        if self.ready:
            self._schedule(now)
