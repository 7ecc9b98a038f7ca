"""Controlled shutdown in ZooKeeper mode (KafkaServer.controlledShutdown), on lane ``shutdown``.

The broker asks the controller, whom it looks up in ZooKeeper, to move its leaderships away, up to
controlled.shutdown.max.retries times with a pause in between; then it stops in any case. That the
controller agreed does not mean that the new leaders know it (B32).
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from kafkasim.model.channel import Channel, Failed
from kafkasim.model.controller.zk.store.zk_data import CONTROLLER, broker_path
from kafkasim.model.errors import Errors
from kafkasim.model.messages import ControlledShutdownRequest
from kafkasim.model.zookeeper.ops import GetData, ZkError, ZkResult

if TYPE_CHECKING:
    from kafkasim.model.broker.zk.broker import ZkBroker

LANE = "shutdown"
SOCKET_TIMEOUT_MS = 30_000
TIMER = "controlled-shutdown"


class ZkControlledShutdown:
    """The attempts of one broker."""

    def __init__(self, broker: ZkBroker) -> None:
        self.broker = broker
        self.left = broker.config.controlled_shutdown_max_retries
        self._channel: Channel | None = None

    def begin(self, _: Any, now: int) -> None:
        """Make the first attempt."""
        self._attempt(now)

    def _attempt(self, now: int) -> None:
        if self.left <= 0:
            self.broker.finish_shutdown(now)
            return
        self.left -= 1
        self.broker.zk.ask((GetData(CONTROLLER),), LANE, self._on_controller)

    def _on_controller(self, results: tuple[ZkResult, ...], now: int) -> None:
        (found,) = results
        if found.error is not ZkError.OK:
            self._failed(now)
            return
        path = broker_path(found.data.broker_id)
        self.broker.zk.ask((GetData(path),), LANE, self._on_address)

    def _on_address(self, results: tuple[ZkResult, ...], now: int) -> None:
        (found,) = results
        if found.error is not ZkError.OK:
            self._failed(now)
            return
        broker = self.broker
        self._channel = Channel(
            broker, found.data.address, "controlled-shutdown", LANE, SOCKET_TIMEOUT_MS
        )
        request = ControlledShutdownRequest(broker.broker_id, broker.broker_epoch)
        self._channel.send(request, now, self._on_answer)

    def _on_answer(self, answer: Any, now: int) -> None:
        if (
            isinstance(answer, Failed)
            or answer.error is not Errors.NONE
            or answer.remaining_partitions
        ):
            self._failed(now)
        else:
            self.broker.finish_shutdown(now)

    def _failed(self, now: int) -> None:
        if self._channel is not None:
            self._channel.close(now)
            self._channel = None
        if self.left <= 0:
            self.broker.finish_shutdown(now)
            return
        pause_us = self.broker.config.controlled_shutdown_retry_backoff_ms * 1000
        self.broker.timers.arm(TIMER, now + pause_us, LANE, self._attempt)
