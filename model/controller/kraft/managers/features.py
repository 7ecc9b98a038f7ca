"""The finalized levels of features (FeatureControlManager, KIP-584).

A level can be finalized once the active controller and every registered broker support it. Fenced
brokers count, because they may come back. A broker that does not support a finalized level is not
registered.

Left out: downgrades (a lower level is refused), the supported levels of the other controllers
(RegisterControllerRecord), --dry-run.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from kafkasim.model.controller.common.image import MetadataImage
from kafkasim.model.controller.common.records import ELR_FEATURE, FeatureLevelRecord
from kafkasim.model.controller.kraft.feature_levels import (
    Ranges,
    all_ranges,
    missing_dependency,
    unsupported,
)
from kafkasim.model.errors import Errors
from kafkasim.model.messages import UpdateFeaturesRequest, UpdateFeaturesResponse


class FeatureControlManager:
    """Finalizes levels; changes nothing itself.

    ``own`` is what the active controller's release supports.
    """

    def __init__(self, image: MetadataImage, own: Ranges) -> None:
        self.image = image
        self.own = own

    def update(self, request: UpdateFeaturesRequest) -> tuple[list[Any], UpdateFeaturesResponse]:
        """Return the records that finalize all levels of a request, and the response.

        If one level cannot be finalized, there are no records, and the response says why.
        """
        records: list[Any] = []
        after = {**self.image.features, **dict(request.updates)}
        for name, level in request.updates:
            wrong = self._wrong(name, level, after)
            if wrong:
                message = f"Invalid update version {level} for feature {name}. {wrong}"
                return [], UpdateFeaturesResponse(Errors.INVALID_UPDATE_VERSION, message)
            records.append(FeatureLevelRecord(name, level))
        return records, UpdateFeaturesResponse(Errors.NONE)

    def _wrong(self, name: str, level: int, after: Mapping[str, int]) -> str:
        wanted = {name: level}
        if unsupported(self.own, wanted) is not None:
            return f"The controller does not support it; it supports {_range(self.own, name)}."
        for broker_id in sorted(self.image.brokers):
            ranges = self.image.brokers[broker_id].features
            if unsupported(ranges, wanted) is not None:
                return f"Broker {broker_id} supports {_range(ranges, name)}."
        if level < self.image.finalized_features().get(name, 0):
            return "A downgrade has to be asked for."
        if name not in [known for known, _, _ in all_ranges(self.own)]:
            return "There is no such feature."  # Features.featureFromName
        lacking = missing_dependency({**after, **wanted}) if name == ELR_FEATURE else None
        return "" if lacking is None else f"It depends on {lacking[0]} {lacking[1]}."


def _range(ranges: Ranges, name: str) -> str:
    for each, low, high in all_ranges(ranges):
        if each == name:
            return f"versions {low}-{high}"
    return "none of it"
