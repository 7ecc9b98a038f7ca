"""Changes of settings as records (ConfigurationControlManager, IncrementalAlterConfigs).

A resource is changed as a whole or not at all. The checks are in
:mod:`kafkasim.model.controller.common.configs`.
"""

from __future__ import annotations

from typing import Any

from kafkasim.model.controller.common.configs import broker_id_of, config_problem
from kafkasim.model.controller.common.image import MetadataImage
from kafkasim.model.controller.common.records import BrokerConfigRecord, ConfigRecord
from kafkasim.model.errors import Errors
from kafkasim.model.messages import (
    IncrementalAlterConfigsRequest,
    IncrementalAlterConfigsResponse,
)
from kafkasim.model.messages.clients.admin import TOPIC


class ConfigurationControlManager:
    """Judges changes of settings; changes nothing itself."""

    def __init__(self, image: MetadataImage) -> None:
        self.image = image

    def alter(
        self, request: IncrementalAlterConfigsRequest
    ) -> tuple[list[Any], IncrementalAlterConfigsResponse]:
        """Return the records of the resources that may change, and a result for each resource."""
        records: list[Any] = []
        results = []
        for resource in request.resources:
            kind, name = resource.resource_type, resource.resource_name
            error, message = config_problem(resource, self.image)
            if error is Errors.NONE:
                for key, text in resource.configs:
                    if kind == TOPIC:
                        records.append(ConfigRecord(name, key, text))
                    else:
                        records.append(BrokerConfigRecord(broker_id_of(name), key, text))
            results.append((kind, name, error, message))
        return records, IncrementalAlterConfigsResponse(Errors.NONE, tuple(results))
