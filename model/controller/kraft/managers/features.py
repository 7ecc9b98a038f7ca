"""The finalized levels of features (FeatureControlManager, KIP-584).

A level can be finalized once the active controller and every registered broker support it. Fenced
brokers count, because they may come back. A broker that does not support a finalized level is not
registered.

A lower level has to be asked for as a downgrade, and metadata.version only falls to a level below
which nothing was added to the records (MetadataVersion.checkIfMetadataChanged).

Left out: the supported levels of the other controllers (RegisterControllerRecord), --dry-run.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from kafkasim.model.controller.common.image import MetadataImage
from kafkasim.model.controller.common.records import (
    ELR_FEATURE,
    METADATA_VERSION,
    FeatureLevelRecord,
)
from kafkasim.model.controller.kraft.feature_levels import (
    METADATA_CHANGES,
    Ranges,
    all_ranges,
    missing_dependency,
    unsupported,
)
from kafkasim.model.errors import Errors
from kafkasim.model.messages import UpdateFeaturesRequest, UpdateFeaturesResponse
from kafkasim.model.messages.clients.admin import SAFE_DOWNGRADE, UNSAFE_DOWNGRADE, UPGRADE


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
            wrong = self._wrong(name, level, after, request.upgrade_type)
            if wrong:
                message = f"Invalid update version {level} for feature {name}. {wrong}"
                return [], UpdateFeaturesResponse(Errors.INVALID_UPDATE_VERSION, message)
            records.append(FeatureLevelRecord(name, level))
        return records, UpdateFeaturesResponse(Errors.NONE)

    def _wrong(self, name: str, level: int, after: Mapping[str, int], upgrade_type: int) -> str:
        """Return why a level cannot be finalized, "" if it can (updateFeature)."""
        wanted = {name: level}
        if upgrade_type not in (UPGRADE, SAFE_DOWNGRADE, UNSAFE_DOWNGRADE):
            return "The controller does not support the given upgrade type."
        if unsupported(self.own, wanted) is not None:
            return f"The controller does not support it; it supports {_range(self.own, name)}."
        for broker_id in sorted(self.image.brokers):
            ranges = self.image.brokers[broker_id].features
            if unsupported(ranges, wanted) is not None:
                return f"Broker {broker_id} supports {_range(ranges, name)}."
        current = self.image.finalized_features().get(name, 0)
        if level < current and upgrade_type == UPGRADE:
            return "A downgrade has to be asked for."
        if level > current and upgrade_type != UPGRADE:
            return "A higher level is no downgrade."
        if name == METADATA_VERSION:
            return self._wrong_metadata_version(current, level)
        if name not in [known for known, _, _ in all_ranges(self.own)]:
            return "There is no such feature."  # Features.featureFromName
        lacking = missing_dependency({**after, **wanted}) if name == ELR_FEATURE else None
        return "" if lacking is None else f"It depends on {lacking[0]} {lacking[1]}."

    def _wrong_metadata_version(self, current: int, level: int) -> str:
        """Return why metadata.version cannot change so, "" if it can (updateMetadataVersion).

        To ask for an unsafe downgrade changes nothing: no release has it (KAFKA-13896).
        """
        lowest = next(low for name, low, _ in self.own if name == METADATA_VERSION)
        if level < lowest:
            return f"It is {lowest} at least."
        lost = [each for each in METADATA_CHANGES if level < each <= current]
        return f"Metadata of level {lost[0]} would be lost." if lost else ""


def _range(ranges: Ranges, name: str) -> str:
    for each, low, high in all_ranges(ranges):
        if each == name:
            return f"versions {low}-{high}"
    return "none of it"
