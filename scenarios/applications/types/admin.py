"""What applications give an admin client, and get from it, under aiokafka's names (aiokafka.admin).

A response has aiokafka's fields, and ``to_object()``, which returns it as dicts and lists. Brokers
of a simulation do not throttle these requests: ``throttle_time_ms`` is 0.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, fields
from enum import IntEnum
from typing import Any, ClassVar

from kafkasim.scenarios.applications.types.errors import IllegalArgumentError


class NewTopic:
    """A topic to create: with a number of partitions and replicas, or with chosen replicas.

    Raises:
        IllegalArgumentError: it has both, or neither.
    """

    def __init__(
        self,
        name: str,
        num_partitions: int,
        replication_factor: int,
        replica_assignments: Mapping[int, Sequence[int]] | None = None,
        topic_configs: Mapping[str, str] | None = None,
    ) -> None:
        chosen = num_partitions == -1 or replication_factor == -1
        if chosen == (replica_assignments is None):
            raise IllegalArgumentError(
                "either num_partitions/replication_factor or replica_assignment must be specified"
            )
        self.name = name
        self.num_partitions = num_partitions
        self.replication_factor = replication_factor
        self.replica_assignments = replica_assignments or {}
        self.topic_configs = topic_configs or {}


class NewPartitions:
    """How many partitions a topic is to have; ``new_assignments``: the replicas of the new ones."""

    def __init__(
        self, total_count: int, new_assignments: Sequence[Sequence[int]] | None = None
    ) -> None:
        self.total_count = total_count
        self.new_assignments = new_assignments


class RecordsToDelete:
    """The records of a partition below an offset; −1 stands for the high watermark."""

    def __init__(self, before_offset: int) -> None:
        self.before_offset = before_offset


class ConfigResourceType(IntEnum):
    """What has settings."""

    BROKER = 4
    TOPIC = 2


class ConfigResource:
    """A broker or a topic, and settings of it."""

    def __init__(
        self,
        resource_type: ConfigResourceType | str,
        name: str,
        configs: Mapping[str, Any] | None = None,
    ) -> None:
        if not isinstance(resource_type, ConfigResourceType):
            resource_type = ConfigResourceType[str(resource_type).upper()]
        self.resource_type = resource_type
        self.name = name
        self.configs = configs


class Response:
    """An answer of a broker; ``entries`` are the fields of what its lists hold, by their names."""

    entries: ClassVar[Mapping[str, Sequence[str]]] = {}

    def to_object(self) -> dict[str, Any]:
        """Return the response as a dict, with a dict for each entry of a list."""
        found: dict[str, Any] = {}
        for each in fields(self):  # type: ignore[arg-type]  # subclasses are dataclasses
            found[each.name] = self._plain(each.name, getattr(self, each.name))
        return found

    def _plain(self, name: str, given: Any) -> Any:
        names = self.entries.get(name)
        if names is None:
            return given
        return [
            {part: self._plain(part, each) for part, each in zip(names, entry, strict=True)}
            for entry in given
        ]


@dataclass
class TopicErrorsResponse(Response):
    """The answer to CreateTopics and CreatePartitions: (topic, error code, message or None)."""

    entries = {"topic_errors": ("topic", "error_code", "error_message")}

    throttle_time_ms: int
    topic_errors: list[tuple[str, int, str | None]]


@dataclass
class DeleteTopicsResponse(Response):
    """The answer to DeleteTopics: (topic, error code)."""

    entries = {"topic_error_codes": ("topic", "error_code")}

    throttle_time_ms: int
    topic_error_codes: list[tuple[str, int]]


@dataclass
class DescribeGroupsResponse(Response):
    """The answer to DescribeGroups of one coordinator, for some of its groups.

    A member's metadata and assignment are bytes for ``aiokafka.coordinator.protocol``. The
    simulation knows no addresses of clients: ``client_host`` is "".
    """

    entries = {
        "groups": (
            "error_code", "group", "state", "protocol_type", "protocol", "members",
            "authorized_operations",
        ),
        "members": (
            "member_id", "client_id", "client_host", "member_metadata", "member_assignment",
        ),
    }  # fmt: skip

    throttle_time_ms: int
    groups: list[tuple[Any, ...]]
