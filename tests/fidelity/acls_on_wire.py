"""Requests of access control lists on the wire, their answers as the model's, and as text."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from kafkasim.model import messages as m
from kafkasim.model.errors import Errors
from kafkasim.scenarios.wire.adapters.acls import (
    OPERATIONS,
    PATTERNS,
    PERMISSIONS,
    RESOURCES,
    name_of,
)

Body = dict[str, Any]

VERSIONS = {"CreateAcls": 3, "DeleteAcls": 3, "DescribeAcls": 3}


def _code(codes: dict[str, int], name: str) -> int:
    """Return the code of a name; ``unknown-7`` is 7, whatever that means."""
    return codes[name] if name in codes else int(name.removeprefix("unknown-"))


def _create(request: m.CreateAclsRequest) -> Body:
    creations = [
        {
            "ResourceType": _code(RESOURCES, each.resource_type),
            "ResourceName": each.name,
            "ResourcePatternType": _code(PATTERNS, each.pattern_type),
            "Principal": each.principal,
            "Host": each.host,
            "Operation": _code(OPERATIONS, each.operation),
            "PermissionType": _code(PERMISSIONS, each.permission),
        }
        for each in request.bindings
    ]
    return {"Creations": creations}


def _filter(wanted: m.AclFilter) -> Body:
    return {
        "ResourceTypeFilter": _code(RESOURCES, wanted.resource_type),
        "ResourceNameFilter": wanted.name,
        "PatternTypeFilter": _code(PATTERNS, wanted.pattern_type),
        "PrincipalFilter": wanted.principal,
        "HostFilter": wanted.host,
        "Operation": _code(OPERATIONS, wanted.operation),
        "PermissionType": _code(PERMISSIONS, wanted.permission),
    }


def _binding(resource: Body, entry: Body) -> m.AclBinding:
    return m.AclBinding(
        name_of(RESOURCES, resource["ResourceType"]),
        resource["ResourceName"],
        name_of(PATTERNS, resource["PatternType"]),
        entry["Principal"],
        entry["Host"],
        name_of(OPERATIONS, entry["Operation"]),
        name_of(PERMISSIONS, entry["PermissionType"]),
    )


def _deleted(_: Any, body: Body) -> m.DeleteAclsResponse:
    results = [
        (Errors(each["ErrorCode"]), "", tuple(_binding(acl, acl) for acl in each["MatchingAcls"]))
        for each in body["FilterResults"]
    ]
    return m.DeleteAclsResponse(Errors.NONE, tuple(results))


def _described(_: Any, body: Body) -> m.DescribeAclsResponse:
    bindings = [_binding(each, acl) for each in body["Resources"] for acl in each["Acls"]]
    return m.DescribeAclsResponse(Errors(body["ErrorCode"]), tuple(bindings))


REQUESTS: dict[type, tuple[str, Callable[[Any], Body]]] = {
    m.CreateAclsRequest: ("CreateAcls", _create),
    m.DeleteAclsRequest: ("DeleteAcls", lambda r: {"Filters": [_filter(f) for f in r.filters]}),
    m.DescribeAclsRequest: ("DescribeAcls", lambda r: _filter(r.filter)),
}

RESPONSES: dict[type, Callable[[Any, Body], Any]] = {
    m.CreateAclsRequest: lambda _, b: m.CreateAclsResponse(
        Errors.NONE, tuple((Errors(each["ErrorCode"]), "") for each in b["Results"])
    ),
    m.DeleteAclsRequest: _deleted,
    m.DescribeAclsRequest: _described,
}


def _entry(binding: m.AclBinding) -> str:
    """Return an entry as text, with all its fields."""
    return (
        f"{binding.permission} {binding.principal}@{binding.host} {binding.operation}"
        f" on {binding.pattern_type} {binding.resource_type} {binding.name!r}"
    )


def _entries(bindings: tuple[m.AclBinding, ...]) -> list[str]:
    """Return entries in the order of the alphabet: Kafka's is that of a hash map."""
    return sorted(map(_entry, bindings))


SHOWN: dict[type, Any] = {
    m.CreateAclsResponse: lambda a, _names: [
        a.error.name if a.error else ", ".join(error.name for error, _ in a.results)
    ],
    m.DeleteAclsResponse: lambda a, _names: [
        f"{error.name} [{' | '.join(_entries(gone))}]" for error, _, gone in a.results
    ],
    m.DescribeAclsResponse: lambda a, _names: [a.error.name, *_entries(a.bindings)],
}
