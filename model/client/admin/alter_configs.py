"""IncrementalAlterConfigs: a broker's settings go to that broker, all others to any broker.

KafkaAdminClient.incrementalAlterConfigs: the broker that is named checks the settings of itself
(ConfigAdminManager.preprocess) before it forwards them; every other broker refuses them. Of several
requests that a call needs, one is sent after another (Kafka: all at once).
"""

from __future__ import annotations

from kafkasim.model.channel import Failed
from kafkasim.model.client.admin.calls import AdminCall, AdminCalls
from kafkasim.model.errors import RETRIABLE, Errors
from kafkasim.model.messages import (
    AlterableConfig,
    IncrementalAlterConfigsRequest,
    IncrementalAlterConfigsResponse,
    MetadataRequest,
    MetadataResponse,
)
from kafkasim.model.messages.clients.admin import BROKER

Result = tuple[str, str, Errors, str]
"""(type, name, error, message)."""


class AlterConfigs:
    """One call. The result is an IncrementalAlterConfigsResponse for all resources."""

    def __init__(
        self, calls: AdminCalls, call: int, resources: tuple[AlterableConfig, ...], now: int
    ) -> None:
        self._connections = calls.connections
        self._call = AdminCall(calls, call, "incremental alter configs", now)
        anywhere = [each for each in resources if _broker_of(each) is None]
        self._requests = [[each] for each in resources if _broker_of(each) is not None]
        if anywhere or not resources:
            self._requests.insert(0, anywhere)
        self._results: list[Result] = []

    def attempt(self, now: int) -> None:
        """Send the next request, or ask for the address of the broker that it must go to."""
        channel = self._call.least_loaded(self.attempt, now)
        if channel is None:
            return
        resources = self._requests[0]
        if resources and _broker_of(resources[0]) is not None:
            channel.send(MetadataRequest((), False), now, self._on_metadata)
        else:
            request = IncrementalAlterConfigsRequest(tuple(resources))
            channel.send(request, now, self._on_response)

    def _on_metadata(self, response: MetadataResponse | Failed, now: int) -> None:
        """Send the request to its broker; without that broker, ask again until the deadline."""
        resources = self._requests[0]
        if not isinstance(response, Failed):
            for broker in response.brokers:
                if broker.id == _broker_of(resources[0]):
                    channel = self._connections.channel(broker.id, broker.address)
                    request = IncrementalAlterConfigsRequest(tuple(resources))
                    channel.send(request, now, self._on_response)
                    return
        self._call.retry(self.attempt, now)

    def _on_response(self, response: IncrementalAlterConfigsResponse | Failed, now: int) -> None:
        if isinstance(response, Failed) or response.error in RETRIABLE:
            self._call.retry(self.attempt, now)
            return
        self._results += response.results
        del self._requests[0]
        if self._requests and response.error is Errors.NONE:
            self.attempt(now)
        else:
            reply = IncrementalAlterConfigsResponse(response.error, tuple(self._results))
            self._call.reply(reply)


def _broker_of(resource: AlterableConfig) -> int | None:
    """Return the broker whose settings a resource is, None for a topic and for all brokers."""
    name = resource.resource_name
    return int(name) if resource.resource_type == BROKER and name.lstrip("-").isdigit() else None
