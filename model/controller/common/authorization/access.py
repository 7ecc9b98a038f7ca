"""Asking the authorizer on behalf of one request (AuthHelper), and telling what it said.

A node decides on its own image, at every request; nothing is remembered for a connection.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Protocol

from kafkasim.model.controller.common.acls import Action, Authorizer, Decision, acl_text
from kafkasim.model.effects import Peer
from kafkasim.model.facts import Authorized
from kafkasim.model.messages.clients.acls import CLUSTER, CLUSTER_NAME


class Image(Protocol):
    """What of a metadata image is asked for: how far it has come, and its topics."""

    @property
    def offset(self) -> int: ...
    @property
    def topics(self) -> Mapping[str, Any]: ...  # by id
    def topic_by_name(self, name: str) -> Any: ...


class AccessLog:
    """The decisions of one node (kafka.authorizer.logger).

    Each is told once: a decision that is made again, by the same entry, is no news.
    """

    def __init__(self, authorizer: Authorizer, image: Image, out: list[Any]) -> None:
        self.image = image
        self._authorizer = authorizer
        self._out = out
        self._told: dict[Action, Decision] = {}

    def allows(self, action: Action, by_type: bool = False, log_denied: bool = True) -> bool:
        """Decide, and tell if that is new. ``log_denied``: whether a refusal is told."""
        decide = self._authorizer.decide_by_type if by_type else self._authorizer.decide
        decision = decide(action)
        if self._told.get(action) != decision and (decision.allowed or log_denied):
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
                    self.image.offset,
                )
            )
        return decision.allowed


class Access:
    """What the sender of one request may do."""

    __slots__ = ("_log", "_log_denied", "_peer")

    def __init__(self, log: AccessLog, peer: Peer, log_denied: bool = True) -> None:
        self._log = log
        self._peer = peer
        self._log_denied = log_denied

    def quietly(self) -> Access:
        """Return the same, but no refusal is told: it was asked for everything."""
        return Access(self._log, self._peer, log_denied=False)

    def may(self, operation: str, resource_type: str, name: str, log_denied: bool = True) -> bool:
        """Return whether it may do something with a resource.

        ``log_denied`` False: another privilege may allow the same, so a refusal is not told.
        """
        peer = self._peer
        action = Action(peer.principal, peer.host, operation, resource_type, name)
        return self._log.allows(action, log_denied=log_denied and self._log_denied)

    def may_with_any(self, operation: str, resource_type: str) -> bool:
        """Return whether there may be a resource of the type with which it may do something."""
        peer = self._peer
        action = Action(peer.principal, peer.host, operation, resource_type, "hardcode")
        return self._log.allows(action, by_type=True)

    def may_with_cluster(self, operation: str, log_denied: bool = True) -> bool:
        """Return whether it may do something with the cluster."""
        return self.may(operation, CLUSTER, CLUSTER_NAME, log_denied)

    def knows_topic(self, name: str) -> bool:
        """Return whether the node's image has a topic, for answers that may tell so."""
        return self._log.image.topic_by_name(name) is not None

    def topic_name(self, topic_id: str) -> str | None:
        """Return the name of a topic that a request names by its id, None for an unknown one."""
        topic = self._log.image.topics.get(topic_id)
        return None if topic is None else str(topic.name)
