"""When each broker was last heard (org.apache.kafka.controller.BrokerHeartbeatManager).

Soft state of the active controller, by its own monotonic clock: a new active controller starts with
every unfenced broker just heard. A session lasts broker.session.timeout.ms from the last contact.
"""

from __future__ import annotations

from kafkasim.model.controller.common.image import MetadataImage

NEVER = 2**63 - 1


class BrokerHeartbeatState:
    """What is known of one registered broker."""

    __slots__ = ("controlled_shutdown_offset", "fenced", "last_contact_us", "metadata_offset")

    def __init__(self, fenced: bool, now: int) -> None:
        self.fenced = fenced
        self.last_contact_us = now
        self.metadata_offset = -1
        # Offset of the change that moved its leaderships; −1: not in controlled shutdown.
        self.controlled_shutdown_offset = -1


class BrokerHeartbeatManager:
    """Contacts, sessions and metadata offsets of the registered brokers."""

    __slots__ = ("_brokers", "session_timeout_us")

    def __init__(self, session_timeout_us: int, image: MetadataImage, now: int) -> None:
        self.session_timeout_us = session_timeout_us
        self._brokers = {
            broker.id: BrokerHeartbeatState(broker.fenced, now) for broker in image.brokers.values()
        }

    def register(self, broker_id: int, fenced: bool, now: int) -> None:
        """Start anew with a broker that registered."""
        self._brokers[broker_id] = BrokerHeartbeatState(fenced, now)

    def touch(self, broker_id: int, fenced: bool, metadata_offset: int, now: int) -> None:
        """Take note of a heartbeat."""
        broker = self._brokers[broker_id]
        broker.last_contact_us = now
        broker.metadata_offset = metadata_offset
        broker.fenced = fenced
        if fenced:
            broker.controlled_shutdown_offset = -1

    def fence(self, broker_id: int) -> None:
        """Take note that a broker was fenced, for whatever reason."""
        broker = self._brokers[broker_id]
        broker.fenced = True
        broker.controlled_shutdown_offset = -1

    def remove(self, broker_id: int) -> None:
        """Forget a broker that was unregistered."""
        self._brokers.pop(broker_id, None)

    def has_valid_session(self, broker_id: int, now: int) -> bool:
        """Return whether the broker is unfenced and was heard within its session."""
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
        """Return when the next session ends; None if every broker is fenced."""
        contacts = [each.last_contact_us for each in self._brokers.values() if not each.fenced]
        return min(contacts) + self.session_timeout_us if contacts else None

    # Controlled shutdown.

    def shutdown_offset(self, broker_id: int) -> int:
        """Return the offset of a broker's shutdown record, −1 if this controller wrote none."""
        return self._brokers[broker_id].controlled_shutdown_offset

    def start_shutdown(self, broker_id: int, offset: int) -> None:
        """Remember the end of the batch that moved the broker's leaderships; the first one counts."""
        broker = self._brokers[broker_id]
        if broker.controlled_shutdown_offset < 0:
            broker.controlled_shutdown_offset = offset

    def lowest_active_offset(self, image: MetadataImage) -> int:
        """Return the lowest metadata offset that an active broker has reported."""
        offsets = [
            self._brokers[broker_id].metadata_offset
            for broker_id in image.brokers
            if image.is_active(broker_id)
        ]
        return min(offsets, default=NEVER)
