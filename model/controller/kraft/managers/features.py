"""The finalized levels of features, and who supports which (FeatureControlManager, KIP-584).

A level can be finalized once the active controller and every registered broker support it, fenced
ones too: they may come back. A broker that does not support what is finalized is not registered.

Left out: downgrades (a lower level is refused), the supported levels of the other controllers
(RegisterControllerRecord), --dry-run.
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
from kafkasim.model.errors import Errors
from kafkasim.model.messages import UpdateFeaturesRequest, UpdateFeaturesResponse

Ranges = tuple[tuple[str, int, int], ...]
"""(feature, lowest, highest level): what a release supports."""

ELR_NEEDS_METADATA_VERSION = 23  # 4.0-IV1


def unsupported(ranges: Ranges, levels: Mapping[str, int]) -> str | None:
    """Return the first feature whose level is outside the ranges; level 0 needs no support."""
    known = {name: (low, high) for name, low, high in ranges}
    for name, level in levels.items():
        low, high = known.get(name, (0, 0))
        if level != 0 and not low <= level <= high:
            return name
    return None


class FeatureControlManager:
    """Finalizes levels. ``own`` is what the active controller's release supports."""

    def __init__(self, image: MetadataImage, own: Ranges) -> None:
        self.image = image
        self.own = own

    def update(self, request: UpdateFeaturesRequest) -> tuple[list[Any], UpdateFeaturesResponse]:
        """Return the records that finalize all of the levels, or none and what is wrong."""
        records: list[Any] = []
        after = {**self.image.features, **dict(request.updates)}
        for name, level in request.updates:
            wrong = self._wrong(name, level, after)
            if wrong:
                message = f"Invalid update version {level} for feature {name}. {wrong}"
                return [], UpdateFeaturesResponse(Errors.INVALID_UPDATE_VERSION, message)
            if level != self.image.features.get(name, 0):
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
        if level < self.image.features.get(name, 0):
            return "A downgrade has to be asked for."
        if name == ELR_FEATURE and level > 0:
            if after.get(METADATA_VERSION, 0) < ELR_NEEDS_METADATA_VERSION:
                return f"It depends on {METADATA_VERSION} {ELR_NEEDS_METADATA_VERSION}."
        return ""


def _range(ranges: Ranges, name: str) -> str:
    for each, low, high in ranges:
        if each == name:
            return f"versions {low}-{high}"
    return "none of it"
