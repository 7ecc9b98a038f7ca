"""Snapshots of the replicated state (KIP-630): the files, taking one, cleaning, serving chunks.

Models KafkaMetadataLog's snapshots, FileRawSnapshotWriter, RaftMetadataLogCleanerManager and
handleFetchSnapshotRequest. A snapshot ``<end offset>-<epoch>.checkpoint`` holds all that the log
below its end offset says; the file is a header and chunks of values. It is written as ``.part``,
made durable, renamed, and the name made durable; only then does anything rely on it. A snapshot
moves the log start when it is cleaned for: every minute the oldest goes while log and snapshots
are larger or older than the retention, and the log below the next one with it.

Left out: the bootstrap snapshot of ``kafka-storage format``, footers.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from typing import TYPE_CHECKING, Any

from kafkasim.model.effects import Flush, Post, Request, Respond
from kafkasim.model.errors import Errors
from kafkasim.model.facts import MetadataSnapshot
from kafkasim.model.messages import FetchSnapshotRequest, FetchSnapshotResponse
from kafkasim.model.raft.log.appends import RECORD_SIZE
from kafkasim.model.raft.quorum.states import Leader
from kafkasim.model.storage.files import Corrupt, DiskError, Files
from kafkasim.model.values import value

if TYPE_CHECKING:
    from kafkasim.model.raft.client import RaftClient

LANE = "raft"
SUFFIX = ".checkpoint"
PART = ".part"
CLEAN_TIMER = (LANE, "clean")
CLEAN_INTERVAL_US = 60_000_000
CHUNK = 100  # values

SnapshotId = tuple[int, int]  # (end offset, epoch)


@value
class SnapshotHeader:
    """The control records that open a snapshot: SnapshotHeaderRecord and VotersRecord."""

    last_contained_log_timestamp_ms: int
    voters: Any = None


def chunk_size(chunk: Any) -> int:
    """Return the bytes of a chunk of values, or of the header."""
    return RECORD_SIZE * (len(chunk) if type(chunk) is tuple else 1)


class SnapshotStore:
    """The snapshot files of one log; ``ids`` are complete, oldest first."""

    __slots__ = ("_directory", "_files", "ids")

    def __init__(self, files: Files, directory: str) -> None:
        self._files = files
        self._directory = directory
        self.ids: list[SnapshotId] = []
        for path in files.paths(directory + "/"):
            if path.endswith(SUFFIX + PART):
                files.delete(path)
            elif path.endswith(SUFFIX):
                end_offset, _, epoch = path[len(directory) + 1 : -len(SUFFIX)].partition("-")
                self.ids.append((int(end_offset), int(epoch)))

    @property
    def latest(self) -> SnapshotId | None:
        """The newest complete snapshot."""
        return self.ids[-1] if self.ids else None

    def path(self, snapshot: SnapshotId) -> str:
        """Return the path of a complete snapshot."""
        return f"{self._directory}/{snapshot[0]:020d}-{snapshot[1]:010d}{SUFFIX}"

    def begin(self, snapshot: SnapshotId) -> None:
        """Start writing a snapshot anew."""
        self._files.delete(self.path(snapshot) + PART)

    def append(self, snapshot: SnapshotId, chunk: Any) -> None:
        """Write the next chunk."""
        self._files.append(self.path(snapshot) + PART, chunk, chunk_size(chunk))

    def written(self, snapshot: SnapshotId) -> int:
        """Return how many bytes of an unfinished snapshot there are."""
        part = self.path(snapshot) + PART
        return self._files.size(part) if self._files.exists(part) else 0

    def freeze(self, snapshot: SnapshotId) -> None:
        """Give the finished file its name; it counts from then on."""
        path = self.path(snapshot)
        self._files.rename(path + PART, path)
        self.ids = sorted([*[each for each in self.ids if each != snapshot], snapshot])

    def size(self, snapshot: SnapshotId) -> int:
        """Return a complete snapshot's size in bytes."""
        return self._files.size(self.path(snapshot))

    def read(self, snapshot: SnapshotId) -> list[Any]:
        """Return header and chunks. Raises DiskError where the device has lost one."""
        chunks = self._files.read(self.path(snapshot))
        if not chunks or any(type(chunk) is Corrupt for chunk in chunks):
            raise DiskError(self.path(snapshot), "corrupt snapshot")
        return chunks

    def delete(self, snapshot: SnapshotId) -> None:
        """Delete one snapshot."""
        self._files.delete(self.path(snapshot))
        self.ids.remove(snapshot)

    def delete_before(self, snapshot: SnapshotId) -> None:
        """Delete the snapshots older than ``snapshot``."""
        for old in [each for each in self.ids if each < snapshot]:
            self._files.delete(self.path(old))
        self.ids = [each for each in self.ids if each >= snapshot]


class Snapshots:
    """What a replica does with snapshots of its own; :mod:`fetching` loads those of a leader."""

    def __init__(self, client: RaftClient) -> None:
        self.client = client
        self.store = SnapshotStore(client.process.files, client.log.directory)

    @property
    def latest_epoch(self) -> int:
        """The epoch of the newest snapshot, 0 without one (the log is then empty too)."""
        return self.store.ids[-1][1] if self.store.ids else 0

    def start(self, now: int) -> None:
        """Bring the log behind the newest snapshot, which a crash may have prevented
        (truncateToLatestSnapshot), and give the snapshot to the listener."""
        latest = self.store.latest
        if latest is None:
            return
        self.truncate_to(latest)
        self._arm_cleaning(now)
        self.client.voter_sets.loaded(latest[0], self.voters(latest), now)
        self.client.deliver_snapshot(latest, now)

    def voters(self, snapshot: SnapshotId) -> Any:
        """Return the voter set that a snapshot names, None for the static one."""
        return self.store.read(snapshot)[0].voters

    def truncate_to(self, snapshot: SnapshotId) -> None:
        """Start the log anew at the end of a snapshot that is beyond it."""
        log = self.client.log
        end_offset, epoch = snapshot
        latest_epoch = max(log.epochs.latest_epoch, 0)
        if (epoch, end_offset) > (latest_epoch, log.log_end_offset):
            log.truncate_fully_and_start_at(end_offset)
            self.store.delete_before(snapshot)
            self.client.log_end_offset = end_offset

    # --------------------------------------------------------------------------- taking one

    def create(self, message: tuple[int, int, list[Any]], now: int) -> None:
        """Write a snapshot of what is committed below its end offset; one that exists is enough."""
        client = self.client
        end_offset, epoch, values = message
        snapshot = (end_offset, epoch)
        if client.halted or end_offset < client.log.log_start_offset or snapshot in self.store.ids:
            return
        assert end_offset <= client.high_watermark, (end_offset, client.high_watermark)
        header = SnapshotHeader(client.process.wall_ms(now), client.voter_sets.at(end_offset))
        chunks = [tuple(values[at : at + CHUNK]) for at in range(0, len(values), CHUNK)]
        try:
            self.store.begin(snapshot)
            for chunk in (header, *chunks):
                self.store.append(snapshot, chunk)
        except DiskError as error:
            client.halt(str(error))
            return
        self.install(snapshot, partial(self._created, snapshot), now)

    def install(self, snapshot: SnapshotId, done: Callable[[int], None], now: int) -> None:
        """Make a finished file durable, then its name; then call ``done``."""
        part = self.store.path(snapshot) + PART
        self.client.process.out.append(Flush((part,), partial(self._freeze, snapshot, done)))

    def _freeze(
        self, snapshot: SnapshotId, done: Callable[[int], None], error: str | None, now: int
    ) -> None:
        client = self.client
        if client.halted:
            return
        if error is not None:
            client.halt(error)
            return
        try:
            self.store.freeze(snapshot)
        except DiskError as failure:
            client.halt(str(failure))
            return
        path = self.store.path(snapshot)
        client.process.out.append(Flush((path,), partial(self._frozen, done)))

    def _frozen(self, done: Callable[[int], None], error: str | None, now: int) -> None:
        if error is not None:
            self.client.halt(error)
        elif not self.client.halted:
            self._arm_cleaning(now)
            done(now)

    def _created(self, snapshot: SnapshotId, now: int) -> None:
        """A snapshot of one's own moves nothing until it is cleaned for."""
        self.client.process.out.append(MetadataSnapshot("created", *snapshot))

    # ----------------------------------------------------------------------------- cleaning

    def _arm_cleaning(self, now: int) -> None:
        timers = self.client.process.timers
        if not timers.armed(CLEAN_TIMER):
            timers.arm(CLEAN_TIMER, now + CLEAN_INTERVAL_US, LANE, self._on_clean)

    def _on_clean(self, now: int) -> None:
        if self.client.halted:
            return
        self._arm_cleaning(now)
        try:
            self.clean(now)
        except DiskError as error:
            self.client.halt(str(error))

    def clean(self, now: int) -> None:
        """Delete old snapshots, and the log below those that remain (maybeClean)."""
        config, store = self.client.config, self.store
        total = sum([store.size(each) for each in store.ids])
        now_ms = self.client.process.wall_ms(now)
        for old, following in zip(list(store.ids), store.ids[1:], strict=False):
            too_large = 0 <= config.metadata_max_retention_bytes < self.client.log.size + total
            if not too_large and not self._is_old(old, now_ms):
                return
            total -= store.size(old)
            if not self._delete_before(following, now_ms):
                return

    def _is_old(self, snapshot: SnapshotId, now_ms: int) -> bool:
        retention_ms = self.client.config.metadata_max_retention_ms
        header = self.store.read(snapshot)[0]
        return bool(0 <= retention_ms < now_ms - header.last_contained_log_timestamp_ms)

    def _delete_before(self, snapshot: SnapshotId, now_ms: int) -> bool:
        log = self.client.log
        if snapshot[0] > log.high_watermark or not log.raise_log_start(snapshot[0], "snapshot"):
            return False
        log.delete_old_segments(now_ms)
        self.store.delete_before(snapshot)
        self.client.process.out.append(MetadataSnapshot("cleaned", *snapshot))
        return True

    # ------------------------------------------------------------------------------ serving

    def needed(self, offset: int, epoch: int) -> SnapshotId | None:
        """Return the snapshot that a replica with this log end must load first, or None."""
        ids = self.store.ids
        if not ids or (offset, epoch) in ids:
            return None
        start = self.client.log.log_start_offset
        if offset == 0 or offset < start or epoch < ids[0][1]:
            return ids[-1]
        if offset == start and start > 0 and epoch != ids[0][1]:
            return ids[-1]
        return None

    def on_fetch_snapshot(self, item: Request, now: int) -> None:
        """Serve a chunk of a snapshot (handleFetchSnapshotRequest)."""
        client = self.client
        request: FetchSnapshotRequest = item.message
        role = client.state
        error = client.server.check_epoch(request.current_leader_epoch)
        if error is Errors.NONE and request.snapshot_id not in self.store.ids:
            error = Errors.SNAPSHOT_NOT_FOUND
        if error is not Errors.NONE or not isinstance(role, Leader):
            self._respond(item, FetchSnapshotResponse(error, client.leader_id, client.epoch))
            return
        client.server.heard(role, request.replica_id, now)
        try:
            self._respond(item, self._chunks(role, request))
        except DiskError:
            error = Errors.KAFKA_STORAGE_ERROR
            self._respond(item, FetchSnapshotResponse(error, client.leader_id, client.epoch))

    def _chunks(self, role: Leader, request: FetchSnapshotRequest) -> FetchSnapshotResponse:
        leader, snapshot = self.client.node_id, request.snapshot_id
        size = self.store.size(snapshot)
        if not 0 <= request.position < size:
            return FetchSnapshotResponse(Errors.POSITION_OUT_OF_RANGE, leader, role.epoch)
        items: list[tuple[Any, int]] = []
        position = taken = 0
        for chunk in self.store.read(snapshot):
            bytes_ = chunk_size(chunk)
            if position >= request.position:
                if items and taken + bytes_ > request.max_bytes:
                    break
                items.append((chunk, bytes_))
                taken += bytes_
            position += bytes_
        return FetchSnapshotResponse(
            Errors.NONE, leader, role.epoch, snapshot, size, request.position, tuple(items)
        )

    def _respond(self, item: Request, message: FetchSnapshotResponse) -> None:
        self.client.process.out.append(Respond(item.connection, item.correlation, message))


def post_create(client: RaftClient, end_offset: int, epoch: int, values: list[Any]) -> None:
    """Ask lane ``raft`` to write a snapshot."""
    client.process.out.append(Post(LANE, client.snapshots.create, (end_offset, epoch, values)))
