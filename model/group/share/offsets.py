"""What operators ask of share groups' offsets: describe, alter, delete; and the end of a group.

Kafka: describeShareGroupOffsets, describeShareGroupAllOffsets, alterShareGroupOffsets,
deleteShareGroupOffsets and deleteShareGroups of GroupCoordinatorService.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import replace
from typing import Any

from kafkasim.model.coordinator.context import Parked
from kafkasim.model.coordinator.runtime import CoordinatorRuntime, client_error
from kafkasim.model.effects import Post
from kafkasim.model.errors import Errors
from kafkasim.model.group.modern.state.topics import TopicsImage
from kafkasim.model.group.shard import GroupShard
from kafkasim.model.group.share.initialization import (
    UNINITIALIZED_START_OFFSET,
    StateInitialization,
)
from kafkasim.model.group.share.log.records import Entry
from kafkasim.model.group.share.log.state import (
    InitializedPartitions,
    ShareGroup,
    StatePartitions,
    Topics,
    combined,
)
from kafkasim.model.group.share.log.writer import ShareGroupWriter
from kafkasim.model.group.share.ports import Gathering, Partition
from kafkasim.model.messages.share import (
    AlterShareGroupOffsetsRequest,
    AlterShareGroupOffsetsResponse,
    DeleteShareGroupOffsetsRequest,
    DeleteShareGroupOffsetsResponse,
    DescribedShareGroupOffsets,
    DescribeShareGroupOffsetsGroup,
    ShareGroupOffset,
)

NONE = Errors.NONE
UNKNOWN = Errors.UNKNOWN_TOPIC_OR_PARTITION


class ShareGroupOffsets:
    """Serves requests about where share groups stand."""

    def __init__(
        self,
        runtime: CoordinatorRuntime,
        image: TopicsImage,
        writer: ShareGroupWriter,
        initialization: StateInitialization,
    ) -> None:
        self._runtime = runtime
        self._image = image
        self._writer = writer
        self._initialization = initialization

    # ------------------------------------------------------------------------------ describe

    def describe(
        self,
        shard: GroupShard | Errors,
        asked: DescribeShareGroupOffsetsGroup,
        done: Callable[[DescribedShareGroupOffsets], None],
    ) -> None:
        """Read the start offsets of a group's share partitions from the share coordinators.

        Named topics are read whatever the group has. A result with an error counts as no offset.
        """
        wanted: list[tuple[str, str, tuple[int, ...]]] = []
        missing: list[tuple[str, str, tuple[ShareGroupOffset, ...]]] = []
        if asked.topics is None:
            if isinstance(shard, Errors):
                done(DescribedShareGroupOffsets(asked.group_id, shard))
                return
            group, topics = shard.share_groups.get(asked.group_id), self._image.topics
            known = {} if group is None else group.initialized()
            wanted = [
                (topics[each].name, each, numbers)
                for each, numbers in known.items()
                if each in topics
            ]
        for name, numbers in asked.topics or ():
            topic = self._image.topic_by_name(name)
            if topic is None:
                none = UNINITIALIZED_START_OFFSET
                found = tuple([ShareGroupOffset(number, none, 0) for number in numbers])
                missing.append((name, "", found))
            else:
                wanted.append((name, topic.topic_id, numbers))
        self._read(asked.group_id, wanted, missing, done)

    def _read(
        self,
        group_id: str,
        wanted: list[tuple[str, str, tuple[int, ...]]],
        missing: list[tuple[str, str, tuple[ShareGroupOffset, ...]]],
        done: Callable[[DescribedShareGroupOffsets], None],
    ) -> None:
        persister = self._initialization.persister
        partitions = [(topic_id, number) for _, topic_id, some in wanted for number in some]
        if not partitions:
            done(DescribedShareGroupOffsets(group_id, topics=tuple(missing)))
            return
        assert persister is not None, group_id

        def on_results(results: dict[Partition, Any], _now: int) -> None:
            read = [
                (name, topic_id, tuple([_offset(n, results[topic_id, n]) for n in numbers]))
                for name, topic_id, numbers in wanted
            ]
            done(DescribedShareGroupOffsets(group_id, topics=(*missing, *read)))

        gathering = Gathering(partitions, on_results)
        for topic_id, number in dict.fromkeys(partitions):
            persister.read_summary(group_id, topic_id, number, 0, gathering.taker(topic_id, number))

    # --------------------------------------------------------------------------------- alter

    def on_alter(
        self, shard: GroupShard, parked: Parked, request: AlterShareGroupOffsetsRequest, now: int
    ) -> None:
        """Set start offsets of an empty group: its share partitions begin there anew.

        Whatever the share coordinators answer, the response is the same, as in Kafka.
        """
        group = shard.share_groups.get(request.group_id)
        error = _not_alterable(group)
        if error is not NONE or group is None:
            self._runtime.respond(parked, AlterShareGroupOffsetsResponse(error))
            return
        offsets: dict[Partition, int] = {}
        answer, begun = self._altered(request, offsets, now)
        entries: list[Entry] = []
        if begun:
            entries.append(self._initialization.initializing_entry(group, begun))
        group_id, epoch = request.group_id, group.group_epoch
        error = self._writer.write(shard, group_id, entries, "offsets altered", now)

        def on_committed(_: None, failed: Errors, _at: int) -> None:
            if failed is not NONE:
                refused = AlterShareGroupOffsetsResponse(client_error(failed))
                self._runtime.respond(parked, refused)
            elif offsets:
                self._initialization.ask(shard, group_id, epoch, offsets, on_asked)
            else:
                self._runtime.respond(parked, answer)

        def on_asked(failed: bool, at: int) -> None:
            self._runtime.respond(parked, answer)
            if not failed:
                done = {each: topic.partitions for each, topic in begun.items()}
                self._initialization.initialized(shard, group_id, done, at)

        if error is NONE:
            self._runtime.defer(shard.context, on_committed, None, now)
        else:
            on_committed(None, error, now)

    def _altered(
        self, request: AlterShareGroupOffsetsRequest, offsets: dict[Partition, int], now: int
    ) -> tuple[AlterShareGroupOffsetsResponse, Topics]:
        """Return the response and the topics that begin; fill ``offsets`` with where they do."""
        responses: list[tuple[str, str, tuple[tuple[int, Errors], ...]]] = []
        begun: dict[str, InitializedPartitions] = {}
        now_ms = self._runtime.wall_ms(now)
        for name, partitions in request.topics:
            topic = self._image.topic_by_name(name)
            known: Mapping[int, object] = {} if topic is None else topic.partitions
            topic_id = "" if topic is None else topic.topic_id
            there = [(number, offset) for number, offset in partitions if number in known]
            offsets.update({(topic_id, number): offset for number, offset in there})
            if topic is not None:
                numbers = tuple(sorted({number for number, _ in there}))
                begun[topic_id] = InitializedPartitions(name, numbers, now_ms)
            results = tuple([(n, NONE if n in known else UNKNOWN) for n, _ in partitions])
            responses.append((name, topic_id, results))
        topics = {topic_id: begun[topic_id] for topic_id in sorted(begun)}
        return AlterShareGroupOffsetsResponse(NONE, tuple(responses)), topics

    # -------------------------------------------------------------------------------- delete

    def on_delete_offsets(
        self, shard: GroupShard, parked: Parked, request: DeleteShareGroupOffsetsRequest, now: int
    ) -> None:
        """Remove topics from an empty group: first from the share coordinators."""
        group = shard.share_groups.get(request.group_id)
        error = _not_alterable(group)
        if error is not NONE or group is None:
            self._runtime.respond(parked, DeleteShareGroupOffsetsResponse(error))
            return
        info = group.state_partitions
        refused: list[tuple[str, str, Errors]] = []
        gone: dict[str, tuple[int, ...]] = {}
        entries: list[Entry] = []
        if info is not None:
            changed = self._to_delete(info, request.topics, gone, refused)
            entries.append(self._initialization.entry(group.group_id, changed))
        group_id = request.group_id
        error = self._writer.write(shard, group_id, entries, "offsets to be deleted", now)

        def on_committed(_: None, failed: Errors, _at: int) -> None:
            if failed is not NONE:
                answer = DeleteShareGroupOffsetsResponse(client_error(failed))
                self._runtime.respond(parked, answer)
            elif not gone:
                answer = DeleteShareGroupOffsetsResponse(NONE, tuple(refused))
                self._runtime.respond(parked, answer)
            else:
                self._delete(shard, group_id, gone, on_deleted)

        def on_deleted(errors: dict[str, Errors], at: int) -> None:
            self._on_deleted(shard, parked, group_id, errors, refused, at)

        if error is NONE:
            self._runtime.defer(shard.context, on_committed, None, now)
        else:
            on_committed(None, error, now)

    def _to_delete(
        self,
        info: StatePartitions,
        names: tuple[str, ...],
        gone: dict[str, tuple[int, ...]],
        refused: list[tuple[str, str, Errors]],
    ) -> StatePartitions:
        """Return the share partitions with topics moved to deleting, those in ``gone``
        (sharePartitionsEligibleForOffsetDeletion)."""
        initialized = dict(info.initialized)
        deleting = dict.fromkeys(info.deleting)
        for name in names:
            topic = self._image.topic_by_name(name)
            if topic is None:
                refused.append((name, "", UNKNOWN))
            elif topic.topic_id in initialized:
                gone[topic.topic_id] = initialized.pop(topic.topic_id).partitions
                deleting[topic.topic_id] = None
            elif topic.topic_id in deleting:  # an earlier request did not succeed
                gone[topic.topic_id] = tuple(topic.partitions)
            else:
                refused.append((name, "", UNKNOWN))
        return replace(info, initialized=initialized, deleting=tuple(sorted(deleting)))

    def _on_deleted(
        self,
        shard: GroupShard,
        parked: Parked,
        group_id: str,
        errors: dict[str, Errors],
        refused: list[tuple[str, str, Errors]],
        now: int,
    ) -> None:
        topics = self._image.topics
        names = {each: topics[each].name if each in topics else "" for each in errors}
        refused += [(names[e], e, error) for e, error in errors.items() if error is not NONE]
        deleted = [(names[e], e, NONE) for e, error in errors.items() if error is NONE]
        group = shard.share_groups.get(group_id)
        info = None if group is None else group.state_partitions
        entries: list[Entry] = []
        if deleted and not shard.context.is_active:
            answer = DeleteShareGroupOffsetsResponse(Errors.NOT_COORDINATOR)
            self._runtime.respond(parked, answer)
            return
        if deleted and info is not None:
            done = [topic_id for _, topic_id, _ in deleted]
            left = tuple([each for each in info.deleting if each not in done])
            entries.append(self._initialization.entry(group_id, replace(info, deleting=left)))
        answer = DeleteShareGroupOffsetsResponse(NONE, (*(deleted if entries else ()), *refused))
        error = self._writer.write(shard, group_id, entries, "offsets deleted", now)

        def on_written(_: None, failed: Errors, _at: int) -> None:
            late = DeleteShareGroupOffsetsResponse(client_error(failed))
            self._runtime.respond(parked, late if failed is not NONE else answer)

        if error is NONE:
            self._runtime.defer(shard.context, on_written, None, now)
        else:
            on_written(None, error, now)

    def _delete(
        self,
        shard: GroupShard,
        group_id: str,
        gone: Mapping[str, tuple[int, ...]],
        done: Callable[[dict[str, Errors], int], None],
    ) -> None:
        """Ask the persister; on the shard's lane then call ``done(error of each topic, now)``."""
        persister = self._initialization.persister
        assert persister is not None, group_id
        partitions = [(topic_id, number) for topic_id, some in gone.items() for number in some]

        def on_results(results: dict[Partition, Any], _now: int) -> None:
            errors = dict.fromkeys(gone, NONE)
            for (topic_id, _), result in results.items():
                if errors[topic_id] is NONE:
                    errors[topic_id] = result.error
            self._runtime.out.append(Post(shard.context.lane, _finish, (done, errors)))

        gathering = Gathering(partitions, on_results)
        for topic_id, number in partitions:
            persister.delete_state(group_id, topic_id, number, gathering.taker(topic_id, number))

    # ------------------------------------------------------------------------ whole groups

    def delete_states(
        self,
        shard: GroupShard,
        group_id: str,
        done: Callable[[Errors, int], None],
        now: int,
    ) -> bool:
        """Have the states of an empty group's share partitions deleted, then call
        ``done(error, now)`` on the shard's lane. Return False if there is none to delete
        (shareGroupBuildPartitionDeleteRequest)."""
        group = shard.share_groups[group_id]
        info = group.state_partitions
        if info is None:
            return False
        candidates = combined(info.initialized, info.initializing)
        topics = self._image.topics
        again = {
            each: InitializedPartitions(topics[each].name, tuple(topics[each].partitions), -1)
            for each in info.deleting
            if each in topics
        }
        candidates = combined(candidates, again)
        if not candidates and not info.deleting:
            return False
        changed = StatePartitions(deleting=tuple(sorted(candidates)))
        entries = [self._initialization.entry(group_id, changed)]
        error = self._writer.write(shard, group_id, entries, "group to be deleted", now)

        def on_committed(_: None, failed: Errors, at: int) -> None:
            if failed is not NONE:
                done(client_error(failed), at)
            elif not candidates:
                done(NONE, at)
            else:
                gone = {each: topic.partitions for each, topic in candidates.items()}
                self._delete(shard, group_id, gone, on_deleted)

        def on_deleted(errors: dict[str, Errors], at: int) -> None:
            done(next((each for each in errors.values() if each is not NONE), NONE), at)

        if error is NONE:
            self._runtime.defer(shard.context, on_committed, None, now)
        else:
            on_committed(None, error, now)
        return True

    def cleanup(self, shard: GroupShard, topic_ids: tuple[str, ...], now: int) -> None:
        """Forget the share partitions of deleted topics; the share coordinators do so by
        themselves (maybeCleanupShareGroupState)."""
        for group_id, group in list(shard.share_groups.items()):
            info = group.state_partitions
            if info is None or not any(
                each in info.initializing or each in info.initialized for each in topic_ids
            ):
                continue
            changed = StatePartitions(
                {each: found for each, found in info.initializing.items() if each not in topic_ids},
                {each: found for each, found in info.initialized.items() if each not in topic_ids},
                tuple([each for each in info.deleting if each not in topic_ids]),
            )
            entries = [self._initialization.entry(group_id, changed)]
            self._writer.write(shard, group_id, entries, "topics deleted", now)


def _offset(number: int, result: Any) -> ShareGroupOffset:
    if result.error is not NONE:
        return ShareGroupOffset(number, UNINITIALIZED_START_OFFSET, 0)
    return ShareGroupOffset(number, result.start_offset, result.leader_epoch)


def _not_alterable(group: ShareGroup | None) -> Errors:
    """Return why the offsets of a group may not be changed: it has to be there and empty."""
    if group is None:
        return Errors.GROUP_ID_NOT_FOUND
    return Errors.NON_EMPTY_GROUP if group.members else NONE


def _finish(message: tuple[Callable[[Any, int], None], Any], now: int) -> None:
    message[0](message[1], now)
