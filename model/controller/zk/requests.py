"""Requests to the controller, and the brokers' answers to its control requests, as events.

A request that is dropped, or that meets a broker which is not the controller, is answered with
NOT_CONTROLLER.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from functools import partial
from typing import TYPE_CHECKING, Any

from kafkasim.model.controller.common.responses import failed, not_controller
from kafkasim.model.errors import Errors
from kafkasim.model.messages import LeaderAndIsrRequest, StopReplicaRequest

if TYPE_CHECKING:
    from kafkasim.model.controller.zk.changes.log_dirs import LogDirFailures
    from kafkasim.model.controller.zk.context import ControllerContext, Replica
    from kafkasim.model.controller.zk.election import ControllerElection
    from kafkasim.model.controller.zk.events import EventQueue, Steps
    from kafkasim.model.controller.zk.states.deletion import TopicDeletionManager
    from kafkasim.model.records import TopicPartition

NONE = Errors.NONE
Answer = Callable[[Any, int], None]
"""Called once with the response and the time in microseconds."""


class ControllerRequests:
    """Turns requests into events.

    ``handlers``: request type to the steps that return the response. ``afterwards``: request type
    to steps that follow the response; they are given it.
    """

    def __init__(
        self,
        events: EventQueue,
        election: ControllerElection,
        handlers: Mapping[type, Callable[[Any], Steps]],
        afterwards: Mapping[type, Callable[[Any], Steps]],
    ) -> None:
        self.events = events
        self.election = election
        self.handlers = handlers
        self.afterwards = afterwards

    def serve(self, request: Any, answer: Answer) -> None:
        """Serve a request as an event. Callable on any lane."""
        kind = type(request)
        moved = not_controller(request)
        handle, afterwards = self.handlers.get(kind), self.afterwards.get(kind)
        events = self.events

        def steps() -> Steps:
            if not self.election.is_active:
                answer(moved, events.now)
                return
            if handle is None:
                answer(failed(request, Errors.UNSUPPORTED_VERSION), events.now)
                return
            try:
                response = yield from handle(request)
            except Exception:  # moved, or the session expired: the queue deals with it
                answer(moved, events.now)
                raise
            answer(response, events.now)
            if afterwards is not None:
                yield from afterwards(response)

        events.put(kind.__name__, steps, lambda now: answer(moved, now))


class BrokerAnswers:
    """Learns of failed log directories from the answers to LeaderAndIsr, and of deleted replicas
    from those to StopReplica. A request that a broker refused is not sent again."""

    def __init__(
        self,
        events: EventQueue,
        election: ControllerElection,
        context: ControllerContext,
        deletion: TopicDeletionManager,
        log_dirs: LogDirFailures,
    ) -> None:
        self.events = events
        self.election = election
        self.context = context
        self.deletion = deletion
        self.log_dirs = log_dirs

    def on_answer(self, broker: int, request: Any, response: Any) -> None:
        """Queue the event that an answer causes, if it causes one. Called on the broker's lane."""
        if isinstance(request, LeaderAndIsrRequest):
            if self.log_dirs.may_change_replicas(broker, response):
                steps: Callable[[], Steps] = partial(
                    self.log_dirs.on_answer, broker, response.partitions
                )
                self.events.put("LeaderAndIsrResponseReceived", self.election.when_active(steps))
        elif isinstance(request, StopReplicaRequest):
            asked = {each.tp: None for each in request.partitions if each.delete_partition}
            answers = [each for each in response.partitions if each[0] in asked]
            if answers:  # a request that is refused as a whole has none
                steps = partial(self._replicas_deleted, broker, answers)
                name = "TopicDeletionStopReplicaResponseReceived"
                self.events.put(name, self.election.when_active(steps))

    def _replicas_deleted(self, broker: int, answers: list[tuple[TopicPartition, Errors]]) -> Steps:
        """Tell the deletion of topics which replicas a broker deleted, and which it did not."""
        answers = [each for each in answers if self.context.deleting(each[0].topic)]
        failures: list[Replica] = [(tp, broker) for tp, error in answers if error is not NONE]
        done: list[Replica] = [(tp, broker) for tp, error in answers if error is NONE]
        if failures:
            yield from self.deletion.fail(failures)
        if done:
            yield from self.deletion.complete(done)
