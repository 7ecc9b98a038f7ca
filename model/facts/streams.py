"""Facts recorded by applications of Kafka Streams. ``group`` is the application.id."""

from __future__ import annotations

from kafkasim.model.values import value


@value
class StreamsStarted:
    """An instance of an application begins to run."""

    group: str
    process_id: str  # the same as long as the instance keeps its state directory
    guarantee: str  # processing.guarantee
    threads: int
    cache_bytes: int  # statestore.cache.max.bytes; 0: every update goes on at once


@value
class StreamThreadState:
    """A stream thread changed its state (StreamThread.State)."""

    group: str
    thread: int  # number of the thread in its instance, from 1
    state: str
    reason: str  # the error that made it end; "" otherwise


@value
class TasksAssigned:
    """The leader of the group gave a thread its tasks; the leader's view."""

    group: str
    process_id: str  # of the thread's instance
    member_id: str
    active_tasks: tuple[str, ...]
    standby_tasks: tuple[str, ...]  # replicas, and warm-ups
    warmup_tasks: tuple[str, ...]  # standbys of the instance that are to become active (KIP-441)
    rebalance_ms: int  # when the thread has to join again, wall clock; −1: it need not


@value
class TaskState:
    """A task of a thread changed its state (Task.State)."""

    group: str
    thread: int
    task: str  # subtopology_partition
    role: str  # active | standby
    state: str
    reason: str  # created | restored | revoked | closed-clean | closed-dirty | recycled | …


@value
class TaskTook:
    """An active task took a record from its queues and processed it."""

    group: str
    thread: int
    task: str
    topic: str
    partition: int
    offset: int
    key: str  # as model/streams/told.py has it
    value: str
    timestamp_ms: int  # of the record
    wall_ms: int  # the clock that the task saw


@value
class TaskPunctuated:
    """Punctuators of an active task fired."""

    group: str
    thread: int
    task: str
    wall_clock: bool  # False: by stream time
    wall_ms: int


@value
class TaskFlushed:
    """An active task let its caches go on: it is to commit these offsets."""

    group: str
    thread: int
    task: str
    positions: tuple[str, ...]  # topic-partition@offset of each input


@value
class TaskCommitted:
    """The offsets of an active task are committed, as its thread was told."""

    group: str
    thread: int
    task: str
    positions: tuple[str, ...]


@value
class StreamsSent:
    """An active task sent a record to a topic that is no changelog."""

    group: str
    task: str
    topic: str
    record_id: int
    key: str  # as model/streams/told.py has it
    value: str  # "null" for a deletion
    timestamp_ms: int


@value
class RecordDropped:
    """A source, operator or store of an active task dropped a record (dropped-records-total)."""

    group: str
    task: str
    processor: str  # the node; "" of a store
    reason: str  # null-key | null-key-or-value | expired-window | expired-segment | deserialization
    topic: str
    partition: int
    offset: int


@value
class RestoreBegan:
    """A task begins to read a store's changelog."""

    group: str
    thread: int
    task: str
    role: str
    topic: str
    partition: int
    start_offset: int
    end_offset: int  # where an active task's restore ends; −1 of a standby: it goes on


@value
class Restored:
    """A task has applied records of a changelog."""

    group: str
    thread: int
    task: str
    role: str
    topic: str
    partition: int
    start_offset: int
    offset: int  # after the last one
    records: int
    size_bytes: int


@value
class Checkpointed:
    """A task wrote its checkpoint file, after its stores were flushed."""

    group: str
    task: str
    positions: tuple[str, ...]  # changelog-partition@offset of the last record in the stores


@value
class StateOpened:
    """An active task begins to process: what each of its key-value stores holds then."""

    group: str
    task: str
    stores: tuple[str, ...]
    digests: tuple[int, ...]  # CRC-32 over the entries of each store, in the order of their keys


@value
class StateWiped:
    """The directory of a task was deleted."""

    group: str
    task: str
    reason: str  # dirty: closed dirty under exactly_once_v2 | cleaner | corrupted
