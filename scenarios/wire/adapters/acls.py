"""CreateAcls, DeleteAcls and DescribeAcls, with the codes of Kafka's enumerations."""

from __future__ import annotations

from typing import Any

from kafkasim.model import messages as m
from kafkasim.model.errors import Errors
from kafkasim.model.messages.clients import acls
from kafkasim.scenarios.wire.adapters.base import Adapter, Body, Call

_RESOURCES = {acls.ANY: 1, acls.TOPIC: 2, acls.GROUP: 3, acls.CLUSTER: 4, acls.TRANSACTIONAL_ID: 5}
_PATTERNS = {acls.ANY: 1, acls.MATCH: 2, acls.LITERAL: 3, acls.PREFIXED: 4}
_OPERATIONS = {acls.ANY: 1} | {name: code for code, name in enumerate((
    acls.ALL, acls.READ, acls.WRITE, acls.CREATE, acls.DELETE, acls.ALTER, acls.DESCRIBE,
    acls.CLUSTER_ACTION, acls.DESCRIBE_CONFIGS, acls.ALTER_CONFIGS, acls.IDEMPOTENT_WRITE,
), 2)}  # fmt: skip
_PERMISSIONS = {acls.ANY: 1, acls.DENY: 2, acls.ALLOW: 3}
"""The codes (ResourceType, PatternType, AclOperation, AclPermissionType)."""

_SECURITY_DISABLED = "No Authorizer is configured."


def _name(codes: dict[str, int], code: int) -> str:
    """Return what a code means; of one that is not modelled a name that nobody has."""
    return next((name for name, each in codes.items() if each == code), f"unknown-{code}")


def _bindings(call: Call) -> list[Any]:
    return [m.CreateAclsRequest(tuple([
        m.AclBinding(
            _name(_RESOURCES, each["ResourceType"]),
            each["ResourceName"],
            _name(_PATTERNS, each["ResourcePatternType"]),
            each["Principal"],
            each["Host"],
            _name(_OPERATIONS, each["Operation"]),
            _name(_PERMISSIONS, each["PermissionType"]),
        )
        for each in call.body["Creations"]
    ]))]  # fmt: skip


def _created(_call: Call, answers: list[Any]) -> Body:
    (answer,) = answers
    results = answer.results if answer.error is Errors.NONE else [(answer.error, "")]
    return {
        "Results": [
            {"ErrorCode": error, "ErrorMessage": message or None} for error, message in results
        ]
    }


def _filter(body: Body) -> m.AclFilter:
    return m.AclFilter(
        _name(_RESOURCES, body["ResourceTypeFilter"]),
        body["ResourceNameFilter"],
        _name(_PATTERNS, body["PatternTypeFilter"]),
        body["PrincipalFilter"],
        body["HostFilter"],
        _name(_OPERATIONS, body["Operation"]),
        _name(_PERMISSIONS, body["PermissionType"]),
    )


def _filters(call: Call) -> list[Any]:
    return [m.DeleteAclsRequest(tuple([_filter(each) for each in call.body["Filters"]]))]


def _resource(binding: m.AclBinding) -> Body:
    return {
        "ResourceType": _RESOURCES[binding.resource_type],
        "ResourceName": binding.name,
        "PatternType": _PATTERNS[binding.pattern_type],
    }


def _entry(binding: m.AclBinding) -> Body:
    return {
        "Principal": binding.principal,
        "Host": binding.host,
        "Operation": _OPERATIONS[binding.operation],
        "PermissionType": _PERMISSIONS[binding.permission],
    }


def _deleted(call: Call, answers: list[Any]) -> Body:
    (answer,) = answers
    results = answer.results
    if answer.error is not Errors.NONE:
        results = [(answer.error, "", ())] * len(call.body["Filters"])
    return {
        "FilterResults": [
            {
                "ErrorCode": error,
                "ErrorMessage": message or None,
                "MatchingAcls": [
                    {"ErrorCode": 0, "ErrorMessage": None, **_resource(each), **_entry(each)}
                    for each in deleted
                ],
            }
            for error, message, deleted in results
        ]
    }


def _wanted(call: Call) -> list[Any]:
    return [m.DescribeAclsRequest(_filter(call.body))]


def _described(_call: Call, answers: list[Any]) -> Body:
    (answer,) = answers
    resources: dict[tuple[str, str, str], list[m.AclBinding]] = {}
    for each in answer.bindings:
        resources.setdefault((each.resource_type, each.name, each.pattern_type), []).append(each)
    disabled = answer.error is Errors.SECURITY_DISABLED
    return {
        "ErrorCode": answer.error,
        "ErrorMessage": _SECURITY_DISABLED if disabled else None,
        "Resources": [
            {**_resource(found[0]), "Acls": [_entry(each) for each in found]}
            for found in resources.values()
        ],
    }


ACLS = {
    "DescribeAcls": Adapter(1, 3, _wanted, _described),
    "CreateAcls": Adapter(1, 3, _bindings, _created),
    "DeleteAcls": Adapter(1, 3, _filters, _deleted),
}
"""By API name."""
