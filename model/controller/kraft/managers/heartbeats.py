"""The sessions of brokers (org.apache.kafka.controller.BrokerHeartbeatManager).

A session lasts broker.session.timeout.ms from the broker's last heartbeat, by the active
controller's monotonic clock. It is soft state: a new active controller begins with a new session
for every unfenced broker.
"""

from __future__ import annotations

from kafkasim.model.controller.common.image import MetadataImage

NEVER = 2**63 - 1


class BrokerHeartbeatState:
    """The session of one registered broker, and its progress in the metadata log."""

    __slots__ = ("controlled_shutdown_offset", "fenced", "last_contact_us", "metadata_offset")

    def __init__(self, fenced: bool, now: int) -> None:
        self.fenced = fenced
        self.last_contact_us = now
        self.metadata_offset = -1
        # The offset of the change that moved its leaderships, −1 if it is not shutting down.
        self.controlled_shutdown_offset = -1


class BrokerHeartbeatManager:
    """Sessions and metadata offsets of the registered brokers."""

    __slots__ = ("_brokers", "session_timeout_us")

    def __init__(self, session_timeout_us: int, image: MetadataImage, now: int) -> None:
        self.session_timeout_us = session_timeout_us
        self._brokers = {
            broker.id: BrokerHeartbeatState(broker.fenced, now) for broker in image.brokers.values()
        }

    def register(self, broker_id: int, fenced: bool, now: int) -> None:
        """Begin the session of a broker that registered."""
        self._brokers[broker_id] = BrokerHeartbeatState(fenced, now)

    def touch(self, broker_id: int, fenced: bool, metadata_offset: int, now: int) -> None:
        """Extend a broker's session by a heartbeat, which leaves it fenced or not.

        ``metadata_offset`` is the last offset that the broker has replayed.
        """
        broker = self._brokers[broker_id]
        broker.last_contact_us = now
        broker.metadata_offset = metadata_offset
        broker.fenced = fenced
        if fenced:
            broker.controlled_shutdown_offset = -1

    def fence(self, broker_id: int) -> None:
        """Note that the controller fenced a broker."""
        broker = self._brokers[broker_id]
        broker.fenced = True
        broker.controlled_shutdown_offset = -1

    def remove(self, broker_id: int) -> None:
        """Forget a broker that was unregistered."""
        self._brokers.pop(broker_id, None)

    def has_valid_session(self, broker_id: int, now: int) -> bool:
        """Return whether the broker is unfenced and its session has not ended."""
        broker = self._brokers.get(broker_id)
        return (
            broker is not None
            and not broker.fenced
            and now < broker.last_contact_us + self.session_timeout_us
        )

    def stale_broker(self, now: int) -> int | None:
        """Return the unfenced broker whose session ended first, if one has ended."""
        stale, first = None, now
        for broker_id, broker in self._brokers.items():
            deadline = broker.last_contact_us + self.session_timeout_us
            if not broker.fenced and (deadline < first or (deadline == first and stale is None)):
                stale, first = broker_id, deadline
        return stale

    def next_check_us(self) -> int | None:
        """Return when the next session ends, in microseconds; None if every broker is fenced."""
        contacts = [each.last_contact_us for each in self._brokers.values() if not each.fenced]
        return min(contacts) + self.session_timeout_us if contacts else None

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
        """Return the lowest metadata offset that an active broker has reported, or NEVER."""
        offsets = [
            self._brokers[broker_id].metadata_offset
            for broker_id in image.brokers
            if image.is_active(broker_id)
        ]
        return min(offsets, default=NEVER)
