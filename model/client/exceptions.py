"""The exceptions that a client's call can raise: those of Kafka's that applications tell apart.

An exception can be rebuilt from its ``args``.
"""

from __future__ import annotations


class KafkaError(Exception):
    """A call failed: ``error`` is Kafka's name of the error, ``detail`` what was asked for."""

    def __init__(self, error: str, detail: str = "") -> None:
        super().__init__(error, detail)
        self.error = error
        self.detail = detail

    def __str__(self) -> str:
        return f"{self.error}: {self.detail}" if self.detail else self.error


class KafkaTimeoutError(KafkaError):
    """The call ran out of time (TimeoutException)."""


class CommitFailedError(KafkaError):
    """The member is not in the generation any more for which it commits."""


class NoOffsetForPartitionError(KafkaError):
    """A partition has no position, and auto.offset.reset is none."""


class LogTruncationError(KafkaError):
    """The log was truncated below the position, and auto.offset.reset is none."""
