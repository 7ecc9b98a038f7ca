"""Facts that the world records: hosts, faults, operators, the run's phases; and Kafka's holes."""

from __future__ import annotations

from kafkasim.model.values import value

EPOCH_US = 1_700_000_000_000_000
"""The wall clock of all hosts when a trace begins, in µs since 1970, before faults set clocks."""


@value
class HostStarted:
    """A process started on its host."""

    incarnation: int  # how often it started before


@value
class HostStopped:
    """A process ended."""

    # crash | power-loss | shutdown (clean) | halt (an error of its own) | application-failed |
    # application-returned (its clients are not closed) | disk-error (unreadable at the start)
    reason: str
    detail: str = ""  # of a halt: the error


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
class ClockDrifted:
    """A host's monotonic clock runs at another rate from now on."""

    drift_ppm: int  # µs that it gains in a second; 0: true time


@value
class TimeLimit:
    """A time limit of the configuration that a process was started with."""

    config: str  # Kafka's name of the setting
    limit_us: int


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
class DiskDamaged:
    """A fault began to damage a host's disk: by decision of the scenario, not of Kafka."""

    reason: str  # failed flush: writes that were reported as durable are lost | failed disk
    directory: str  # what cannot be read: all paths that begin so; "" with a failed flush


@value
class DiskFilled:
    """A log directory had no room for a write, for the first time since the process started."""

    directory: str  # its entry in log.dirs; "" if the broker has one
    capacity: int  # in bytes


@value
class DiskReplaced:
    """A host got an empty disk while its process was down."""

    directory_ids: tuple[str, ...] = ()  # of a controller: the directory id that went with the old


@value
class Operated:
    """An operator's action was answered, or ended without an answer."""

    operation: str
    target: str
    error: str
    reason: str  # the message that came with the error


@value
class HangingSought:
    """An operator begins to look for hanging transactions (kafka-transactions.sh find-hanging).

    What it finds it aborts; the Operated of ``abort-hanging`` ends that.
    """

    topic: str


@value
class ApplicationFailed:
    """An application on a client host raised an exception that nothing in it handled."""

    task: str  # the asyncio task that raised
    ended: bool  # True: it was a main task, and the process ended with it, without closing clients
    exception: str  # its class
    reason: str  # its message
    traceback: tuple[str, ...]  # the innermost frame last: module:line in function


@value
class RestartBackOff:
    """The restart policy will start a client's process again that its application has ended."""

    duration_us: int  # how long after now


@value
class RuleActed:
    """A variant's rule has decided otherwise on this host than Kafka's, or would have.

    It would have if the scenario only watches the variant. The fact is told for the first time
    before the cluster is ready, and for the first time since. The rules of clients and of ZooKeeper
    are not told apart by host.
    """

    rule: str  # part and method, e.g. replication.truncation_offset


@value
class Phase:
    """The run entered a phase."""

    phase: str  # ready | safety | liveness | end
    reason: str  # why the run ended; with liveness: the faults that do not end


@value
class HoleEntered:
    """A known defect or limit of Kafka strikes here; ``analysis/judging/holes.py`` has the table.

    The fields name what it concerns; "" and −1 stand for nothing.
    """

    hole: str  # its name in the table
    topic_id: str = ""
    partition: int = -1
    group: str = ""
    transactional_id: str = ""
    producer_id: int = -1
    broker: int = -1


@value
class Waiting:
    """At the limit of a healed run somebody still waits (``analysis/judging/wait.py``)."""

    what: str  # is waited for
    host: str
    topic_id: str
    partition: int
    group: str
    producer_id: int
    offset: int  # where the group is, or the transaction began
    end_offset: int  # up to which there is something to do; or the leader epoch
    detail: str
    waited_us: int
