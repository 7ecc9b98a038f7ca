"""Access control lists in ZooKeeper mode: the znodes, and each broker's cache of them.

    CreateAcls, DeleteAcls ──▶ any broker ──▶ the znode of the resource, by its version
                                          └─▶ a child of /kafka-acl-changes: every broker reads the
                                              resource that it names into its cache

Models AclAuthorizer, ZkAclStore and ZkNodeChangeNotificationListener. A resource has one znode with
all its entries: /kafka-acl/<type>/<name>, and below /kafka-acl-extended/prefixed for prefixes. The
broker decides on its cache, by the same rules as in KRaft mode, so a change takes effect at each
broker when its watch has told it. Everything runs on lane ``zk-acl``, as in Kafka under one lock.

Kafka's authorizer has a ZooKeeper session of its own; here it uses the broker's. Left out:
authorizer.zookeeper.*; the purge of notifications after 15 minutes.
"""

from __future__ import annotations

import random
from collections.abc import Callable, Iterable
from functools import partial
from typing import TYPE_CHECKING, Any, NamedTuple

from kafkasim.model.controller.common.acls import is_binding, request_problem, selects
from kafkasim.model.controller.common.authorization.forwarded import refused_forwarded
from kafkasim.model.controller.zk.events import EventQueue, Pause, SessionExpired, Steps, ZkFailed
from kafkasim.model.controller.zk.store.zk_data import (
    ACL_CHANGES,
    ACL_PATHS,
    AclEntries,
    acl_path,
    acl_root,
)
from kafkasim.model.errors import Errors
from kafkasim.model.facts import AclChanged
from kafkasim.model.messages import (
    AclBinding,
    AclFilter,
    CreateAclsRequest,
    CreateAclsResponse,
    DeleteAclsRequest,
    DeleteAclsResponse,
)
from kafkasim.model.messages.clients.acls import ANY, LITERAL, PREFIXED, RESOURCE_TYPES
from kafkasim.model.zookeeper.ops import (
    Create,
    Delete,
    GetChildren,
    GetData,
    SetData,
    ZkError,
)

if TYPE_CHECKING:
    from kafkasim.model.config import BrokerConfig
    from kafkasim.model.controller.common.image import MetadataImage
    from kafkasim.model.controller.zk.store.client import KafkaZkClient
    from kafkasim.model.effects import Process

LANE = "zk-acl"
OK = ZkError.OK
MAX_UPDATE_RETRIES = 10
BACKOFF_US, JITTER_US = 100_000, 50_000
NO_ZNODE = -1
"""The version of a resource without entries."""

Answer = Callable[[Any, int], None]
Change = Callable[[tuple[AclBinding, ...]], tuple[AclBinding, ...]]


class Resource(NamedTuple):
    """What entries are about (ResourcePattern)."""

    resource_type: str
    name: str
    pattern_type: str


class Versioned(NamedTuple):
    """The entries of a resource and the version of their znode (VersionedAcls)."""

    entries: tuple[AclBinding, ...]
    version: int


NO_ENTRIES = Versioned((), NO_ZNODE)


class ZkAclManager:
    """A broker's cache of the entries, and their writer.

    ``image`` is the broker's metadata image: its ``acls`` are the cache that the authorizer reads.
    """

    def __init__(self, process: Process, zk: KafkaZkClient, image: Any, rng: random.Random) -> None:
        self._out = process.out
        self._image = image
        self._rng = rng
        self._queue = EventQueue(process, zk, LANE)
        self._cache: dict[Resource, Versioned] = {}
        self._processed = dict.fromkeys(ACL_CHANGES.values(), -1)  # the newest child, by path
        self._loaded: Callable[[int], None] | None = None

    @classmethod
    def of(
        cls,
        process: Process,
        config: BrokerConfig,
        zk: KafkaZkClient,
        image: MetadataImage,
        rng: random.Random,
    ) -> ZkAclManager | None:
        """Return a broker's manager, None without authorizer.class.name."""
        return cls(process, zk, image, rng) if config.authorizer_class_name else None

    def start(self, loaded: Callable[[int], None]) -> None:
        """Load all entries, then call ``loaded(now)`` (configure: before the broker serves)."""
        self._loaded = loaded
        self._queue.put("Load", self._load)

    def process_notifications(self) -> None:
        """Read what changed: there are new children, or a new session has no watch."""
        waits = self._loaded is not None
        self._queue.put("Notifications", self._load if waits else self._notifications)

    def serve(self, request: CreateAclsRequest | DeleteAclsRequest, answer: Answer) -> None:
        """Change entries; ``answer(response, now)`` is called once."""

        def run() -> Steps:
            try:
                if isinstance(request, CreateAclsRequest):
                    response = yield from self._create(request)
                else:
                    response = yield from self._delete(request)
            except (SessionExpired, ZkFailed):
                response = refused_forwarded(request, Errors.UNKNOWN_SERVER_ERROR)
            answer(response, self._queue.now)

        self._queue.put(type(request).__name__, run)

    # -------------------------------------------------------------------------------- the cache

    def _load(self) -> Steps:
        """Watch for changes first, and read everything then (startZkChangeListeners, loadCache)."""
        for path in ACL_PATHS:
            yield (Create(path, None),)
        yield from self._notifications()
        for pattern_type in (LITERAL, PREFIXED):
            for resource_type in RESOURCE_TYPES:
                root = acl_root(pattern_type, resource_type)
                (found,) = yield (GetChildren(root),)
                for name in found.children:
                    yield from self._refresh(Resource(resource_type, name, pattern_type))
        loaded, self._loaded = self._loaded, None
        if loaded is not None:
            loaded(self._queue.now)

    def _notifications(self) -> Steps:
        for path in ACL_CHANGES.values():
            (found,) = yield (GetChildren(path, watch=True),)
            for name in sorted(found.children):
                number = int(name.rpartition("_")[2])
                if number > self._processed[path]:
                    (change,) = yield (GetData(f"{path}/{name}"),)
                    if change.error is OK:
                        yield from self._refresh(Resource(*change.data.resource))
                        self._image.offset = max(self._image.offset, change.stat.czxid)
                    self._processed[path] = number

    def _refresh(self, resource: Resource) -> Steps:
        self._update_cache(resource, (yield from self._read(resource)))

    def _read(self, resource: Resource) -> Steps:
        (found,) = yield (GetData(acl_path(*resource)),)
        return (
            Versioned(found.data.entries, found.stat.version) if found.error is OK else NO_ENTRIES
        )

    def _update_cache(self, resource: Resource, versioned: Versioned) -> None:
        acls, known = self._image.acls, self._cache.pop(resource, NO_ENTRIES)
        for each in known.entries:
            del acls[_id(each)]
        if versioned.entries:
            self._cache[resource] = versioned
            acls.update({_id(each): each for each in versioned.entries})

    # ------------------------------------------------------------------------------- the writer

    def _create(self, request: CreateAclsRequest) -> Steps:
        """Add entries, resource by resource (createAcls)."""
        if not all(map(is_binding, request.bindings)):
            return refused_forwarded(request, Errors.UNKNOWN_SERVER_ERROR)
        results = [_refusal(binding) for binding in request.bindings]
        by_resource: dict[Resource, list[int]] = {}
        for place, binding in enumerate(request.bindings):
            if results[place][0] is Errors.NONE:
                by_resource.setdefault(_resource_of(binding), []).append(place)
        for resource, places in by_resource.items():
            added = [request.bindings[place] for place in places]
            error = yield from self._update(resource, partial(_with, added))
            for place in places:
                results[place] = (error, "")
        return CreateAclsResponse(Errors.NONE, tuple(results))

    def _delete(self, request: DeleteAclsRequest) -> Steps:
        """Remove entries; one that two filters mean is a result of the first (deleteAcls)."""
        deleted: dict[AclBinding, int] = {}  # the filter that meant it
        for resource in dict.fromkeys([*self._cache, *_named(request.filters)]):
            meant: dict[AclBinding, int] = {}
            error = yield from self._update(resource, partial(_remaining, request.filters, meant))
            if error is Errors.NONE:
                deleted |= meant
        results = [
            (Errors.NONE, "", tuple([each for each in deleted if deleted[each] == place]))
            for place in range(len(request.filters))
        ]
        return DeleteAclsResponse(Errors.NONE, tuple(results))

    def _update(self, resource: Resource, change: Change) -> Steps:
        """Write a resource's entries if its znode has the version that is known, and read it and
        try again if not (updateResourceAcls). Return the error."""
        known = self._cache.get(resource) or (yield from self._read(resource))
        for _ in range(MAX_UPDATE_RETRIES + 1):
            entries = change(known.entries)
            written = yield from self._write(resource, entries, known.version)
            if written is not None:
                version, zxid = written
                if set(entries) != set(known.entries):
                    self._tell(zxid, known.entries, entries)
                    self._update_cache(resource, Versioned(entries, version))
                    path = ACL_CHANGES[resource.pattern_type]
                    yield (
                        Create(f"{path}/acl_changes_", AclEntries(resource, ()), sequential=True),
                    )
                else:
                    self._update_cache(resource, Versioned(entries, version))
                return Errors.NONE
            yield Pause(BACKOFF_US + self._rng.randrange(JITTER_US))
            known = yield from self._read(resource)
        return Errors.UNKNOWN_SERVER_ERROR

    def _write(self, resource: Resource, entries: tuple[AclBinding, ...], version: int) -> Steps:
        """Return the new version and its zxid, None if the znode has changed meanwhile."""
        path, data = acl_path(*resource), AclEntries(resource, entries)
        if entries and version != NO_ZNODE:
            (result,) = yield (SetData(path, data, version),)
            raced: tuple[ZkError, ...] = (ZkError.NONODE, ZkError.BADVERSION)
        elif entries:
            (result,) = yield (Create(path, data),)
            raced = (ZkError.NODEEXISTS,)
        elif version == NO_ZNODE:
            return NO_ZNODE, -1
        else:
            (result,) = yield (Delete(path, version),)
            if result.error is ZkError.NONODE:
                return NO_ZNODE, result.zxid
            raced = (ZkError.BADVERSION,)
        if result.error in raced:
            return None
        if result.error is not OK:
            raise ZkFailed(f"{path}: {result.error.name}")
        return (version + 1 if entries else NO_ZNODE), result.zxid

    def _tell(
        self, zxid: int, before: tuple[AclBinding, ...], after: tuple[AclBinding, ...]
    ) -> None:
        for each in before:
            if each not in after:
                self._out.append(AclChanged(zxid, False, _id(each), *each))
        for each in after:
            if each not in before:
                self._out.append(AclChanged(zxid, True, _id(each), *each))


def _refusal(binding: AclBinding) -> tuple[Errors, str]:
    """Return why an entry cannot be added (AclApis, validateAclBinding, AclEntry)."""
    message = request_problem(binding)
    if not message and "/" in binding.name:
        message = "Failed to create ACL"
    if not message and ":" not in binding.principal:
        return Errors.UNKNOWN_SERVER_ERROR, ""
    return (Errors.INVALID_REQUEST if message else Errors.NONE), message


def _resource_of(binding: AclBinding) -> Resource:
    return Resource(binding.resource_type, binding.name, binding.pattern_type)


def _named(filters: Iterable[AclFilter]) -> list[Resource]:
    """Return the resources that filters name, which the cache may not have yet."""
    return [
        Resource(each.resource_type, each.name, each.pattern_type)
        for each in filters
        if each.name and each.resource_type != ANY and each.pattern_type in (LITERAL, PREFIXED)
    ]


def _with(added: list[AclBinding], entries: tuple[AclBinding, ...]) -> tuple[AclBinding, ...]:
    return tuple(dict.fromkeys([*entries, *added]))


def _remaining(
    filters: tuple[AclFilter, ...],
    meant: dict[AclBinding, int],
    entries: tuple[AclBinding, ...],
) -> tuple[AclBinding, ...]:
    """Return the entries that no filter means; note in ``meant`` the first filter of each other."""
    kept = []
    for entry in entries:
        place = next((place for place, each in enumerate(filters) if selects(each, entry)), None)
        if place is None:
            kept.append(entry)
        else:
            meant.setdefault(entry, place)
    return tuple(kept)


def _id(binding: AclBinding) -> str:
    """Return an entry's key in the cache; in ZooKeeper it has no id."""
    return " ".join(binding)
