"""Operators' requests in ZooKeeper mode: the broker that gets one serves it itself.

Brokers of a ZooKeeper cluster have no ForwardingManager (KafkaServer.enableForwarding), so
KafkaApis.maybeForwardToController calls the handler on every broker. Most handlers answer
NOT_CONTROLLER on a broker that is not the controller, and the client goes to another one.
"""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING, Any

from kafkasim.model.controller.common.responses import without_authorizer
from kafkasim.model.messages import CreateAclsRequest, DeleteAclsRequest, EnvelopeRequest

if TYPE_CHECKING:
    from kafkasim.model.broker.zk.acls import ZkAclManager
    from kafkasim.model.channel import Done
    from kafkasim.model.controller.zk.admin.manager import Client, ZkAdminManager
    from kafkasim.model.messages import CreateTopicsRequest


class OwnRequests:
    """Has this broker's own parts serve what operators ask for."""

    def __init__(self, admin: ZkAdminManager, acls: ZkAclManager | None) -> None:
        self._admin = admin
        self._acls = acls

    def send(self, message: Any, now: int, done: Done) -> None:
        """Serve a request; ``done`` gets the response."""
        request, client = opened(message)
        if type(request) not in (CreateAclsRequest, DeleteAclsRequest):
            self._admin.serve(request, client, done)
        elif self._acls is not None:
            self._acls.serve(request, done)
        else:
            done(without_authorizer(request), now)


class OwnTopicCreation:
    """Creates the topics that clients need, on whichever broker they asked.

    Models AutoTopicCreationManager.createTopicsInZk, which does not ask who the controller is. In
    Kafka the client's response waits for ZooKeeper and says LEADER_NOT_AVAILABLE; here it does not
    wait, and says UNKNOWN_TOPIC_OR_PARTITION as in KRaft mode. A client asks again after either.
    """

    def __init__(self, admin: ZkAdminManager) -> None:
        self._admin = admin

    def send(self, message: CreateTopicsRequest | EnvelopeRequest, _now: int, done: Done) -> None:
        """Create the topics; ``done`` gets the response once they are in ZooKeeper."""
        request, client = opened(message)
        self._admin.create_anywhere(replace(request, timeout_ms=0), client, done)


def opened(message: Any) -> tuple[Any, Client | None]:
    """Return the request in an envelope, which is not forwarded here, and who sent it; None: the
    broker itself."""
    if not isinstance(message, EnvelopeRequest):
        return message, None
    return message.request, (message.principal.partition(":")[2], message.client_id)
