"""Facts: what the world does to hosts."""

from __future__ import annotations

from kafkasim.model.values import value


@value
class HostStarted:
    """A process started on its host; ``incarnation`` counts from 0."""

    incarnation: int


@value
class HostStopped:
    """A process ended: ``reason`` is crash, power-loss, shutdown (clean) or halt (gave up)."""

    reason: str


@value
class HostPaused:
    """A stop-the-world pause of ``duration_us`` began."""

    duration_us: int


@value
class HostResumed:
    """The pause ended."""


@value
class ClockStepped:
    """The wall clock is now offset by ``offset_us``."""

    offset_us: int


@value
class FaultStarted:
    """A fault of the scenario began on ``target`` (a node, or what it names)."""

    fault: str
    target: str


@value
class FaultEnded:
    """The fault was healed."""

    fault: str
    target: str


@value
class DiskReplaced:
    """The host got an empty disk while its process was down."""


@value
class Operated:
    """An operator's action on ``target`` was answered, or ended without an answer.

    ``error`` is Kafka's name of it, NONE when all went well; ``reason`` is the message with it.
    """

    operation: str
    target: str
    error: str
    reason: str


@value
class Phase:
    """The run entered a phase: ready, safety, liveness, end. ``reason`` says why it ended."""

    phase: str
    reason: str
