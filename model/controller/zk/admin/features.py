"""UpdateFeatures with ZooKeeper (KafkaController.processFeatureUpdates, KIP-584).

The brokers of 3.9 support no feature in this mode (KafkaServer has BrokerFeatures.createEmpty), and
none is ever finalized. So every update and every deletion is refused, each feature by itself.
"""

from __future__ import annotations

from kafkasim.model.controller.zk.events import Steps
from kafkasim.model.errors import Errors
from kafkasim.model.messages import UpdateFeaturesRequest, UpdateFeaturesResponse

REFUSED = (Errors.INVALID_REQUEST, "The provided feature is not supported.")


def update(request: UpdateFeaturesRequest) -> Steps:
    """Return the response, which has an error for each feature."""
    yield from ()
    names = dict.fromkeys([feature for feature, _ in request.updates])
    return UpdateFeaturesResponse(Errors.NONE, results=tuple([(name, *REFUSED) for name in names]))
