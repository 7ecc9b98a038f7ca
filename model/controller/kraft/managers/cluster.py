"""Broker registrations (org.apache.kafka.controller.ClusterControlManager).

Says whether a registration is accepted and which records it takes; the rest of what a new
incarnation causes (leaving ISRs) is :mod:`kafkasim.model.controller.kraft.managers.replication`'s. Left out: cluster id,
feature ranges, listeners, controller registrations.
"""

from __future__ import annotations

from kafkasim.model.controller.common.image import MetadataImage
from kafkasim.model.controller.common.placement import UsableBroker
from kafkasim.model.controller.common.records import RegisterBrokerRecord
from kafkasim.model.controller.kraft.managers.features import unsupported
from kafkasim.model.controller.kraft.managers.heartbeats import BrokerHeartbeatManager
from kafkasim.model.directories import MIGRATING, RESERVED, UNASSIGNED, named
from kafkasim.model.errors import Errors
from kafkasim.model.messages import BrokerRegistrationRequest


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
        if request.log_dirs and not self._may_have(request.broker_id, request.log_dirs):
            return Errors.INVALID_REGISTRATION
        finalized = self.image.features
        if request.features and unsupported(request.features, finalized) is not None:
            return Errors.UNSUPPORTED_VERSION
        return Errors.NONE

    def _may_have(self, broker_id: int, directories: tuple[str, ...]) -> bool:
        """Return whether these directories are real, distinct, and nobody else's."""
        known = [each for other in self.image.brokers.values() if other.id != broker_id
                 for each in other.directories]  # fmt: skip
        distinct = len(dict.fromkeys(directories)) == len(directories)
        return distinct and not any(each in known or each in RESERVED for each in directories)

    def default_directory(self, broker_id: int) -> str:
        """Return where a new replica on a broker lies, as far as the controller can say
        (defaultDir): in its only directory, or the broker is to choose."""
        broker = self.image.brokers.get(broker_id)
        if broker is None:
            return UNASSIGNED
        directories = broker.directories
        if not directories:
            return MIGRATING
        return directories[0] if len(directories) == 1 else UNASSIGNED

    def directories(self, replicas: tuple[int, ...]) -> tuple[str, ...]:
        """Return the directories of new replicas; () if none of their brokers has told any."""
        return named([self.default_directory(replica) for replica in replicas])

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
                request.log_dirs,
            )
        return RegisterBrokerRecord(
            request.broker_id, request.incarnation_id, request.address, request.rack,
            features=request.features, log_dirs=request.log_dirs,
        )  # fmt: skip

    def usable_brokers(self) -> list[UsableBroker]:
        """Return the brokers that new replicas may be placed on, in the order of their ids."""
        brokers = self.image.brokers
        return [
            UsableBroker(broker_id, brokers[broker_id].rack, brokers[broker_id].fenced)
            for broker_id in sorted(brokers)
            if not brokers[broker_id].in_controlled_shutdown
        ]
