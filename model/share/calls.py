"""A request about several share partitions, its operations, and the answer made of their results.

Kafka: the map of futures in the methods of ShareCoordinatorService. Results come in the order of
the request, where Kafka has that of a HashMap. If a request names a share partition twice, the
result of the later operation stands for both.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from kafkasim.model.errors import Errors
from kafkasim.model.messages.share import (
    DeleteShareGroupStateRequest,
    DeleteShareGroupStateResponse,
    InitializeShareGroupStateRequest,
    InitializeShareGroupStateResponse,
    ReadShareGroupStateRequest,
    ReadShareGroupStateResponse,
    ReadShareGroupStateSummaryRequest,
    ReadShareGroupStateSummaryResponse,
    ReadStateResult,
    ReadStateSummaryResult,
    StatePartitionResult,
    WriteShareGroupStateRequest,
    WriteShareGroupStateResponse,
)
from kafkasim.model.share.records import SharePartitionKey
from kafkasim.model.values import value


@value
class Kind:
    """A kind of request: its response, and what becomes of one share partition."""

    response: Callable[[Any], Any]
    result: Callable[[int, Errors], Any]  # (partition, error)
    allows_empty_topic: bool = False  # else a topic without partitions empties the answer


KINDS: dict[type, Kind] = {
    InitializeShareGroupStateRequest: Kind(
        InitializeShareGroupStateResponse, StatePartitionResult, allows_empty_topic=True
    ),
    ReadShareGroupStateRequest: Kind(ReadShareGroupStateResponse, ReadStateResult),
    WriteShareGroupStateRequest: Kind(WriteShareGroupStateResponse, StatePartitionResult),
    DeleteShareGroupStateRequest: Kind(DeleteShareGroupStateResponse, StatePartitionResult),
    ReadShareGroupStateSummaryRequest: Kind(
        ReadShareGroupStateSummaryResponse, ReadStateSummaryResult
    ),
}


class Call:
    """The operation of a request on one share partition."""

    __slots__ = ("_gathered", "asked", "key", "request")

    def __init__(
        self, gathered: Gathered, request: Any, key: SharePartitionKey, asked: Any
    ) -> None:
        self._gathered = gathered
        self.request = request
        self.key = key
        self.asked = asked  # its part of the request

    def succeed(self, result: Any) -> None:
        """Take the operation's result, which may be a refusal."""
        self._gathered.take(self, result)

    def fail(self, error: Errors) -> None:
        """Take note that the operation was not run, or its records could not be committed."""
        self._gathered.take(self, self._gathered.kind.result(self.key.partition, error))


class Gathered:
    """Responds to a request when all of its operations are done."""

    __slots__ = ("_results", "_waiting", "calls", "kind", "respond")

    def __init__(self, kind: Kind, request: Any, respond: Callable[[Any], None]) -> None:
        self.kind = kind
        self.respond = respond
        self.calls: list[Call] = []
        complete = kind.allows_empty_topic or all(each for _, each in request.topics)
        if request.group_id and complete:
            for topic_id, partitions in request.topics:
                for asked in partitions:
                    number = asked if type(asked) is int else asked.partition
                    key = SharePartitionKey(request.group_id, topic_id, number)
                    self.calls.append(Call(self, request, key, asked))
        last = {call.key: call for call in self.calls}
        self._results: dict[SharePartitionKey, Any] = dict.fromkeys(last)
        self._waiting = dict.fromkeys(self.calls)

    def take(self, call: Call, result: Any) -> None:
        """Take the result of one operation; the last one is followed by the response."""
        del self._waiting[call]
        later = [each for each in self.calls if each.key == call.key][-1]
        if call is later:
            self._results[call.key] = result
        if not self._waiting:
            self.respond(self.kind.response(self._by_topic()))

    def _by_topic(self) -> tuple[tuple[str, tuple[Any, ...]], ...]:
        by_topic: dict[str, list[Any]] = {}
        for key, result in self._results.items():
            by_topic.setdefault(key.topic_id, []).append(result)
        return tuple([(topic_id, tuple(results)) for topic_id, results in by_topic.items()])
