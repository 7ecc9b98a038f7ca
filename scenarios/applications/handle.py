"""A simulated client in the hands of a user's application."""

from __future__ import annotations

import asyncio
from collections.abc import Mapping
from typing import Any, ClassVar

from kafkasim.model.client import exceptions
from kafkasim.model.config import ClientConfig
from kafkasim.scenarios.applications.session import Session
from kafkasim.scenarios.applications.stand_ins import where
from kafkasim.scenarios.applications.types.errors import (
    IllegalStateError,
    KafkaError,
    translated,
)
from kafkasim.sim.apps.refusals import NotSimulated


class Partial:
    """A client without some of aiokafka's methods; each of them says what there is instead."""

    left_out: ClassVar[Mapping[str, str]] = {}

    def __getattr__(self, name: str) -> Any:
        if name in self.left_out:
            what = f"{type(self).__name__}.{name}() ({where()}): it is not simulated;"
            raise NotSimulated(f"{what} {self.left_out[name]}")
        raise AttributeError(f"{type(self).__name__!r} object has no attribute {name!r}")


class Handle:
    """A client of the host's process, from its start to its stop; ``name`` is "" before and after.

    Its methods raise the errors that applications catch (:mod:`.types.errors`).
    """

    def __init__(self, session: Session, kind: str, config: ClientConfig) -> None:
        self.name = ""
        self._session = session
        self._kind = kind  # producer, consumer or admin
        self._config = config

    async def open(self) -> None:
        """Have the process make the client."""
        self.name = self._session.client_name(self._kind)
        await self._session.port.call("open", self.name, self._config)

    def method(self, name: str) -> str:
        """Return what the process calls a method of the client.

        Raises:
            IllegalStateError: the client is not started.
        """
        if self._session.port.dead:
            raise asyncio.CancelledError  # the process died; what is left of it is thrown away
        if not self.name:
            kind = self._kind
            raise IllegalStateError(f"the {kind} is not started: await {kind}.start()")
        return f"{self.name}.{name}"

    async def ask(self, name: str, *arguments: Any) -> Any:
        """Call a method and return its reply."""
        try:
            return await self._session.port.call(self.method(name), *arguments)
        except exceptions.KafkaError as error:
            raise self.raised(error) from None

    def know(self, name: str, *arguments: Any) -> Any:
        """Return what a method replies without waiting; None if its process is busy now."""
        reply = self._session.port.call(self.method(name), *arguments)
        return reply.result() if reply.done() else None

    def raised(self, error: exceptions.KafkaError) -> KafkaError:
        """Return an error as applications catch it; the session remembers the last one."""
        found = translated(error)
        self._session.caught[self._session.node] = str(found)
        return found
