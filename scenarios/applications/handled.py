"""Which record an application handles when it sends another one: what its outputs are judged by.

That is the record that the task has got last, or whose key, value or headers it has looked at last.
So it is told which record of a list a loop is at, and a task that was created for a record keeps
it, since a new task has a copy of its creator's context.
"""

from __future__ import annotations

from contextvars import ContextVar

from kafkasim.model.facts import OutputSent
from kafkasim.scenarios.applications.session import Session

HANDLED: ContextVar[tuple[str, int, int]] = ContextVar("handled record")
"""Topic, partition and offset of the record that the running task handles."""


def tell_output(place: Session, topic: str, record_id: int) -> None:
    """Record that the task sends a record to ``topic``, if it handles one that it has read."""
    handled = HANDLED.get(None)
    if handled is not None:
        name, partition, offset = handled
        topic_id = place.topic_ids.get(name, name)
        place.port.record(OutputSent(place.group, topic_id, partition, offset, topic, record_id))
