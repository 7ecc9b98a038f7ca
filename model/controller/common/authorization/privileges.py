"""How a request's privileges are written down: checks of it as a whole, and of its parts.

The order is KafkaApis' and ControllerApis': a part that its sender may not have is refused before
anybody asks whether it exists.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable
from dataclasses import replace
from typing import Any

from kafkasim.model.controller.common.authorization.access import Access
from kafkasim.model.errors import Errors
from kafkasim.model.messages import MetadataTopic
from kafkasim.model.messages.clients import admin
from kafkasim.model.messages.clients.acls import GROUP, TOPIC
from kafkasim.model.values import value

TOPIC_FAILED = Errors.TOPIC_AUTHORIZATION_FAILED
GROUP_FAILED = Errors.GROUP_AUTHORIZATION_FAILED
CLUSTER_FAILED = Errors.CLUSTER_AUTHORIZATION_FAILED

Check = Callable[[Access, Any], Errors]
"""``check(access, request or part)`` is NONE for what is allowed."""

Merge = Callable[[Any], Any]


@value
class Parts:
    """How one request is divided: its field with the parts, and the answer's with their results.

    ``refused(part, error)`` is the result of a part that ``error`` refuses. ``nothing`` is the
    answer that the refused parts join if no other part is left; None: the request is served without
    any. Parts that have one ``name`` are duplicates, which are refused for that before anybody asks
    for their privileges; None: parts have no names.
    """

    parts: str
    results: str
    error: Check
    refused: Callable[[Any, Errors], Any]
    nothing: Any = None
    name: Callable[[Any], Any] | None = None


def of_group(operation: str) -> Check:
    """Return a check of what a request does with its group."""

    def check(access: Access, request: Any) -> Errors:
        return Errors.NONE if access.may(operation, GROUP, request.group_id) else GROUP_FAILED

    return check


def of_cluster(operation: str) -> Check:
    """Return a check of what a request does with the cluster (authorizeClusterOperation)."""

    def check(access: Access, _request: Any) -> Errors:
        return Errors.NONE if access.may_with_cluster(operation) else CLUSTER_FAILED

    return check


def of_topic(operation: str, topic: Callable[[Any], str]) -> Check:
    """Return a check of what is done with the topic of a part."""

    def error(access: Access, part: Any) -> Errors:
        return Errors.NONE if access.may(operation, TOPIC, topic(part)) else TOPIC_FAILED

    return error


def of_config(operation: str) -> Check:
    """Return a check of what is done with the settings of a part, a config resource
    (authorizeAlterResource, handleDescribeConfigsRequest)."""

    def check(access: Access, part: Any) -> Errors:
        kind, name = part.resource_type, part.resource_name
        if kind == admin.TOPIC:
            return Errors.NONE if access.may(operation, TOPIC, name) else TOPIC_FAILED
        if kind == admin.GROUP:
            return Errors.NONE if access.may(operation, GROUP, name) else GROUP_FAILED
        return Errors.NONE if access.may_with_cluster(operation) else CLUSTER_FAILED

    return check


def refusal_of(checks: tuple[Check, ...], access: Access, request: Any) -> Errors:
    """Return the error of the first check that refuses a request, NONE if none does."""
    for check in checks:
        error = check(access, request)
        if error is not Errors.NONE:
            return error
    return Errors.NONE


def divide(of: Parts, access: Access, request: Any) -> tuple[Any, Merge | None]:
    """Return what is left to serve of a request, and how its answer becomes that to all of it.

    None is left if the refused parts are all that there is to say. A request all of whose parts are
    allowed comes back as it is, without a merge. Each part is checked once, in order.
    """
    asked = getattr(request, of.parts)
    if asked is None:  # all: what may not be described is left out of the answer
        return request, _only_allowed(access, of)
    kept: list[Any] = []
    refused: list[Any] = []
    times = Counter(map(of.name, asked)) if of.name is not None else None
    for part in asked:
        if times is not None and of.name is not None and times[of.name(part)] > 1:
            kept.append(part)
            continue
        error = of.error(access, part)
        if error is Errors.NONE:
            kept.append(part)
        else:
            refused.append(of.refused(part, error))
    if not refused:
        return request, None

    def merge(answer: Any) -> Any:
        answer = of.nothing if answer is None else answer
        if getattr(answer, "error", Errors.NONE) is not Errors.NONE:
            return answer  # what is refused as a whole tells nothing of its parts
        return replace(answer, **{of.results: (*getattr(answer, of.results), *refused)})

    if not kept and of.nothing is not None:
        return None, merge
    return replace(request, **{of.parts: tuple(kept)}), merge


def _only_allowed(access: Access, of: Parts) -> Merge:
    def merge(answer: Any) -> Any:
        found = [
            each
            for each in getattr(answer, of.results)
            if of.error(access, each.topic if isinstance(each, MetadataTopic) else each.tp)
            is Errors.NONE
        ]
        return replace(answer, **{of.results: tuple(found)})

    return merge
