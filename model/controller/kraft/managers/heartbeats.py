"""Sessions of brokers and their progress in the metadata log (BrokerHeartbeatManager, -Tracker).

A session lasts broker.session.timeout.ms from the last heartbeat, by the active controller's
monotonic clock. It is soft state: a new active controller begins a session for every registered
broker, that of Kafka 4.1 for the unfenced ones (ControllerRules.begins_sessions_of_fenced_brokers).

A session belongs to a broker id and a broker epoch, and not to the broker's state: a broker that
was fenced by its controlled shutdown has a valid session until it has been silent for the whole
timeout. Until then another incarnation is refused, and then the controller fences it once more. A
registration alone begins no session; its first heartbeat does.

Kafka 3.9 has no BrokerHeartbeatTracker (ControllerRules.tracks_fenced_brokers): the session of a
broker ends when it is fenced.
"""

from __future__ import annotations

from kafkasim.model.controller.common.image import MetadataImage
from kafkasim.model.controller.kraft.rules import ControllerRules

NEVER = 2**63 - 1
CHECKS_PER_SESSION = 8  # QuorumController.maybeFenceStaleBrokerPeriodNs
MIN_CHECK_PERIOD_US = 1000
CHECK_AGAIN_US = 10_000  # after a task that is to run again (PeriodicTaskControlManager)


class BrokerHeartbeatState:
    """The progress of one registered broker."""

    __slots__ = ("controlled_shutdown_offset", "metadata_offset")

    def __init__(self) -> None:
        self.metadata_offset = -1
        # The offset of the change that moved its leaderships, −1 if it is not shutting down.
        self.controlled_shutdown_offset = -1


class BrokerHeartbeatManager:
    """Sessions and metadata offsets of the registered brokers.

    ``tracks_fenced``: a fenced broker has a session too, as in Kafka 4.0.
    """

    __slots__ = ("_brokers", "_contacts", "rules", "session_timeout_us", "tracks_fenced")

    def __init__(
        self, session_timeout_us: int, image: MetadataImage, rules: ControllerRules, now: int
    ) -> None:
        self.session_timeout_us = session_timeout_us
        self.rules = rules
        self.tracks_fenced = rules.tracks_fenced_brokers()
        begins_all = self.tracks_fenced and rules.begins_sessions_of_fenced_brokers()
        self._brokers = {broker.id: BrokerHeartbeatState() for broker in image.brokers.values()}
        # (broker id, broker epoch) to the time of the last heartbeat, in µs.
        self._contacts = {
            (broker.id, broker.epoch): now
            for broker in image.brokers.values()
            if begins_all or not broker.fenced
        }

    def register(self, broker_id: int, epoch: int, fenced: bool, now: int) -> None:
        """Note that a broker registered."""
        self._brokers[broker_id] = BrokerHeartbeatState()
        if not self.tracks_fenced:
            self._end_sessions(broker_id)
            if not fenced:
                self._contacts[broker_id, epoch] = now

    def track(self, broker_id: int, epoch: int, now: int) -> None:
        """Begin or extend the session of an incarnation, which may be unknown or outdated
        (ClusterControlManager.trackBrokerHeartbeat)."""
        if self.tracks_fenced:
            self._contacts[broker_id, epoch] = now

    def touch(
        self, broker_id: int, epoch: int, fenced: bool, metadata_offset: int, now: int
    ) -> None:
        """Note what a heartbeat said, and whether the broker is fenced after it.

        ``metadata_offset`` is the last offset that the broker has replayed. −1 if the heartbeat
        changed the registration: the replay of that record forgets the offset until the next
        heartbeat (ClusterControlManager.replayRegistrationChange calls register).
        """
        self._brokers[broker_id].metadata_offset = metadata_offset
        if fenced:
            self.fence(broker_id)
        elif not self.tracks_fenced:
            self._contacts[broker_id, epoch] = now

    def fence(self, broker_id: int) -> None:
        """Note that the controller fenced a broker."""
        self._brokers[broker_id].controlled_shutdown_offset = -1
        if not self.tracks_fenced:
            self._end_sessions(broker_id)

    def remove(self, broker_id: int) -> None:
        """Forget a broker that was unregistered."""
        self._brokers.pop(broker_id, None)
        if not self.tracks_fenced:
            self._end_sessions(broker_id)

    def has_valid_session(self, broker_id: int, epoch: int, now: int) -> bool:
        """Return whether the session of an incarnation has begun and not ended."""
        contact = self._contacts.get((broker_id, epoch))
        return contact is not None and not self._has_ended(contact, now)

    def remove_expired(self, now: int) -> tuple[int, int, int] | None:
        """Drop the session that ended first; return its broker id, broker epoch and silence in µs.

        None if no session has ended (BrokerHeartbeatTracker.maybeRemoveExpired).
        """
        expired = min(self._contacts, key=self._contacts.__getitem__, default=None)
        if expired is None or not self._has_ended(self._contacts[expired], now):
            return None
        return *expired, now - self._contacts.pop(expired)

    def next_check_us(self, now: int, again: bool) -> int | None:
        """Return when sessions are checked next, in microseconds; None if there is none to check.

        ``again``: the check that ends at ``now`` found a stale broker. Kafka 4.0 checks
        periodically, Kafka 3.9 when the first session ends.
        """
        if self.tracks_fenced:
            period = self.session_timeout_us // CHECKS_PER_SESSION
            return now + (CHECK_AGAIN_US if again else max(period, MIN_CHECK_PERIOD_US))
        contacts = self._contacts.values()
        return min(contacts) + self.session_timeout_us if contacts else None

    def _has_ended(self, contact: int, now: int) -> bool:
        return self.rules.session_has_ended(now - contact, self.session_timeout_us)

    def _end_sessions(self, broker_id: int) -> None:
        for key in [each for each in self._contacts if each[0] == broker_id]:
            del self._contacts[key]

    # Controlled shutdown.

    def shutdown_offset(self, broker_id: int) -> int:
        """Return the offset of the change that moved a broker's leaderships, −1 if this controller
        made none."""
        return self._brokers[broker_id].controlled_shutdown_offset

    def start_shutdown(self, broker_id: int, offset: int) -> None:
        """Note ``offset``, the end of the change that moved the broker's leaderships.

        Only the first change of a shutdown counts.
        """
        broker = self._brokers[broker_id]
        if broker.controlled_shutdown_offset < 0:
            broker.controlled_shutdown_offset = offset

    def lowest_active_offset(self, image: MetadataImage) -> int:
        """Return the lowest metadata offset that an active broker has reported, or NEVER.

        Active is who is not fenced and whose shutdown this controller has not begun; a shutdown
        that another controller began counts from the broker's next heartbeat on.
        """
        offsets = [
            state.metadata_offset
            for broker_id, state in self._brokers.items()
            if state.controlled_shutdown_offset < 0 and not image.brokers[broker_id].fenced
        ]
        return min(offsets, default=NEVER)
