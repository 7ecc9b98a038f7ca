"""Facts that the world records: hosts, faults, operators, the run's phases."""

from __future__ import annotations

from kafkasim.model.values import value


@value
class HostStarted:
    """A process started on its host."""

    incarnation: int  # how often it started before


@value
class HostStopped:
    """A process ended."""

    reason: str  # crash | power-loss | shutdown (clean) | halt (by itself, after an error)


@value
class HostPaused:
    """A stop-the-world pause of ``duration_us`` began."""

    duration_us: int


@value
class HostResumed:
    """A stop-the-world pause ended."""


@value
class ClockStepped:
    """A host's wall clock was set."""

    offset_us: int  # wall clock less monotonic clock


@value
class FaultStarted:
    """A fault of the scenario began."""

    fault: str
    target: str  # a node, or what the fault names


@value
class FaultEnded:
    """A fault of the scenario was healed."""

    fault: str
    target: str


@value
class DiskReplaced:
    """A host got an empty disk while its process was down."""


@value
class Operated:
    """An operator's action was answered, or ended without an answer."""

    operation: str
    target: str
    error: str
    reason: str  # the message that came with the error


@value
class Phase:
    """The run entered a phase."""

    phase: str  # ready | safety | liveness | end
    reason: str  # why the run ended
