"""The marker channel's thread, and the leaders that it sends to."""

from __future__ import annotations

from typing import TYPE_CHECKING

from kafkasim.model.broker.common.transactions.inter_broker_send_thread import (
    InterBrokerSendThread,
    RequestAndCompletionHandler,
)
from kafkasim.model.transaction.markers.channel_manager import LANE

if TYPE_CHECKING:
    from kafkasim.model.controller.common.image import MetadataImage
    from kafkasim.model.effects import Process
    from kafkasim.model.records import TopicPartition
    from kafkasim.model.transaction.markers.channel_manager import TransactionMarkerChannelManager


class PartitionLeaders:
    """Implements ``MarkerDestinations`` over the metadata cache."""

    def __init__(self, image: MetadataImage) -> None:
        self._image = image

    def leader_endpoint(self, tp: TopicPartition) -> str | None:
        """Return the endpoint of a partition's leader, "" for no leader, None for no partition."""
        topic = self._image.topic_by_name(tp.topic)
        entry = None if topic is None else topic.partitions.get(tp.partition)
        if entry is None:
            return None
        broker = self._image.brokers.get(entry.leader)
        return "" if broker is None else broker.address


class MarkerRequests:
    """The requests of the marker channel, as its thread sends them."""

    def __init__(self, markers: TransactionMarkerChannelManager) -> None:
        self._markers = markers

    def generate_requests(self, now: int) -> list[RequestAndCompletionHandler]:
        """Return one request for each broker that markers wait for."""
        generated = self._markers.generate_requests(now)
        return [RequestAndCompletionHandler(*each) for each in generated]


def start_sender(
    process: Process, request_timeout_ms: int, markers: TransactionMarkerChannelManager
) -> InterBrokerSendThread:
    """Give the marker channel its thread, and return that."""
    source = MarkerRequests(markers)
    markers.sender = sender = InterBrokerSendThread(process, LANE, request_timeout_ms, source)
    return sender
