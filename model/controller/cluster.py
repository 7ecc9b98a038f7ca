"""Broker registrations (org.apache.kafka.controller.ClusterControlManager).

Says whether a registration is accepted and which records it takes; the rest of what a new
incarnation causes (leaving ISRs) is :mod:`model.controller.replication`'s. Left out: cluster id,
feature ranges, listeners, log directories, controller registrations.
"""

from __future__ import annotations

from model.controller.features import unsupported
from model.controller.heartbeats import BrokerHeartbeatManager
from model.controller.image import MetadataImage
from model.controller.placement import UsableBroker
from model.controller.records import RegisterBrokerRecord
from model.errors import Errors
from model.messages import BrokerRegistrationRequest


class ClusterControlManager:
    """The registered brokers of the active controller's image."""

    def __init__(self, image: MetadataImage, heartbeats: BrokerHeartbeatManager) -> None:
        self.image = image
        self.heartbeats = heartbeats

    def check_broker_epoch(self, broker_id: int, broker_epoch: int) -> Errors:
        """Return STALE_BROKER_EPOCH unless the request comes from the registered incarnation."""
        broker = self.image.brokers.get(broker_id)
        if broker is None or broker.epoch != broker_epoch:
            return Errors.STALE_BROKER_EPOCH
        return Errors.NONE

    def may_register(self, request: BrokerRegistrationRequest, now: int) -> Errors:
        """Refuse a second incarnation while the session of the first is valid, and a release that
        does not support what is finalized."""
        previous = self.image.brokers.get(request.broker_id)
        if (
            previous is not None
            and previous.incarnation_id != request.incarnation_id
            and self.heartbeats.has_valid_session(request.broker_id, now)
        ):
            return Errors.DUPLICATE_BROKER_REGISTRATION
        finalized = self.image.features
        if request.features and unsupported(request.features, finalized) is not None:
            return Errors.UNSUPPORTED_VERSION
        return Errors.NONE

    def may_unregister(self, broker_id: int) -> Errors:
        """Refuse to unregister who is not registered."""
        known = broker_id in self.image.brokers
        return Errors.NONE if known else Errors.BROKER_ID_NOT_REGISTERED

    def registration(self, request: BrokerRegistrationRequest) -> RegisterBrokerRecord:
        """Return the record: fenced for a new incarnation, as it was for a repeated request."""
        previous = self.image.brokers.get(request.broker_id)
        if previous is not None and previous.incarnation_id == request.incarnation_id:
            return RegisterBrokerRecord(
                request.broker_id,
                request.incarnation_id,
                request.address,
                request.rack,
                previous.fenced,
                previous.in_controlled_shutdown,
                previous.epoch,
                request.features,
            )
        return RegisterBrokerRecord(
            request.broker_id, request.incarnation_id, request.address, request.rack,
            features=request.features,
        )  # fmt: skip

    def usable_brokers(self) -> list[UsableBroker]:
        """Return the brokers that new replicas may be placed on, in the order of their ids."""
        brokers = self.image.brokers
        return [
            UsableBroker(broker_id, brokers[broker_id].rack, brokers[broker_id].fenced)
            for broker_id in sorted(brokers)
            if not brokers[broker_id].in_controlled_shutdown
        ]
