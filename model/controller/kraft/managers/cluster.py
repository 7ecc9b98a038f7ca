"""Broker registrations (org.apache.kafka.controller.ClusterControlManager).

Decides whether a registration is accepted and returns its record. What else a new incarnation
causes (its predecessor leaves ISRs) is in ``replication.py``. Left out: listeners, controller
registrations.
"""

from __future__ import annotations

from kafkasim.model.controller.common.image import MetadataImage
from kafkasim.model.controller.common.placement import UsableBroker
from kafkasim.model.controller.common.records import RegisterBrokerRecord
from kafkasim.model.controller.kraft.feature_levels import unsupported
from kafkasim.model.controller.kraft.managers.heartbeats import BrokerHeartbeatManager
from kafkasim.model.directories import MIGRATING, RESERVED, UNASSIGNED, named
from kafkasim.model.errors import Errors
from kafkasim.model.messages import CLUSTER_ID, BrokerRegistrationRequest


class ClusterControlManager:
    """Judges registrations against the active controller's image; changes nothing itself."""

    def __init__(self, image: MetadataImage, heartbeats: BrokerHeartbeatManager) -> None:
        self.image = image
        self.heartbeats = heartbeats

    def check_broker_epoch(self, broker_id: int, broker_epoch: int) -> Errors:
        """Return STALE_BROKER_EPOCH if ``broker_epoch`` is not the registered one, else NONE."""
        broker = self.image.brokers.get(broker_id)
        if broker is None or broker.epoch != broker_epoch:
            return Errors.STALE_BROKER_EPOCH
        return Errors.NONE

    def registration_error(self, request: BrokerRegistrationRequest, now: int) -> Errors:
        """Return why a registration is refused, NONE if it is accepted.

        INCONSISTENT_CLUSTER_ID: the broker's directories are formatted for another cluster.
        DUPLICATE_BROKER_REGISTRATION: the session of another incarnation is valid.
        INVALID_REGISTRATION: the log directories are not the broker's own. UNSUPPORTED_VERSION: the
        broker does not support a finalized feature level.
        """
        if request.cluster_id != CLUSTER_ID:
            return Errors.INCONSISTENT_CLUSTER_ID
        previous = self.image.brokers.get(request.broker_id)
        if (
            previous is not None
            and previous.incarnation_id != request.incarnation_id
            and self.heartbeats.has_valid_session(previous.id, previous.epoch, now)
        ):
            return Errors.DUPLICATE_BROKER_REGISTRATION
        if request.log_dirs and not self._may_have(request.broker_id, request.log_dirs):
            return Errors.INVALID_REGISTRATION
        finalized = self.image.features
        if request.features and unsupported(request.features, finalized) is not None:
            return Errors.UNSUPPORTED_VERSION
        return Errors.NONE

    def _may_have(self, broker_id: int, directories: tuple[str, ...]) -> bool:
        """Return whether the directories are distinct, not reserved, and not another broker's."""
        known = [each for other in self.image.brokers.values() if other.id != broker_id
                 for each in other.directories]  # fmt: skip
        distinct = len(dict.fromkeys(directories)) == len(directories)
        return distinct and not any(each in known or each in RESERVED for each in directories)

    def default_directory(self, broker_id: int) -> str:
        """Return the log directory of a new replica on a broker (defaultDir).

        It is the broker's only directory, UNASSIGNED if the broker is to choose one of several, or
        MIGRATING if the broker has reported none.
        """
        broker = self.image.brokers.get(broker_id)
        if broker is None:
            return UNASSIGNED
        directories = broker.directories
        if not directories:
            return MIGRATING
        return directories[0] if len(directories) == 1 else UNASSIGNED

    def directories(self, replicas: tuple[int, ...]) -> tuple[str, ...]:
        """Return the directories of new replicas; () if no broker has reported its directories."""
        return named([self.default_directory(replica) for replica in replicas])

    def unregistration_error(self, broker_id: int) -> Errors:
        """Return BROKER_ID_NOT_REGISTERED if the broker is not registered, else NONE."""
        known = broker_id in self.image.brokers
        return Errors.NONE if known else Errors.BROKER_ID_NOT_REGISTERED

    def registration(self, request: BrokerRegistrationRequest) -> RegisterBrokerRecord:
        """Return the record of a registration.

        A new incarnation starts fenced; one that registers again keeps its epoch and state.
        """
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
