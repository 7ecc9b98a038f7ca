"""What a client's call can raise: Kafka's exceptions, as far as an application tells them apart.

Each exception is rebuilt from its ``args``. ``error`` is Kafka's error name.
"""

from __future__ import annotations


class KafkaError(Exception):
    """A call failed. ``error`` is Kafka's error name, ``detail`` says what was asked."""

    def __init__(self, error: str, detail: str = "") -> None:
        super().__init__(error, detail)
        self.error = error
        self.detail = detail

    def __str__(self) -> str:
        return f"{self.error}: {self.detail}" if self.detail else self.error


class KafkaTimeoutError(KafkaError):
    """The call's time ran out (TimeoutException)."""


class CommitFailedError(KafkaError):
    """The member is no longer part of the generation that it commits for."""


class NoOffsetForPartitionError(KafkaError):
    """No position and auto.offset.reset is none."""


class LogTruncationError(KafkaError):
    """The log was truncated below the position and auto.offset.reset is none."""
