"""The process of a worker: its clients, and the requests that workers send each other.

A worker serves two requests of Connect's REST interface: the task settings that a connector makes
on another worker than the leader's, and the fencing of old tasks before new ones start (KIP-618).
Its herder takes them one after the other with ``worker.serve``, and answers with ``worker.answer``;
``worker.ask`` sends one to another worker.
"""

from __future__ import annotations

import random
from collections import deque
from collections.abc import Mapping
from functools import partial
from typing import TYPE_CHECKING, Any

from kafkasim.model.channel import Channel
from kafkasim.model.client.process import ClientProcess
from kafkasim.model.client.rules import ClientRules
from kafkasim.model.config import Config
from kafkasim.model.connect.workers.config import WorkerConfig
from kafkasim.model.connect.workers.coordinator import WorkerCoordinator
from kafkasim.model.connect.workers.rules import WorkerRules
from kafkasim.model.effects import Reply, Request, Respond
from kafkasim.model.messages.base import Message
from kafkasim.model.values import value

if TYPE_CHECKING:
    from kafkasim.model.storage.files import Files

REST_TIMEOUT_MS = 30_000
"""How long a worker waits for another one's answer (RestClient, DEFAULT_REQUEST_TIMEOUT)."""


@value
class RestRequest(Message):
    """A request of one worker to another: a connector, and what to do with its tasks."""

    connector: str
    settings: tuple[Any, ...] | None  # of its tasks (POST …/tasks); None: fence them (PUT …/fence)


@value
class RestResponse(Message):
    """The answer; an error is what the asking worker logs before it tries again."""

    error: str


class WorkerProcess(ClientProcess):
    """A client process with the client ``worker``."""

    def __init__(
        self,
        name: str,
        bootstrap: tuple[str, ...],
        clients: Mapping[str, Config],
        rules: ClientRules,
        files: Files,
        rng: random.Random,
        now: int,
        others: Mapping[str, tuple[str, ...]],
        worker: WorkerConfig,
        worker_rules: WorkerRules,
    ) -> None:
        super().__init__(name, bootstrap, clients, rules, files, rng, now, others=others)
        self.worker = WorkerCoordinator(self, "worker", worker, bootstrap, rules, worker_rules)
        methods = {
            **self.worker.methods, "serve": self._serve, "answer": self._answer, "ask": self._ask,
        }  # fmt: skip
        self._methods |= {f"worker.{method}": each for method, each in methods.items()}
        self._asked: deque[Request] = deque()  # not given to the herder yet
        self._serving: int | None = None  # the call of the herder that waits for a request
        self._peers: dict[str, Channel] = {}

    def on_request(self, item: Request, now: int) -> None:
        """Keep a request of another worker until the herder takes it."""
        self._asked.append(item)
        self._hand_over()

    def _serve(self, call: int, _args: tuple[Any, ...], _now: int) -> None:
        """Reply the next request, with what its answer needs."""
        self._serving = call
        self._hand_over()

    def _hand_over(self) -> None:
        if self._serving is not None and self._asked:
            call, self._serving = self._serving, None
            item = self._asked.popleft()
            self.out.append(Reply(call, (item.message, item.connection, item.correlation), None))

    def _answer(self, call: int, args: tuple[Any, ...], _now: int) -> None:
        """Answer a request with (connection, correlation, error)."""
        connection, correlation, error = args
        self.out.append(Respond(connection, correlation, RestResponse(error)))
        self.out.append(Reply(call, None, None))

    def _ask(self, call: int, args: tuple[Any, ...], now: int) -> None:
        """Send (host, request); reply the error of its answer, "" for none."""
        host, request = args
        channel = self._peers.get(host)
        if channel is None:
            channel = Channel(self, host, "rest", "main", REST_TIMEOUT_MS, name="rest")
            self._peers[host] = channel

        def answered(answer: Any, _at: int) -> None:
            error = answer.error if isinstance(answer, RestResponse) else answer.reason
            self.out.append(Reply(call, error, None))

        channel.send(request, now, answered)

    def shutdown(self, now: int) -> None:
        """Close every client; the worker leaves its group first, unless the herder stops it."""
        if self._catches is not None:
            super().shutdown(now)
            return
        self.worker.shut(now, partial(super().shutdown, now))
