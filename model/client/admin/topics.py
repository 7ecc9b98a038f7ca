"""Calls that create, grow and delete topics, and their quota (KafkaAdminClient, KIP-599).

A topic that the client's quota does not admit is asked for again (retryOnQuotaViolation), in a
request of its own, once the controller may be asked. The results of the other topics are kept. If
the call runs out of time meanwhile, the refused topics have THROTTLING_QUOTA_EXCEEDED.
"""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING, Any

from kafkasim.model.client.admin.calls import SingleRequest
from kafkasim.model.errors import RETRIABLE, Errors
from kafkasim.model.messages import CreateTopicsResponse, DeleteTopicsRequest

if TYPE_CHECKING:
    from kafkasim.model.channel import Channel

EXCEEDED = Errors.THROTTLING_QUOTA_EXCEEDED

Row = tuple[Any, ...]
"""(topic, error, message); of deletions (topic, topic id, error, message)."""


class TopicsRequest(SingleRequest):
    """A request about topics, each of which has its own result."""

    _settled: tuple[Row, ...] = ()  # of the topics that are not asked for again

    def _on_response(self, channel: Channel, response: Any, now: int) -> None:
        rows = getattr(response, "results", ())
        refused = [row[0] for row in rows if row[-2] is EXCEEDED]
        if not refused:
            super()._on_response(channel, response, now)
            return
        channel.throttle(response.throttle_time_ms, now)
        self._call.partial = self._result(response)
        self._settled += tuple([row for row in rows if row[-2] is not EXCEEDED])
        self._ask_for(refused)
        self.attempt(now)

    def _ask_for(self, names: list[str]) -> None:
        """Leave only these topics in the request; each deletion names its topic from now on."""
        request = self._request
        if isinstance(request, DeleteTopicsRequest):
            topics: tuple[Any, ...] = tuple([(name, "") for name in names])
        else:
            topics = tuple([topic for topic in request.topics if topic.topic in names])
        self._request = replace(request, topics=topics)

    def _result(self, response: Any) -> Any:
        result = super()._result(response)
        if not isinstance(response, CreateTopicsResponse):
            return result and replace(result, results=(*self._settled, *result.results))
        created = None if result is None else self._created(response)
        return None if created is None else (*self._settled, *created)

    def _created(self, response: CreateTopicsResponse) -> tuple[Row, ...] | None:
        """Return the result of each topic, or None if one must be asked for again.

        In a retry, a topic that exists already counts as created: the first attempt may have
        created it before its response was lost.
        """
        results: list[Row] = []
        for topic, error, message in response.results:
            if error in RETRIABLE and error is not EXCEEDED:
                return None
            if error is Errors.TOPIC_ALREADY_EXISTS and self._call.retries:
                results.append((topic, Errors.NONE, message))
            else:
                results.append((topic, error, message))
        return tuple(results)
