"""Controlled shutdown in ZooKeeper mode (KafkaServer.controlledShutdown), on lane ``shutdown``.

The broker looks up the controller in ZooKeeper and asks it to move the broker's leaderships away.
It tries controlled.shutdown.max.retries times, controlled.shutdown.retry.backoff.ms apart, and then
stops whether or not the controller agreed. A controller that agreed has elected new leaders, but
those need not know it yet (B32).
"""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, Any

from kafkasim.model.channel import Channel, Failed
from kafkasim.model.controller.zk.store.zk_data import CONTROLLER, broker_path
from kafkasim.model.effects import Post
from kafkasim.model.errors import Errors
from kafkasim.model.messages import ControlledShutdownRequest
from kafkasim.model.zookeeper.ops import GetData, ZkError, ZkResult

if TYPE_CHECKING:
    from kafkasim.model.broker.incarnation import Incarnation
    from kafkasim.model.config import BrokerConfig
    from kafkasim.model.controller.zk.store.client import KafkaZkClient
    from kafkasim.model.effects import Process

LANE = "shutdown"
SOCKET_TIMEOUT_MS = 30_000
TIMER = "controlled-shutdown"


class ZkControlledShutdown:
    """One broker's attempts; ``finished(now)`` is called after the last one."""

    def __init__(
        self,
        process: Process,
        incarnation: Incarnation,
        config: BrokerConfig,
        zk: KafkaZkClient,
        finished: Callable[[int], None],
    ) -> None:
        self.process = process
        self.incarnation = incarnation
        self.config = config
        self.zk = zk
        self.finished = finished
        asks = incarnation.registered and config.controlled_shutdown_enable
        self.attempts_left = config.controlled_shutdown_max_retries if asks else 0
        self._channel: Channel | None = None

    def begin(self) -> None:
        """Make the first attempt. Callable on any lane."""
        self.process.out.append(Post(LANE, self._begin, None))

    def _begin(self, _: None, now: int) -> None:
        self._attempt(now)

    def _attempt(self, now: int) -> None:
        if self.attempts_left <= 0:
            self.finished(now)
            return
        self.attempts_left -= 1
        self.zk.ask((GetData(CONTROLLER),), LANE, self._on_controller)

    def _on_controller(self, results: tuple[ZkResult, ...], now: int) -> None:
        (found,) = results
        if found.error is not ZkError.OK:
            self._failed(now)
            return
        path = broker_path(found.data.broker_id)
        self.zk.ask((GetData(path),), LANE, self._on_address)

    def _on_address(self, results: tuple[ZkResult, ...], now: int) -> None:
        (found,) = results
        if found.error is not ZkError.OK:
            self._failed(now)
            return
        self._channel = Channel(
            self.process, found.data.address, "controlled-shutdown", LANE, SOCKET_TIMEOUT_MS
        )
        request = ControlledShutdownRequest(self.incarnation.broker_id, self.incarnation.epoch)
        self._channel.send(request, now, self._on_response)

    def _on_response(self, response: Any, now: int) -> None:
        if (
            isinstance(response, Failed)
            or response.error is not Errors.NONE
            or response.remaining_partitions
        ):
            self._failed(now)
        else:
            self.finished(now)

    def _failed(self, now: int) -> None:
        if self._channel is not None:
            self._channel.close(now)
            self._channel = None
        if self.attempts_left <= 0:
            self.finished(now)
            return
        pause_us = self.config.controlled_shutdown_retry_backoff_ms * 1000
        self.process.timers.arm(TIMER, now + pause_us, LANE, self._attempt)
