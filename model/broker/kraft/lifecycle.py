"""BrokerLifecycleManager: the broker's registration and heartbeats, on lane ``heartbeat``.

    STARTING -> RECOVERY (caught up with metadata: the logs are loaded) -> RUNNING (unfenced)
             -> PENDING_CONTROLLED_SHUTDOWN (SIGTERM) -> SHUTTING_DOWN

The broker registers, then sends heartbeats: every 10 ms until it has caught up with the metadata
log, then every broker.heartbeat.interval.ms. Requests that fail back off (``rules.py``). A
heartbeat that is refused for its broker epoch is only retried, so the old process of a node id
that started twice stays a zombie.

Every heartbeat names the log directories that failed (KIP-858). The broker stops when no heartbeat
that names a failed directory is answered within log.dir.failure.timeout.ms.
"""

from __future__ import annotations

from collections.abc import Callable
from enum import Enum
from typing import TYPE_CHECKING, Protocol

from kafkasim.model.channel import Failed
from kafkasim.model.effects import Exit, Post
from kafkasim.model.errors import Errors
from kafkasim.model.facts import BrokerState, HoleEntered
from kafkasim.model.messages import (
    BrokerHeartbeatRequest,
    BrokerHeartbeatResponse,
    BrokerRegistrationRequest,
    BrokerRegistrationResponse,
)

if TYPE_CHECKING:
    from kafkasim.model.broker.common.controller_link import ControllerChannel
    from kafkasim.model.broker.incarnation import Incarnation
    from kafkasim.model.broker.kraft.rules import LifecycleRules
    from kafkasim.model.config import BrokerConfig
    from kafkasim.model.effects import Process

LANE = "heartbeat"
STARTING_INTERVAL_US = 10_000
FIRST_SHUTDOWN_INTERVAL_US = 50_000  # the controller may let an idle broker go as soon as that
CONTROLLED_SHUTDOWN_TIMEOUT_US = 300_000_000
NEXT, REGISTRATION_TIMEOUT, SHUTDOWN_TIMEOUT = "heartbeat", "registration", "controlled-shutdown"

Features = tuple[tuple[str, int, int], ...]  # (name, lowest, highest version)


class LifecycleState(Enum):
    """The states of org.apache.kafka.metadata.BrokerState."""

    NOT_RUNNING = 0
    STARTING = 1
    RECOVERY = 2
    RUNNING = 3
    PENDING_CONTROLLED_SHUTDOWN = 6
    SHUTTING_DOWN = 7


class MetadataProgress(Protocol):
    """How far the broker has come in the metadata log."""

    offset: int  # reported by heartbeats; −1 before anything was applied

    def caught_up(self) -> None:
        """Hear that the controller calls the broker caught up: load the logs."""
        ...


class BrokerLifecycle:
    """Registers one incarnation of a broker and keeps it registered until it stops.

    ``incarnation_id`` is new for every process; ``previous_epoch`` is the broker epoch of a clean
    shutdown, else −1; ``log_dirs`` are the ids of the directories that are online at the start.
    ``stop(now)`` is called once, when the broker may or must stop.
    """

    def __init__(
        self,
        process: Process,
        incarnation: Incarnation,
        config: BrokerConfig,
        link: ControllerChannel,
        metadata: MetadataProgress,
        stop: Callable[[int], None],
        incarnation_id: str,
        previous_epoch: int,
        features: Features,
        log_dirs: tuple[str, ...],
        rules: LifecycleRules,
    ) -> None:
        self.process = process
        self.incarnation = incarnation
        self.config = config
        self.link = link
        self.metadata = metadata
        self.stop = stop
        # What a log directory failure that no controller learns of calls (the broker's shutdown).
        self.shutdown_hook = self.begin_controlled_shutdown
        self.incarnation_id = incarnation_id
        self.previous_epoch = previous_epoch
        self.features = features
        self.log_dirs = log_dirs
        self.rules = rules
        self.state = LifecycleState.NOT_RUNNING
        self.ready_to_unfence = False
        self.fenced: bool | None = None  # in the last heartbeat response; None before the first
        self.failed_attempts = 0  # in a row
        self.awaits_response = False
        self.send_again = False  # something changed while a response was awaited
        self.controller_knows_shutdown = False
        self.offline_dirs: dict[str, bool] = {}  # directory id: whether the controller knows
        self._named_dirs: tuple[str, ...] = ()  # the offline directories in the request in flight

    def start(self, now: int) -> None:
        """Register, then keep the registration alive by heartbeats."""
        self._set_state(LifecycleState.STARTING)
        deadline = now + self.config.initial_broker_registration_timeout_ms * 1000
        timers = self.process.timers
        timers.arm(REGISTRATION_TIMEOUT, deadline, LANE, self._on_registration_timeout)
        self._communicate(now)

    def set_ready_to_unfence(self) -> None:
        """Ask to be unfenced: the logs are loaded and all parts run. Callable on any lane."""
        self.process.out.append(Post(LANE, self._on_ready_to_unfence, None))

    def propagate_directory_failure(self, directory_id: str) -> None:
        """Tell the controller that a log directory failed. Callable on any lane."""
        self.process.out.append(Post(LANE, self._on_directory_failure, directory_id))

    def begin_controlled_shutdown(self, now: int) -> None:
        """Ask the controller to move the leaderships away; stop at once if it cannot be asked."""
        if self.state in (
            LifecycleState.PENDING_CONTROLLED_SHUTDOWN,
            LifecycleState.SHUTTING_DOWN,
        ):
            return
        if self.state is not LifecycleState.RUNNING or not self.config.controlled_shutdown_enable:
            self._shut_down(now)
            return
        self._set_state(LifecycleState.PENDING_CONTROLLED_SHUTDOWN)
        deadline = now + CONTROLLED_SHUTDOWN_TIMEOUT_US
        self.process.timers.arm(SHUTDOWN_TIMEOUT, deadline, LANE, self._shut_down)
        self._schedule(now)

    # ------------------------------------------------------------------------------ lane heartbeat

    def _on_ready_to_unfence(self, _: None, now: int) -> None:
        self.ready_to_unfence = True
        self._schedule(now)

    def _on_directory_failure(self, directory_id: str, now: int) -> None:
        self.offline_dirs[directory_id] = False
        if self.incarnation.registered:
            self._schedule(now)

        def on_timeout(at: int) -> None:
            known = self.offline_dirs[directory_id]
            if not known and self.state is not LifecycleState.SHUTTING_DOWN:
                self.shutdown_hook(at)

        deadline = now + self.config.log_dir_failure_timeout_ms * 1000
        self.process.timers.arm(("offline-dir", directory_id), deadline, LANE, on_timeout)

    def _set_state(self, state: LifecycleState) -> None:
        self.state = state
        self.process.out.append(BrokerState(state.name))

    def _shut_down(self, now: int) -> None:
        self._set_state(LifecycleState.SHUTTING_DOWN)
        for key in (NEXT, REGISTRATION_TIMEOUT, SHUTDOWN_TIMEOUT):
            self.process.timers.cancel(key)
        self.stop(now)

    def _on_registration_timeout(self, now: int) -> None:
        self._set_state(LifecycleState.SHUTTING_DOWN)
        self.process.out.append(Exit("could not register with the controller", False))

    def _schedule(self, at: int) -> None:
        self.process.timers.arm(NEXT, at, LANE, self._communicate)

    def _communicate(self, now: int) -> None:
        """Send the next registration or heartbeat, unless a response is awaited."""
        if self.state is LifecycleState.SHUTTING_DOWN:
            return
        if self.awaits_response:
            self.send_again = True
            return
        self.awaits_response = True
        if self.incarnation.registered:
            self._send_heartbeat(now)
        else:
            self._send_registration(now)

    def _send_registration(self, now: int) -> None:
        broker = self.incarnation
        request = BrokerRegistrationRequest(
            broker.broker_id,
            self.incarnation_id,
            broker.name,
            broker.rack,
            self.previous_epoch,
            self.features,
            self.log_dirs,
        )
        self.link.send(request, now, self._on_registration)

    def _send_heartbeat(self, now: int) -> None:
        request = BrokerHeartbeatRequest(
            self.incarnation.broker_id,
            self.incarnation.epoch,
            self.metadata.offset,
            not self.ready_to_unfence,
            self.state is LifecycleState.PENDING_CONTROLLED_SHUTDOWN,
            tuple(self.offline_dirs),
        )
        self._named_dirs = request.offline_log_dirs
        self.link.send(request, now, self._on_heartbeat)

    def _retry_later(self, now: int) -> None:
        config, draw = self.config, self.process.rng.random()
        session_us = config.broker_session_timeout_ms * 1000
        interval_us = config.broker_heartbeat_interval_ms * 1000
        delay = self.rules.retry_delay_us(self.failed_attempts, draw, session_us, interval_us)
        self.failed_attempts += 1
        self.send_again = False  # scheduleNextCommunicationAfterFailure
        self._schedule(now + delay)

    def _on_registration(self, response: BrokerRegistrationResponse | Failed, now: int) -> None:
        self.awaits_response = False
        if self.state is LifecycleState.SHUTTING_DOWN:
            return
        if isinstance(response, Failed) or response.error is not Errors.NONE:
            if not isinstance(response, Failed) and self.failed_attempts == 0:
                self.process.out.append(BrokerState(response.error.name))
            self._retry_later(now)
            return
        self.failed_attempts = 0
        self.incarnation.epoch = response.broker_epoch
        self.process.timers.cancel(REGISTRATION_TIMEOUT)
        self._schedule(now)

    def _tell_stale(self, response: BrokerHeartbeatResponse | Failed) -> None:
        """Tell of a registration that the broker's own dead predecessor has replaced."""
        stale = not isinstance(response, Failed) and response.error is Errors.STALE_BROKER_EPOCH
        if stale:
            self.process.out.append(HoleEntered("late-registration"))

    def _on_heartbeat(self, response: BrokerHeartbeatResponse | Failed, now: int) -> None:
        self.awaits_response = False
        if self.state is LifecycleState.SHUTTING_DOWN:
            return
        if isinstance(response, Failed) or response.error is not Errors.NONE:
            self._tell_stale(response)
            self._retry_later(now)
            return
        self.failed_attempts = 0
        for directory_id in self._named_dirs:
            self.offline_dirs[directory_id] = True
        if response.is_fenced != self.fenced:
            self.fenced = response.is_fenced
            self.process.out.append(BrokerState("FENCED" if response.is_fenced else "UNFENCED"))
        if self.state is LifecycleState.PENDING_CONTROLLED_SHUTDOWN and response.should_shut_down:
            self._shut_down(now)
            return
        interval_us = self._advance(response)
        again, self.send_again = self.send_again, False
        if again or not self.process.timers.armed(NEXT):
            self._schedule(now if again else now + interval_us)

    def _advance(self, response: BrokerHeartbeatResponse) -> int:
        """Take the next state if it is reached; return the time to the next heartbeat in µs."""
        if self.state is LifecycleState.STARTING:
            if response.is_caught_up:
                self._set_state(LifecycleState.RECOVERY)
                self.metadata.caught_up()
            return STARTING_INTERVAL_US
        if self.state is LifecycleState.RECOVERY and not response.is_fenced:
            self._set_state(LifecycleState.RUNNING)
        elif self.state is LifecycleState.PENDING_CONTROLLED_SHUTDOWN:
            if not self.controller_knows_shutdown:
                self.controller_knows_shutdown = True
                return FIRST_SHUTDOWN_INTERVAL_US
        return self.config.broker_heartbeat_interval_ms * 1000
