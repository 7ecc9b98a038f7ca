"""AssignmentsManager (KIP-858): tells the controller in which log directory each replica lies.

Assignments are collected for 100 ms and sent over a link of their own, one request at a time. An
assignment is sent again until the controller has accepted it; whole requests that fail back off up
to 10 s. An assignment of a partition that this broker no longer replicates is dropped. A broker
with one directory sends nothing as long as its disk is the first one.

Left out: the jitter of the backoff, and that more than 2250 assignments are sent at once.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from kafkasim.model.channel import Failed
from kafkasim.model.errors import Errors
from kafkasim.model.messages import AssignReplicasToDirsRequest, AssignReplicasToDirsResponse

if TYPE_CHECKING:
    from kafkasim.model.broker.common.controller_link import ControllerChannel
    from kafkasim.model.broker.incarnation import Incarnation
    from kafkasim.model.controller.common.image import MetadataImage
    from kafkasim.model.timers import Timers

LANE = "directory-assignments"
MAX_ASSIGNMENTS = 2250  # of one request
BACKOFF_US, MAX_BACKOFF_US = 100_000, 10_000_000
SEND = "send-assignments"

Key = tuple[str, int]  # (topic id, partition)


class AssignmentsManager:
    """Sends directory assignments to the controller; ``link`` is on lane ``LANE``."""

    def __init__(
        self,
        timers: Timers,
        incarnation: Incarnation,
        image: MetadataImage,
        link: ControllerChannel,
    ) -> None:
        self.timers = timers
        self.incarnation = incarnation
        self.image = image
        self.link = link
        self.ready: dict[Key, str] = {}  # to be sent: the directory id of each replica
        self.inflight: dict[Key, str] = {}
        self._failures = 0  # of whole requests, in a row

    def assign(self, topic_id: str, partition: int, directory_id: str, now: int) -> None:
        """Tell the controller that a replica lies in a directory (onAssignment)."""
        self.ready[topic_id, partition] = directory_id
        self._schedule(now)

    def _schedule(self, now: int) -> None:
        if not self.timers.armed(SEND):
            delay = min(BACKOFF_US << min(self._failures, 10), MAX_BACKOFF_US)
            self.timers.arm(SEND, now + delay, LANE, self._send)

    def _send(self, now: int) -> None:
        broker_id = self.incarnation.broker_id
        if self.inflight or self.incarnation.stopping:
            return
        for key in list(self.ready)[:MAX_ASSIGNMENTS]:
            directory_id = self.ready.pop(key)
            partition = self.image.partition(*key)
            if partition is not None and broker_id in partition.replicas:
                self.inflight[key] = directory_id
        if self.inflight:
            asked = tuple([(to, *key) for key, to in self.inflight.items()])
            request = AssignReplicasToDirsRequest(broker_id, self.incarnation.epoch, asked)
            self.link.send(request, now, self._on_response)

    def _on_response(self, response: AssignReplicasToDirsResponse | Failed, now: int) -> None:
        sent, self.inflight = self.inflight, {}
        if isinstance(response, Failed) or response.error is not Errors.NONE:
            self._failures += 1
        else:
            self._failures = 0
            for _, topic_id, partition, error in response.directories:
                if error is Errors.NONE:
                    del sent[topic_id, partition]
        for key, directory_id in sent.items():
            self.ready.setdefault(key, directory_id)
        if self.ready:
            self._schedule(now)
