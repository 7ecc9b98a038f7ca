"""What a broker that is not the controller answers to operators (KafkaApis, NOT_CONTROLLER).

Some responses have the error for each topic or partition, the others for the request as a whole.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from kafkasim.model.controller.common import responses
from kafkasim.model.controller.zk.changes.leaders import unknown_type
from kafkasim.model.errors import Errors
from kafkasim.model.messages import (
    CreatePartitionsRequest,
    CreatePartitionsResponse,
    CreateTopicsRequest,
    CreateTopicsResponse,
    DeleteTopicsRequest,
    DeleteTopicsResponse,
    ElectLeadersRequest,
    ElectLeadersResponse,
)
from kafkasim.model.records import TopicPartition

if TYPE_CHECKING:
    from kafkasim.model.controller.common.image import MetadataImage

NONE, ELSEWHERE = Errors.NONE, Errors.NOT_CONTROLLER


def not_controller(request: Any, image: MetadataImage) -> Any:
    """Return the response to a request; ``image`` is the broker's metadata cache."""
    if isinstance(request, CreateTopicsRequest):
        return CreateTopicsResponse(
            tuple([(topic.topic, ELSEWHERE, "") for topic in request.topics])
        )
    if isinstance(request, CreatePartitionsRequest):
        names = dict.fromkeys([topic.topic for topic in request.topics])
        return CreatePartitionsResponse(NONE, tuple([(name, ELSEWHERE, "") for name in names]))
    if isinstance(request, DeleteTopicsRequest):
        rows = tuple([(name, topic_id, ELSEWHERE, "") for name, topic_id in request.topics])
        return DeleteTopicsResponse(NONE, rows)
    if isinstance(request, ElectLeadersRequest):
        if (refused := unknown_type(request)) is not None:
            return refused
        asked = request.partitions
        if asked is None:
            asked = tuple(
                [
                    TopicPartition(topic.name, number)
                    for topic in image.topics.values()
                    for number in sorted(topic.partitions)
                ]
            )
        return ElectLeadersResponse(NONE, tuple([(tp, ELSEWHERE) for tp in asked]))
    return responses.not_controller(request)
