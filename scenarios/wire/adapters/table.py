"""All APIs that are served, by key, and what ApiVersions says of them."""

from __future__ import annotations

from typing import Any

from kafkasim.model.controller.kraft.feature_levels import all_ranges
from kafkasim.model.messages import ApiVersionsRequest
from kafkasim.scenarios.wire.adapters.acls import ACLS
from kafkasim.scenarios.wire.adapters.admin import ADMIN
from kafkasim.scenarios.wire.adapters.base import Adapter, Body, Call
from kafkasim.scenarios.wire.adapters.data import DATA
from kafkasim.scenarios.wire.adapters.groups import GROUPS
from kafkasim.scenarios.wire.adapters.share import SHARE
from kafkasim.scenarios.wire.adapters.transactions import TRANSACTIONS
from kafkasim.scenarios.wire.schemas import API_VERSIONS, served_schemas

UNSUPPORTED_VERSION = 35


def _versions(call: Call, answers: list[Any]) -> Body:
    (answer,) = answers
    return {
        "ErrorCode": answer.error,
        "ApiKeys": _ranges(),
        "SupportedFeatures": _supported(call),
        "FinalizedFeaturesEpoch": answer.finalized_features_epoch,
        "FinalizedFeatures": [
            {"Name": name, "MaxVersionLevel": level, "MinVersionLevel": level}
            for name, level in answer.finalized_features
        ],
    }


def _supported(call: Call) -> list[Body]:
    """Return the features that the broker supports; old clients cannot read a 0 (KAFKA-17492)."""
    kafka = call.broker.kafka
    own = None if kafka is None else kafka.image.brokers.get(kafka.incarnation.broker_id)
    features = () if own is None else all_ranges(own.features)
    return [
        {"Name": name, "MinVersion": low, "MaxVersion": high}
        for name, low, high in features
        if low > 0 or call.version >= 4
    ]


ADAPTERS: dict[int, Adapter] = {
    API_VERSIONS: Adapter(0, 4, lambda call: [ApiVersionsRequest()], _versions),
    **{
        served_schemas().keys[name]: adapter
        for name, adapter in {**DATA, **GROUPS, **SHARE, **TRANSACTIONS, **ADMIN, **ACLS}.items()
    },
}
"""By api key."""


def serves(key: int, version: int) -> bool:
    """Return whether a version of an API is served."""
    adapter = ADAPTERS.get(key)
    return adapter is not None and adapter.low <= version <= adapter.high


def unsupported_versions() -> Body:
    """Return the body of version 0 with which a broker answers an ApiVersions it does not know."""
    return {"ErrorCode": UNSUPPORTED_VERSION, "ApiKeys": _ranges()}


def _ranges() -> list[Body]:
    return [
        {"ApiKey": key, "MinVersion": adapter.low, "MaxVersion": adapter.high}
        for key, adapter in sorted(ADAPTERS.items())
    ]
