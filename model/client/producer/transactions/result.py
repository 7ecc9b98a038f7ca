"""What a transactional call waits for: Kafka's TransactionalRequestResult."""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Callable

    from kafkasim.model.client.exceptions import KafkaError


class TransactionalResult:
    """The outcome of a request, known once; ``acked`` when the application has been told."""

    __slots__ = ("_callbacks", "acked", "completed", "error")

    def __init__(self) -> None:
        self.completed = False
        self.error: KafkaError | None = None
        self.acked = False
        self._callbacks: list[Callable[[], None]] = []

    def then(self, callback: Callable[[], None]) -> None:
        """Call ``callback()`` when the outcome is known, at once if it is."""
        if self.completed:
            callback()
        else:
            self._callbacks.append(callback)

    def done(self) -> None:
        """Note a success; an outcome that is known stays."""
        self._complete(None)

    def fail(self, error: KafkaError) -> None:
        """Note a failure; an outcome that is known stays."""
        self._complete(error)

    def _complete(self, error: KafkaError | None) -> None:
        if self.completed:
            return
        self.completed = True
        self.error = error
        callbacks, self._callbacks = self._callbacks, []
        for callback in callbacks:
            callback()
