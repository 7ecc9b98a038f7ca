"""The time that clients take of a broker's threads: ClientRequestQuotaManager (KIP-124).

``request_percentage`` limits it, in percent of one thread: with eight request handlers all clients
together may have 800. What a client takes is counted when it is answered. Above its quota the
answer goes out at once with a throttle time of at most one window, and the connection stays muted
for it. Produce and Fetch have the longer one of this time and that of their bandwidth; a Fetch that
has to wait is answered without records.

Fetches of followers and what only brokers send are exempt.

Left out: time on the network threads and time that a handler waits for the disk, which are not part
of the service time here; the metrics of exempt requests.
"""

from __future__ import annotations

from functools import partial
from typing import TYPE_CHECKING, Any

from kafkasim.model.controller.common.client_quotas import (
    REQUEST_PERCENTAGE,
    Tags,
    applied,
    rate_text,
)
from kafkasim.model.facts import Throttled
from kafkasim.model.messages import (
    FetchRequest,
    ProduceRequest,
    WriteTxnMarkersRequest,
    request_name,
)
from kafkasim.model.messages.servers.control import (
    ControlledShutdownRequest,
    LeaderAndIsrRequest,
    StopReplicaRequest,
    UpdateMetadataRequest,
)
from kafkasim.model.replication.quotas.rate import DEFAULT, Rate, Windows, throttle_time_ms

if TYPE_CHECKING:
    from kafkasim.model.broker.common.client_quotas import QuotaMetadata
    from kafkasim.model.broker.common.socket_server import RequestHandler
    from kafkasim.model.effects import Process, Request

US_PER_PERCENT = 10_000
"""Of one thread for a second."""

OWN_ANSWER = (ProduceRequest, FetchRequest)
"""Whose handlers ask for the throttle time themselves: it changes their answers."""

EXEMPT = (
    ControlledShutdownRequest,
    LeaderAndIsrRequest,
    StopReplicaRequest,
    UpdateMetadataRequest,
    WriteTxnMarkersRequest,
)
"""What only brokers send (sendResponseExemptThrottle)."""


class ClientRequestQuotaManager:
    """The request times of one broker's clients."""

    def __init__(
        self, process: Process, metadata: QuotaMetadata, windows: Windows = DEFAULT
    ) -> None:
        self._windows = windows
        self._process = process
        self._metadata = metadata
        self._rates: dict[Tags, Rate] = {}

    @property
    def enabled(self) -> bool:
        """Whether any client has a quota of any kind."""
        return bool(self._metadata.client_quotas)

    def record(self, item: Request, now: int) -> int:
        """Count the time of a request that is answered now; return the throttle time in ms."""
        peer = self._process.peer_of(item.connection)
        quotas = self._metadata.client_quotas
        tags, limit = applied(quotas, REQUEST_PERCENTAGE, peer.user, peer.client_id)
        if limit is None:
            return 0
        now_ms = now // 1000
        rate = self._rates.setdefault(tags, Rate(self._windows))
        rate.record(self._process.service_us(item.message) / US_PER_PERCENT, now_ms)
        throttle_ms = min(throttle_time_ms(rate, limit, now_ms), self._windows.size_ms)
        if throttle_ms:
            api, in_force = request_name(item.message), rate_text(limit)
            offset = self._metadata.offset
            self._process.out.append(
                Throttled(
                    peer.client_id,
                    api,
                    throttle_ms,
                    peer.user,
                    REQUEST_PERCENTAGE,
                    in_force,
                    offset,
                )
            )
        return throttle_ms


class ThrottledApis:
    """Stands before ``apis``, and asks for the throttle time of each answer as it is sent."""

    def __init__(
        self, process: Process, apis: RequestHandler, quota: ClientRequestQuotaManager
    ) -> None:
        self._throttles = process.throttles
        self._apis = apis
        self._quota = quota

    def handle(self, item: Request, now: int) -> None:
        """Serve a request."""
        kind: type[Any] = type(item.message)
        if self._quota.enabled and kind not in OWN_ANSWER and kind not in EXEMPT:
            self._throttles[item.connection, item.correlation] = partial(self._quota.record, item)
        self._apis.handle(item, now)
