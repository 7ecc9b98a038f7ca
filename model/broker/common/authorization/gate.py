"""The check before every request: KafkaApis with an authorizer.

    request ──▶ privileges of the whole ──▶ privileges of its parts ──▶ KafkaApis
                      │ refused                  │ refused parts
                      ▼                          ▼
                   answer                  join the answer when it is sent

The partitions of a Fetch are those of its session, so a Fetch is checked where the session is known
(:meth:`AuthorizedApis.refuse_fetch`), and so is a ShareFetch. Without ``authorizer.class.name``
none of this exists.

What a KRaft broker forwards, the controller authorizes on its own image (ControllerApis). In
ZooKeeper mode a broker authorizes it, on its cache (:meth:`AuthorizedApis.serve_operators`). Left
out: the authorized operations in answers, and the privileges of what only servers send, but for
Fetch and the requests of transactions.
"""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING, Any

from kafkasim.model.broker.common.authorization.answers import ANSWERS, then
from kafkasim.model.broker.common.authorization.parts import PARTS
from kafkasim.model.broker.common.authorization.whole import OF_SHARE_GROUPS, WHOLE, refused
from kafkasim.model.controller.common.acls import Authorizer, selects
from kafkasim.model.controller.common.authorization.access import Access, AccessLog
from kafkasim.model.controller.common.authorization.forwarded import (
    DELETED_TOPICS,
    FORWARDED_PARTS,
    FORWARDED_WHOLE,
    OF_CONTROLLER,
)
from kafkasim.model.controller.common.authorization.privileges import divide, refusal_of
from kafkasim.model.effects import Close, Process, Request
from kafkasim.model.errors import Errors
from kafkasim.model.messages import (
    AddPartitionsToTxnRequest,
    AddPartitionsToTxnResponse,
    DeleteTopicsRequest,
    DescribeAclsRequest,
    DescribeAclsResponse,
    FetchRequest,
    MetadataRequest,
    MetadataResponse,
    MetadataTopic,
    ProduceRequest,
)
from kafkasim.model.messages.clients.acls import (
    CLUSTER_ACTION,
    CREATE,
    DESCRIBE,
    READ,
    TOPIC,
    TRANSACTIONAL_ID,
    WRITE,
)

if TYPE_CHECKING:
    from collections.abc import Callable

    from kafkasim.model.broker.common.apis import KafkaApis
    from kafkasim.model.controller.common.image import MetadataImage

NONE = Errors.NONE


class AuthorizedApis:
    """Stands before ``apis``; what is refused never reaches them."""

    def __init__(
        self, process: Process, apis: KafkaApis, image: MetadataImage, authorizer: Authorizer
    ) -> None:
        self._process = process
        self._apis = apis
        self._image = image
        self._creates_topics = apis.config.auto_create_topics_enable
        self._log = AccessLog(authorizer, image, process.out)
        self._whole, self._parts = WHOLE, PARTS
        self._is_controller: Callable[[], bool] = lambda: True

    def serve_operators(self, is_controller: Callable[[], bool]) -> None:
        """Authorize also what a KRaft broker forwards: in ZooKeeper mode this broker serves it."""
        self._whole = {**WHOLE, **FORWARDED_WHOLE}
        self._parts = {**PARTS, **FORWARDED_PARTS, DeleteTopicsRequest: DELETED_TOPICS}
        self._is_controller = is_controller

    def handle(self, item: Request, now: int) -> None:
        """Refuse a request, or serve of it what its sender may have."""
        access, request = self._access(item), item.message
        kind = type(request)
        if kind in OF_SHARE_GROUPS and self._image.share_version < 1:
            self._apis.handle(item, now)
            return
        error = refusal_of(self._whole.get(kind, ()), access, request)
        if error is not NONE:
            self._refuse(item, error, now)
        elif kind is DescribeAclsRequest:
            self._describe(item, now)
        elif kind is AddPartitionsToTxnRequest:
            self._add_partitions(access, item, now)
        elif kind is MetadataRequest:
            self._name_topics(access, item, now)
        elif kind in self._parts and (kind not in OF_CONTROLLER or self._is_controller()):
            served, merge = divide(self._parts[kind], access, request)
            if kind in ANSWERS:
                merge = then(ANSWERS[kind](access, request), merge)
            self._serve_parts(item, served, merge, now)
        else:
            if kind in ANSWERS:
                self._merge(item, ANSWERS[kind](access, request))
            self._apis.handle(item, now)

    def refuse_fetch(self, item: Request) -> Callable[[str], Errors]:
        """Return what is wrong with the fetch of a topic: a follower's needs CLUSTER_ACTION, a
        consumer's READ (handleFetchRequest)."""
        access, request = self._access(item), item.message
        assert isinstance(request, FetchRequest), request
        if request.replica_id >= 0:
            follower = access.may_with_cluster(CLUSTER_ACTION)
            return lambda _topic: NONE if follower else Errors.TOPIC_AUTHORIZATION_FAILED
        return _readable(access)

    def refuse_share(self, item: Request) -> Callable[[str], Errors]:
        """Return what is wrong with the topic of a ShareFetch or a ShareAcknowledge, which need
        READ (handleShareFetchRequest, handleShareAcknowledgeRequest)."""
        return _readable(self._access(item))

    def describes(self, connection: int) -> Callable[[str], bool]:
        """Return which topics the client of a connection may describe, without any denial."""
        access = Access(self._log, self._process.peer_of(connection)).quietly()
        return lambda topic: access.may(DESCRIBE, TOPIC, topic)

    def _access(self, item: Request) -> Access:
        return Access(self._log, self._process.peer_of(item.connection))

    def _merge(self, item: Request, merge: Callable[[Any], Any]) -> None:
        self._process.merges[item.connection, item.correlation] = merge

    def _refuse(self, item: Request, error: Errors, now: int) -> None:
        request = item.message
        if type(request) is ProduceRequest and request.acks == 0:
            self._process.out.append(Close(item.connection))  # the client has no other way to know
        else:
            self._apis.respond(item, refused(request, error))

    def _serve_parts(
        self, item: Request, served: Any, merge: Callable[[Any], Any] | None, now: int
    ) -> None:
        if merge is None:
            self._apis.handle(item, now)
            return
        unanswered = type(item.message) is ProduceRequest and item.message.acks == 0
        if served is None and not unanswered:
            self._apis.respond(item, merge(None))
            return
        if served is not None:
            if not unanswered:
                self._merge(item, merge)
            part = Request(item.connection, item.correlation, served, item.received_us)
            self._apis.handle(part, now)
        if unanswered:
            self._process.out.append(Close(item.connection))

    def _describe(self, item: Request, now: int) -> None:
        """Answer with the entries of this broker's image (AclApis.handleDescribeAcls)."""
        wanted = item.message.filter
        found = [each for each in self._image.acls.values() if selects(wanted, each)]
        self._apis.respond(item, DescribeAclsResponse(NONE, tuple(found)))

    def _add_partitions(self, access: Access, item: Request, now: int) -> None:
        """Refuse a client's transaction as a whole if one topic is refused
        (handleAddPartitionsToTxnRequest)."""
        results = []
        for asked in item.message.transactions:
            name = asked.transactional_id
            if asked.verify_only:
                continue  # a broker's, which may
            if not access.may(WRITE, TRANSACTIONAL_ID, name):
                error = Errors.TRANSACTIONAL_ID_AUTHORIZATION_FAILED
                results.append((name, tuple([(tp, error) for tp in asked.partitions])))
                continue
            topics = dict.fromkeys([tp.topic for tp in asked.partitions])
            denied = [topic for topic in topics if not access.may(WRITE, TOPIC, topic)]
            if denied:
                failed, other = Errors.TOPIC_AUTHORIZATION_FAILED, Errors.OPERATION_NOT_ATTEMPTED
                each = [(tp, failed if tp.topic in denied else other) for tp in asked.partitions]
                results.append((name, tuple(each)))
        if not results:
            self._apis.handle(item, now)
        else:
            self._apis.respond(item, AddPartitionsToTxnResponse(NONE, tuple(results)))

    def _name_topics(self, access: Access, item: Request, now: int) -> None:
        """Serve Metadata: a topic that does not exist may be created by whoever may CREATE it."""
        request = item.message
        if request.topics is not None:  # of one that is named twice there is one answer
            request = replace(request, topics=tuple(dict.fromkeys(request.topics)))
        else:
            access = access.quietly()
        served, merge = divide(PARTS[MetadataRequest], access, request)
        names = served.topics or ()
        creates = served.allow_auto_topic_creation and self._creates_topics
        missing = [name for name in names if creates and self._image.topic_by_name(name) is None]
        if missing and not access.may_with_cluster(CREATE, log_denied=False):
            denied = [name for name in missing if not access.may(CREATE, TOPIC, name)]
            if denied:
                kept = tuple([name for name in names if name not in denied])
                served = replace(served, topics=kept)
                merge = _with_denied(merge, denied)
        self._serve_parts(item, served, merge, now)


def _readable(access: Access) -> Callable[[str], Errors]:
    return lambda topic: (
        NONE if access.may(READ, TOPIC, topic) else Errors.TOPIC_AUTHORIZATION_FAILED
    )


def _with_denied(merge: Callable[[Any], Any] | None, names: list[str]) -> Callable[[Any], Any]:
    error = Errors.TOPIC_AUTHORIZATION_FAILED

    def add(answer: MetadataResponse) -> MetadataResponse:
        whole = answer if merge is None else merge(answer)
        refused_topics = [MetadataTopic(name, "", error, ()) for name in names]
        return replace(whole, topics=(*whole.topics, *refused_topics))

    return add
