"""Asking the authorizer on behalf of one request (AuthHelper), and telling what it said.

A broker decides on its own image, at every request; nothing is remembered for a connection.
"""

from __future__ import annotations

from typing import Any, Protocol

from kafkasim.model.controller.common.acls import Action, Authorizer, Decision, acl_text
from kafkasim.model.effects import Peer
from kafkasim.model.facts import Authorized
from kafkasim.model.messages.clients.acls import CLUSTER, CLUSTER_NAME


class Image(Protocol):
    """What of a metadata image is told: how far it has come."""

    @property
    def offset(self) -> int: ...


class AccessLog:
    """The decisions of one broker (kafka.authorizer.logger).

    Each is told once: a decision that is made again, by the same entry, is no news.
    """

    def __init__(self, authorizer: Authorizer, image: Image, out: list[Any]) -> None:
        self._authorizer = authorizer
        self._image = image
        self._out = out
        self._told: dict[Action, Decision] = {}

    def allows(self, action: Action, by_type: bool = False) -> bool:
        """Decide, and tell if that is new."""
        decide = self._authorizer.decide_by_type if by_type else self._authorizer.decide
        decision = decide(action)
        if self._told.get(action) != decision:
            self._told[action] = decision
            rule = "" if decision.rule is None else acl_text(decision.rule)
            self._out.append(
                Authorized(
                    action.principal,
                    action.host,
                    action.operation,
                    action.resource_type,
                    "" if by_type else action.name,
                    decision.allowed,
                    rule,
                    self._image.offset,
                )
            )
        return decision.allowed


class Access:
    """What the sender of one request may do."""

    __slots__ = ("_log", "_peer")

    def __init__(self, log: AccessLog, peer: Peer) -> None:
        self._log = log
        self._peer = peer

    def may(self, operation: str, resource_type: str, name: str) -> bool:
        """Return whether it may do something with a resource."""
        peer = self._peer
        return self._log.allows(Action(peer.principal, peer.host, operation, resource_type, name))

    def may_with_any(self, operation: str, resource_type: str) -> bool:
        """Return whether there may be a resource of the type with which it may do something."""
        peer = self._peer
        action = Action(peer.principal, peer.host, operation, resource_type, "hardcode")
        return self._log.allows(action, by_type=True)

    def may_with_cluster(self, operation: str) -> bool:
        """Return whether it may do something with the cluster."""
        return self.may(operation, CLUSTER, CLUSTER_NAME)
