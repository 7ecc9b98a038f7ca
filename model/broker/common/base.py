"""What every broker is, wherever its metadata comes from (KafkaBroker).

:class:`kafkasim.model.broker.kraft.broker.Broker` follows a KRaft metadata log, and
:class:`kafkasim.model.broker.zk.broker.ZkBroker` obeys a controller that keeps its state in ZooKeeper. Both
build the parts named here in their constructor.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import TYPE_CHECKING, Any, Protocol

from kafkasim.model.broker.common.apis import REQUEST_LANES, KafkaApis
from kafkasim.model.effects import Exit, Post, Request
from kafkasim.model.errors import Errors
from kafkasim.model.records import RecordBatch, TopicPartition
from kafkasim.model.replication.ports import BrokerProcess
from kafkasim.model.storage.files import DiskError

if TYPE_CHECKING:
    from kafkasim.model.broker.common.statistics import RequestStatistics
    from kafkasim.model.channel import Done
    from kafkasim.model.config import BrokerConfig
    from kafkasim.model.controller.common.image import MetadataImage
    from kafkasim.model.group.coordinator import GroupCoordinator
    from kafkasim.model.replication.manager import ReplicaManager
    from kafkasim.model.storage.directories import LogDirectory

ISR_EXPIRATION = "isr-expiration"
SCHEDULER = "scheduler"


class MetadataView(Protocol):
    """The metadata cache, and whether there is anything in it yet."""

    image: MetadataImage
    published: bool


class ForwardingLink(Protocol):
    """A channel to whoever is the active controller, for what clients ask of it."""

    def send(self, message: Any, now: int, done: Done) -> None:
        """Send; ``done`` gets the answer or Failed."""
        ...


class BrokerBase(BrokerProcess):
    """The parts of a broker that do not ask who the controller is."""

    request_lanes = REQUEST_LANES
    metadata_path = "__cluster_metadata"  # the beginning of the metadata log's files

    broker_id: int
    broker_epoch: int
    config: BrokerConfig
    rack: str | None
    stopping: bool
    failed: bool  # a log directory is offline without which the broker cannot go on
    publisher: MetadataView
    forwarding_link: ForwardingLink
    replicas: ReplicaManager
    coordinator: GroupCoordinator
    statistics: RequestStatistics
    apis: KafkaApis

    # -------------------------------------------------------------------------------------- stop

    def _on_logs_closed(self, error: DiskError | None, now: int) -> None:
        if error is None:
            self.out.append(Exit("shutdown", True))
        else:
            self.out.append(Exit(f"log directory failed: {error}", False))

    def log_dir_failed(self, error: DiskError, now: int) -> None:
        """Hand the failure to the handler thread (LogDirFailureHandler); the only directory's
        halts."""
        logs = self.replicas.logs
        if logs.several:
            directory = logs.fail(error)
            if directory is not None:
                self.out.append(Post(SCHEDULER, self._on_log_dir_failed, directory))
        elif not self.failed:
            self.failed = True
            self.out.append(Post(SCHEDULER, self._halt, error))

    def on_barrier_failed(self, files: list[str], error: str, now: int) -> bool:
        """Go on without the log directories of these files, unless the metadata log is among them.

        Kafka's handler would have got a KafkaStorageException instead: its partitions lead no more.
        """
        logs = self.replicas.logs
        if not logs.several or any(path.startswith(self.metadata_path) for path in files):
            return False
        for path in files:
            self.log_dir_failed(DiskError(path, error), now)
        for partition in list(self.replicas.partitions.values()):
            if not partition.offline and logs.directory_of(partition.tp) is None:
                partition.mark_offline()
        return True

    def _on_log_dir_failed(self, directory: LogDirectory, now: int) -> None:
        """Stop to serve what lies in a directory (ReplicaManager.handleLogDirFailure)."""
        error = directory.error
        assert error is not None, directory
        self.replicas.log_dirs.fail(directory, error.reason, now)
        if self.replicas.logs.online and not self._needs(directory):
            self._tell_controller(directory, now)
        elif not self.failed:
            self.failed = True
            self.out.append(Exit(f"log directory failed: {error}", False))

    def _needs(self, directory: LogDirectory) -> bool:
        """Return whether the broker cannot go on without this directory."""
        return False

    def _tell_controller(self, directory: LogDirectory, now: int) -> None:
        """Let the controller know that the replicas of a directory are offline."""
        raise NotImplementedError

    def _has_directory(self) -> bool:
        """Return whether a log directory could be loaded at the start, or end the process."""
        logs = self.replicas.logs
        if not logs.online:
            self.failed = True
            self.out.append(Exit(f"log directory failed: {logs.directories[0].error}", False))
        return not self.failed

    def _halt(self, error: DiskError, now: int) -> None:
        self.replicas.log_dirs.fail_all(error.reason, now)
        self.out.append(Exit(f"log directory failed: {error}", False))

    def _expire_isrs(self, now: int) -> None:
        """Propose to shrink ISRs, every half of replica.lag.time.max.ms."""
        period_us = self.config.replica_lag_time_max_ms * 500
        self.timers.arm(ISR_EXPIRATION, now + period_us, SCHEDULER, self._expire_isrs)
        self.replicas.shrink_isrs(now)

    # ----------------------------------------------------------------------------------- requests

    def on_request(self, item: Request, now: int) -> None:
        """Route a request (KafkaApis.handle)."""
        if not self.stopping:
            self.apis.handlers[type(item.message)](item, now)

    def knows_partition(self, tp: TopicPartition) -> bool:
        """Return whether the metadata cache has the partition."""
        topic = self.publisher.image.topic_by_name(tp.topic)
        return topic is not None and tp.partition in topic.partitions

    def cached_leader(self, tp: TopicPartition) -> tuple[int, int] | None:
        """Return leader and leader epoch in the metadata cache (getCurrentLeader)."""
        topic = self.publisher.image.topic_by_name(tp.topic)
        entry = None if topic is None else topic.partitions.get(tp.partition)
        return None if entry is None else (entry.leader, entry.leader_epoch)

    # --------------------------------------------------------- the coordinator's port (GroupLog)

    def append(self, tp: TopicPartition, batch: RecordBatch, now: int) -> tuple[Errors, int]:
        """Append a coordinator's records as leader."""
        if self.stopping:
            return Errors.NOT_LEADER_OR_FOLLOWER, -1
        return self.replicas.append_from_coordinator(tp, batch, now)

    def read_all(self, tp: TopicPartition) -> Iterable[RecordBatch]:
        """Return all batches of an offsets partition, up to its log end."""
        partition = self.replicas.partitions.get(tp)
        if partition is None:
            return ()
        return partition.log.batches_from(partition.log.log_start_offset)

    def high_watermark(self, tp: TopicPartition) -> int:
        """Return the high watermark known here, 0 when the partition is not hosted."""
        partition = self.replicas.partitions.get(tp)
        return 0 if partition is None else partition.log.high_watermark

    def leader_epoch(self, tp: TopicPartition) -> int | None:
        """Return the epoch under which this broker leads the partition."""
        partition = self.replicas.partitions.get(tp)
        return partition.leader_epoch if partition is not None and partition.leading else None

    def _offsets_committed(self, partition: int, high_watermark: int) -> None:
        self.out.append(Post("group", self._tell_coordinator, (partition, high_watermark)))

    def _tell_coordinator(self, message: tuple[int, int], now: int) -> None:
        self.coordinator.on_high_watermark(message[0], message[1], now)

    # --------------------------------------------------------------------------------------- end

    def ground_truth(self) -> list[Any]:
        """Return the final state of replicas and committed offsets."""
        return [*self.replicas.ground_truth(), *self.coordinator.ground_truth()]
