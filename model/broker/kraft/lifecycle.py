"""The broker's standing with the controller (BrokerLifecycleManager), on lane ``heartbeat``.

    STARTING -> RECOVERY (caught up with metadata: the logs are loaded) -> RUNNING (unfenced)
             -> PENDING_CONTROLLED_SHUTDOWN (SIGTERM) -> SHUTTING_DOWN

It registers, then heartbeats: every 10 ms until it has caught up, then every
broker.heartbeat.interval.ms. Failures back off from 100 ms up to the session timeout. A heartbeat
with a stale broker epoch is only retried: the old process of a duplicate node id stays a zombie.

Every heartbeat names the log directories that failed (KIP-858). When none that did so has been
answered log.dir.failure.timeout.ms after a failure, the broker stops.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from kafkasim.model.channel import Failed
from kafkasim.model.effects import Exit, Post
from kafkasim.model.errors import Errors
from kafkasim.model.facts import BrokerState
from kafkasim.model.messages import (
    BrokerHeartbeatRequest,
    BrokerHeartbeatResponse,
    BrokerRegistrationRequest,
    BrokerRegistrationResponse,
)

if TYPE_CHECKING:
    from kafkasim.model.broker.kraft.broker import Broker

LANE = "heartbeat"
STARTING_INTERVAL_US = 10_000
FIRST_SHUTDOWN_INTERVAL_US = 50_000  # a controlled shutdown may be over as soon as that
BACKOFF_US = 100_000
CONTROLLED_SHUTDOWN_TIMEOUT_US = 300_000_000
NEXT, REGISTRATION_TIMEOUT, SHUTDOWN_TIMEOUT = "heartbeat", "registration", "controlled-shutdown"


class BrokerLifecycle:
    """Registration, heartbeats, controlled shutdown."""

    def __init__(self, broker: Broker, incarnation_id: str, previous_broker_epoch: int) -> None:
        self.broker = broker
        self.incarnation_id = incarnation_id
        self.previous_broker_epoch = previous_broker_epoch
        self.state = "NOT_RUNNING"
        self.registered = False
        self.ready_to_unfence = False
        self.fenced: bool | None = None  # the controller's last word
        self.failed_attempts = 0
        self.waiting = False  # for an answer
        self.again = False  # there is news to tell as soon as it has come
        self.shutdown_answered = False  # the controller knows that we want to stop
        self.log_dirs: tuple[str, ...] = ()  # ids of those online at the start
        self._told: tuple[str, ...] = ()  # by the heartbeat on its way
        self.offline_dirs: dict[str, bool] = {}  # whether the controller knows

    def start(self, now: int) -> None:
        """Register, and keep the registration alive."""
        config = self.broker.config
        self._set_state("STARTING")
        deadline = now + config.initial_broker_registration_timeout_ms * 1000
        self.broker.timers.arm(REGISTRATION_TIMEOUT, deadline, LANE, self._on_never_registered)
        self._communicate(now)

    def set_ready_to_unfence(self, _: Any, now: int) -> None:
        """The logs are loaded and all parts run: ask to be unfenced."""
        self.ready_to_unfence = True
        self._schedule(now)

    def directory_failed(self, directory_id: str, now: int) -> None:
        """A log directory failed: tell the controller, or stop (propagateDirectoryFailure)."""
        self.offline_dirs[directory_id] = False
        if self.registered:
            self._schedule(now)

        def untold(at: int) -> None:
            if not self.offline_dirs[directory_id] and self.state != "SHUTTING_DOWN":
                self.broker.shutdown(at)

        deadline = now + self.broker.config.log_dir_failure_timeout_ms * 1000
        self.broker.timers.arm(("offline-dir", directory_id), deadline, LANE, untold)

    def begin_controlled_shutdown(self, now: int) -> None:
        """Ask the controller to move leaderships away; without a standing, stop at once."""
        if self.state == "PENDING_CONTROLLED_SHUTDOWN" or self.state == "SHUTTING_DOWN":
            return
        if self.state != "RUNNING" or not self.broker.config.controlled_shutdown_enable:
            self._shut_down(now)
            return
        self._set_state("PENDING_CONTROLLED_SHUTDOWN")
        deadline = now + CONTROLLED_SHUTDOWN_TIMEOUT_US
        self.broker.timers.arm(SHUTDOWN_TIMEOUT, deadline, LANE, self._shut_down)
        self._schedule(now)

    # -------------------------------------------------------------------------------- the inside

    def _set_state(self, state: str) -> None:
        self.state = state
        self.broker.out.append(BrokerState(state))

    def _shut_down(self, now: int) -> None:
        self._set_state("SHUTTING_DOWN")
        for key in (NEXT, REGISTRATION_TIMEOUT, SHUTDOWN_TIMEOUT):
            self.broker.timers.cancel(key)
        self.broker.finish_shutdown(now)

    def _on_never_registered(self, now: int) -> None:
        self._set_state("SHUTTING_DOWN")
        self.broker.out.append(Exit("could not register with the controller", False))

    def _schedule(self, at: int) -> None:
        self.broker.timers.arm(NEXT, at, LANE, self._communicate)

    def _communicate(self, now: int) -> None:
        if self.state == "SHUTTING_DOWN":
            return
        if self.waiting:
            self.again = True
            return
        self.waiting = True
        broker = self.broker
        if not self.registered:
            request: Any = BrokerRegistrationRequest(
                broker.broker_id,
                self.incarnation_id,
                broker.name,
                broker.rack,
                self.previous_broker_epoch,
                broker.features,
                self.log_dirs,
            )
            broker.heartbeat_link.send(request, now, self._on_registration)
            return
        request = BrokerHeartbeatRequest(
            broker.broker_id,
            broker.broker_epoch,
            broker.publisher.offset,
            not self.ready_to_unfence,
            self.state == "PENDING_CONTROLLED_SHUTDOWN",
            tuple(self.offline_dirs),
        )
        self._told = request.offline_log_dirs
        broker.heartbeat_link.send(request, now, self._on_heartbeat)

    def _after_failure(self, now: int) -> None:
        config = self.broker.config
        delay = min(
            BACKOFF_US << min(self.failed_attempts, 20), config.broker_session_timeout_ms * 1000
        )
        self.failed_attempts += 1
        self._schedule(now + int(delay * (0.98 + 0.04 * self.broker.rng.random())))

    def _on_registration(self, answer: BrokerRegistrationResponse | Failed, now: int) -> None:
        self.waiting = False
        if self.state == "SHUTTING_DOWN":
            return
        if isinstance(answer, Failed) or answer.error is not Errors.NONE:
            if not isinstance(answer, Failed) and self.failed_attempts == 0:
                self.broker.out.append(BrokerState(answer.error.name))
            self._after_failure(now)
            return
        self.failed_attempts = 0
        self.registered = True
        self.broker.broker_epoch = answer.broker_epoch
        self.broker.timers.cancel(REGISTRATION_TIMEOUT)
        self._schedule(now)

    def _on_heartbeat(self, answer: BrokerHeartbeatResponse | Failed, now: int) -> None:
        self.waiting = False
        if self.state == "SHUTTING_DOWN":
            return
        if isinstance(answer, Failed) or answer.error is not Errors.NONE:
            self._after_failure(now)
            return
        self.failed_attempts = 0
        for directory_id in self._told:
            self.offline_dirs[directory_id] = True
        if answer.is_fenced != self.fenced:
            self.fenced = answer.is_fenced
            self.broker.out.append(BrokerState("FENCED" if answer.is_fenced else "UNFENCED"))
        interval = self.broker.config.broker_heartbeat_interval_ms * 1000
        if self.state == "STARTING":
            if answer.is_caught_up:
                self._set_state("RECOVERY")
                self.broker.out.append(Post("metadata", self.broker.publisher.recover, None))
            interval = STARTING_INTERVAL_US
        elif self.state == "RECOVERY" and not answer.is_fenced:
            self._set_state("RUNNING")
        elif self.state == "PENDING_CONTROLLED_SHUTDOWN":
            if answer.should_shut_down:
                self._shut_down(now)
                return
            if not self.shutdown_answered:
                self.shutdown_answered = True
                interval = FIRST_SHUTDOWN_INTERVAL_US
        again, self.again = self.again, False
        if again or not self.broker.timers.armed(NEXT):
            self._schedule(now if again else now + interval)
