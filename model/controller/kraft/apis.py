"""The check before a request that a broker forwards: ControllerApis with an authorizer.

    envelope ──▶ CLUSTER_ACTION of the broker ──▶ privileges of the client ──▶ the controller
                        │ refused                       │ refused
                        ▼                               ▼
            UNKNOWN_SERVER_ERROR for the client    the error of the request, or of its parts

The controller decides on its own committed image, for the principal and the address that the
envelope names. Before it has loaded what is committed it decides nothing but for super users
(AuthorizerNotReadyException, which is UNKNOWN_SERVER_ERROR on the wire). Also a controller that is
not active refuses a request as a whole; of parts it says nothing (NOT_CONTROLLER). Without
``authorizer.class.name`` none of this exists.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, Any

from kafkasim.model.controller.common.acls import Authorizer
from kafkasim.model.controller.common.authorization.access import Access, AccessLog
from kafkasim.model.controller.common.authorization.forwarded import (
    FORWARDED_PARTS,
    FORWARDED_WHOLE,
    refused_forwarded,
)
from kafkasim.model.controller.common.authorization.privileges import divide, refusal_of
from kafkasim.model.effects import Peer, Request, Respond
from kafkasim.model.errors import Errors
from kafkasim.model.messages import EnvelopeRequest
from kafkasim.model.messages.clients.acls import CLUSTER_ACTION

if TYPE_CHECKING:
    from kafkasim.model.config import BrokerConfig
    from kafkasim.model.controller.common.acls import AuthorizerRules
    from kafkasim.model.controller.common.image import MetadataImage
    from kafkasim.model.effects import Process

Serve = Callable[[Request, int, "EnvelopeRequest | None"], None]


class ControllerApis:
    """Stands before ``serve``; what is refused never reaches it.

    ``image`` is the committed one, and ``is_active()`` tells whether this controller serves.
    """

    def __init__(
        self,
        process: Process,
        image: MetadataImage,
        config: BrokerConfig,
        rules: AuthorizerRules,
        is_active: Callable[[], bool],
        serve: Serve,
    ) -> None:
        self._process = process
        self._is_active = is_active
        self._serve = serve
        authorizer = Authorizer(
            image.acls, config.super_user_names, config.allow_everyone_if_no_acl_found, rules
        )
        self._super_users = config.super_user_names
        self._log = AccessLog(authorizer, image, process.out)
        self.loaded = False  # the image has come to a high watermark (completeInitialLoad)

    def handle(self, item: Request, now: int) -> None:
        """Refuse a forwarded request, or serve of it what its sender may have."""
        envelope: EnvelopeRequest = item.message
        request = envelope.request
        broker = self._process.peer_of(item.connection)
        client = Peer(envelope.principal, envelope.client_host, envelope.client_id)
        access, kind = Access(self._log, client), type(request)
        error = Errors.UNKNOWN_SERVER_ERROR
        if self._is_ready(broker) and self._may_forward(broker) and self._is_ready(client):
            error = refusal_of(FORWARDED_WHOLE.get(kind, ()), access, request)
        if error is not Errors.NONE:
            self._respond(item, refused_forwarded(request, error))
            return
        if kind in FORWARDED_PARTS and self._is_active():
            request, merge = divide(FORWARDED_PARTS[kind], access, request)
            if merge is not None and request is None:
                self._respond(item, merge(None))
                return
            if merge is not None:
                self._process.merges[item.connection, item.correlation] = merge
        served = Request(item.connection, item.correlation, request, item.received_us)
        self._serve(served, now, envelope)

    def _is_ready(self, peer: Peer) -> bool:
        return self.loaded or peer.principal in self._super_users

    def _may_forward(self, broker: Peer) -> bool:
        return Access(self._log, broker).may_with_cluster(CLUSTER_ACTION)

    def _respond(self, item: Request, answer: Any) -> None:
        self._process.out.append(Respond(item.connection, item.correlation, answer))
