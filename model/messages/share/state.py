"""What brokers ask a share coordinator (KIP-932): version 0 of five requests.

The coordinator keeps the state of share partitions, one for each group and partition. A request
names the partitions of one group by their topics' ids.
"""

from __future__ import annotations

from kafkasim.model.errors import Errors
from kafkasim.model.messages.base import HEADER, PER_PARTITION, Message
from kafkasim.model.values import value

PER_BATCH = 19
"""Bytes of a state batch."""


@value
class StateBatch:
    """What became of a range of offsets: their delivery state, and how often they were delivered.

    ``delivery_state`` is 0 Available, 2 Acknowledged or 4 Archived (RecordState's ids).
    """

    first_offset: int
    last_offset: int  # inclusive
    delivery_state: int
    delivery_count: int


@value
class InitializeStatePartition:
    partition: int
    state_epoch: int
    start_offset: int  # −1: the group's share.auto.offset.reset decides


@value
class InitializeShareGroupStateRequest(Message):
    """The group coordinator has a share partition begin, or begin anew with a higher epoch."""

    group_id: str
    topics: tuple[tuple[str, tuple[InitializeStatePartition, ...]], ...]  # (topic id, partitions)

    def wire_size(self) -> int:
        """Return the bytes that the message takes on the network."""
        return HEADER + sum([16 + PER_PARTITION * len(each) for _, each in self.topics])


@value
class StatePartitionResult:
    """The result of a change of a share partition's state."""

    partition: int
    error: Errors = Errors.NONE
    error_message: str = ""


@value
class InitializeShareGroupStateResponse(Message):
    results: tuple[tuple[str, tuple[StatePartitionResult, ...]], ...]  # (topic id, partitions)

    def wire_size(self) -> int:
        """Return the bytes that the message takes on the network."""
        return HEADER + sum([16 + PER_PARTITION * len(each) for _, each in self.results])


@value
class ReadStatePartition:
    partition: int
    leader_epoch: int  # of the partition's leader; −1: no leader asks


@value
class ReadShareGroupStateRequest(Message):
    """A partition's leader takes over what its predecessor has written."""

    group_id: str
    topics: tuple[tuple[str, tuple[ReadStatePartition, ...]], ...]  # (topic id, partitions)

    def wire_size(self) -> int:
        """Return the bytes that the message takes on the network."""
        return HEADER + sum([16 + PER_PARTITION * len(each) for _, each in self.topics])


@value
class ReadStateResult:
    partition: int
    error: Errors = Errors.NONE
    error_message: str = ""
    state_epoch: int = 0
    start_offset: int = 0  # −1: the group's share.auto.offset.reset decides
    state_batches: tuple[StateBatch, ...] = ()


@value
class ReadShareGroupStateResponse(Message):
    results: tuple[tuple[str, tuple[ReadStateResult, ...]], ...]  # (topic id, partitions)

    def wire_size(self) -> int:
        """Return the bytes that the message takes on the network."""
        partitions = [each for _, results in self.results for each in results]
        batches = sum([len(each.state_batches) for each in partitions])
        return (
            HEADER + 16 * len(self.results) + PER_PARTITION * len(partitions) + PER_BATCH * batches
        )


@value
class WriteStatePartition:
    partition: int
    state_epoch: int
    leader_epoch: int
    start_offset: int  # −1: as it was
    state_batches: tuple[StateBatch, ...]


@value
class WriteShareGroupStateRequest(Message):
    """A partition's leader persists what became of the records that it handed out."""

    group_id: str
    topics: tuple[tuple[str, tuple[WriteStatePartition, ...]], ...]  # (topic id, partitions)

    def wire_size(self) -> int:
        """Return the bytes that the message takes on the network."""
        partitions = [each for _, topic in self.topics for each in topic]
        batches = sum([len(each.state_batches) for each in partitions])
        fixed = HEADER + 16 * len(self.topics) + PER_PARTITION * len(partitions)
        return fixed + PER_BATCH * batches


@value
class WriteShareGroupStateResponse(Message):
    results: tuple[tuple[str, tuple[StatePartitionResult, ...]], ...]  # (topic id, partitions)

    def wire_size(self) -> int:
        """Return the bytes that the message takes on the network."""
        return HEADER + sum([16 + PER_PARTITION * len(each) for _, each in self.results])


@value
class DeleteShareGroupStateRequest(Message):
    """The group coordinator has share partitions forgotten: a group or a topic is deleted."""

    group_id: str
    topics: tuple[tuple[str, tuple[int, ...]], ...]  # (topic id, partitions)


@value
class DeleteShareGroupStateResponse(Message):
    results: tuple[tuple[str, tuple[StatePartitionResult, ...]], ...]  # (topic id, partitions)

    def wire_size(self) -> int:
        """Return the bytes that the message takes on the network."""
        return HEADER + sum([16 + PER_PARTITION * len(each) for _, each in self.results])


@value
class ReadShareGroupStateSummaryRequest(Message):
    """The group coordinator asks where share partitions start, for an operator."""

    group_id: str
    topics: tuple[tuple[str, tuple[ReadStatePartition, ...]], ...]  # (topic id, partitions)

    def wire_size(self) -> int:
        """Return the bytes that the message takes on the network."""
        return HEADER + sum([16 + PER_PARTITION * len(each) for _, each in self.topics])


@value
class ReadStateSummaryResult:
    partition: int
    error: Errors = Errors.NONE
    error_message: str = ""
    state_epoch: int = 0
    leader_epoch: int = 0
    start_offset: int = 0  # −1: not initialized


@value
class ReadShareGroupStateSummaryResponse(Message):
    results: tuple[tuple[str, tuple[ReadStateSummaryResult, ...]], ...]  # (topic id, partitions)

    def wire_size(self) -> int:
        """Return the bytes that the message takes on the network."""
        return HEADER + sum([16 + PER_PARTITION * len(each) for _, each in self.results])
