"""Changes of settings as records (ConfigurationControlManager, IncrementalAlterConfigs).

A resource is changed as a whole or not at all. The checks are in
:mod:`kafkasim.model.controller.common.configs`. With eligible leader replicas on (KIP-966) all
brokers need one min.insync.replicas, the cluster's default, and its changes clear the ELR.
"""

from __future__ import annotations

from typing import Any

from kafkasim.model.config import BrokerConfig
from kafkasim.model.config.base import MAX_INT
from kafkasim.model.controller.common.client_quotas import (
    CONNECTION_RATE,
    FRACTIONS,
    entity_problem,
    entity_text,
    is_of_ip,
)
from kafkasim.model.controller.common.configs import broker_id_of, config_problem
from kafkasim.model.controller.common.image import EVERY_BROKER, MetadataImage
from kafkasim.model.controller.common.records import (
    BrokerConfigRecord,
    ClearElrRecord,
    ClientQuotaRecord,
    ConfigRecord,
    GroupConfigRecord,
)
from kafkasim.model.controller.kraft.rules import ControllerRules
from kafkasim.model.errors import Errors
from kafkasim.model.messages import (
    AlterableConfig,
    AlterClientQuotasRequest,
    AlterClientQuotasResponse,
    IncrementalAlterConfigsRequest,
    IncrementalAlterConfigsResponse,
)
from kafkasim.model.messages.clients.admin import CLIENT_ID, GROUP, IP, TOPIC, USER, QuotaEntity

MIN_ISR = "min.insync.replicas"


def alter_client_quotas(
    request: AlterClientQuotasRequest, image: MetadataImage
) -> tuple[list[Any], AlterClientQuotasResponse]:
    """Return the records that set quotas (ClientQuotaControlManager.alterClientQuotas)."""
    records: list[Any] = []
    messages: dict[QuotaEntity, str] = {}
    for alteration in request.entries:
        entity, rates = alteration.entity, dict(alteration.changes)
        if entity in messages or len(rates) < len(alteration.changes):
            messages[entity] = f"Ignoring duplicate entity {entity_text(entity)}"
            continue
        kinds = (USER, CLIENT_ID, IP)
        messages[entity] = entity_problem(entity, kinds) or _rates_problem(entity, rates)
        if not messages[entity]:
            known = image.client_quotas.get(entity, {})
            records += [
                ClientQuotaRecord(entity, key, rate)
                for key, rate in rates.items()
                if known.get(key) != rate
            ]
    results = [
        (entity, Errors.INVALID_REQUEST if message else Errors.NONE, message)
        for entity, message in messages.items()
    ]
    return records, AlterClientQuotasResponse(Errors.NONE, tuple(results))


def _rates_problem(entity: QuotaEntity, rates: dict[str, float | None]) -> str:
    """Return why these quotas cannot be set, "" if they can (validateQuotaKeyValue).

    Nothing is wrong with the removal of an unknown key.
    """
    fractions = {CONNECTION_RATE: False} if is_of_ip(entity) else FRACTIONS
    for key, rate in rates.items():
        if rate is None:
            continue
        if key not in fractions:
            return f"Invalid configuration key {key}"
        if rate <= 0:
            return f"Quota {key} must be greater than 0"
        if key == CONNECTION_RATE and rate > MAX_INT:
            return f"Proposed value for {key} is too large for an INT."
        if not fractions[key] and rate % 1 > 1e-6:
            return f"{key} cannot be a fractional value."
    return ""


class ConfigurationControlManager:
    """Judges changes of settings; changes nothing itself."""

    def __init__(self, image: MetadataImage, config: BrokerConfig, rules: ControllerRules) -> None:
        self.image = image
        self.config = config
        self.rules = rules

    def alter(
        self, request: IncrementalAlterConfigsRequest
    ) -> tuple[list[Any], IncrementalAlterConfigsResponse]:
        """Return the records of the resources that may change, and a result for each resource."""
        records: list[Any] = []
        results = []
        for resource in request.resources:
            kind, name = resource.resource_type, resource.resource_name
            error, message = self._elr_problem(resource)
            if error is Errors.NONE:
                error, message = config_problem(
                    resource, self.image, self.rules.has_internal_segment_bytes()
                )
            if error is Errors.NONE:
                for key, text in resource.configs:
                    if kind == TOPIC:
                        if self.image.configs.get(name, {}).get(key) != text:
                            records.append(ConfigRecord(name, key, text))
                    elif kind == GROUP:
                        records.append(GroupConfigRecord(name, key, text))
                    else:
                        records.append(BrokerConfigRecord(broker_id_of(name), key, text))
            results.append((kind, name, error, message))
        records += self._clear_elr_records(records)
        return records, IncrementalAlterConfigsResponse(Errors.NONE, tuple(results))

    def elr_safety_records(self) -> list[Any]:
        """Return the records that fix one min.insync.replicas for all brokers when ELR is turned
        on (maybeGenerateElrSafetyRecords)."""
        records: list[Any] = []
        if MIN_ISR not in self.image.broker_configs.get(EVERY_BROKER, {}):
            least = str(self.config.min_insync_replicas)
            records.append(BrokerConfigRecord(EVERY_BROKER, MIN_ISR, least))
        for broker_id, entries in self.image.broker_configs.items():
            if broker_id != EVERY_BROKER and MIN_ISR in entries:
                records.append(BrokerConfigRecord(broker_id, MIN_ISR, None))
        return records

    def _clear_elr_records(self, records: list[Any]) -> list[ClearElrRecord]:
        """Return a record for each change of the minimum (createClearElrRecordsAsNeeded)."""
        if not self.image.elr_enabled or not self.rules.clears_elr():
            return []
        return [
            ClearElrRecord(record.topic if type(record) is ConfigRecord else "")
            for record in records
            if record.name == MIN_ISR
        ]

    def _elr_problem(self, resource: AlterableConfig) -> tuple[Errors, str]:
        """Return the error of a change that ELR forbids (isDisallowedBrokerMinIsrTransition,
        isDisallowedClusterMinIsrTransition)."""
        changes = dict(resource.configs)
        if resource.resource_type == TOPIC or MIN_ISR not in changes or not self.image.elr_enabled:
            return Errors.NONE, ""
        if resource.resource_name:
            message = f"Broker-level {MIN_ISR} cannot be altered while ELR is enabled."
            return Errors.INVALID_CONFIG, message
        if changes[MIN_ISR] is None:
            message = f"Cluster-level {MIN_ISR} cannot be removed while ELR is enabled."
            return Errors.INVALID_CONFIG, message
        return Errors.NONE, ""
