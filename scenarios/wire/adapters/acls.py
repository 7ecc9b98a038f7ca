"""CreateAcls, DeleteAcls and DescribeAcls, with the codes of Kafka's enumerations."""

from __future__ import annotations

from typing import Any

from kafkasim.model import messages as m
from kafkasim.model.errors import Errors
from kafkasim.model.messages.clients import acls
from kafkasim.scenarios.wire.adapters.base import Adapter, Body, Call
from kafkasim.scenarios.wire.schemas import Malformed

RESOURCES = {acls.ANY: 1, acls.TOPIC: 2, acls.GROUP: 3, acls.CLUSTER: 4, acls.TRANSACTIONAL_ID: 5}
PATTERNS = {acls.ANY: 1, acls.MATCH: 2, acls.LITERAL: 3, acls.PREFIXED: 4}
OPERATIONS = {acls.ANY: 1} | {name: code for code, name in enumerate((
    acls.ALL, acls.READ, acls.WRITE, acls.CREATE, acls.DELETE, acls.ALTER, acls.DESCRIBE,
    acls.CLUSTER_ACTION, acls.DESCRIBE_CONFIGS, acls.ALTER_CONFIGS, acls.IDEMPOTENT_WRITE,
), 2)}  # fmt: skip
PERMISSIONS = {acls.ANY: 1, acls.DENY: 2, acls.ALLOW: 3}
"""The codes (ResourceType, PatternType, AclOperation, AclPermissionType)."""

_SECURITY_DISABLED = "No Authorizer is configured."


def name_of(codes: dict[str, int], code: int) -> str:
    """Return what a code means; of one that is not modelled a name that nobody has.

    Raises:
        Malformed: 0, the code of UNKNOWN: Kafka cannot parse such a request, and closes the
            connection (CreateAclsRequest.validate).
    """
    if code == 0:
        raise Malformed("an access control list has UNKNOWN elements")
    return next((name for name, each in codes.items() if each == code), f"unknown-{code}")


def _bindings(call: Call) -> list[Any]:
    return [m.CreateAclsRequest(tuple([
        m.AclBinding(
            name_of(RESOURCES, each["ResourceType"]),
            each["ResourceName"],
            name_of(PATTERNS, each["ResourcePatternType"]),
            each["Principal"],
            each["Host"],
            name_of(OPERATIONS, each["Operation"]),
            name_of(PERMISSIONS, each["PermissionType"]),
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
        name_of(RESOURCES, body["ResourceTypeFilter"]),
        body["ResourceNameFilter"],
        name_of(PATTERNS, body["PatternTypeFilter"]),
        body["PrincipalFilter"],
        body["HostFilter"],
        name_of(OPERATIONS, body["Operation"]),
        name_of(PERMISSIONS, body["PermissionType"]),
    )


def _filters(call: Call) -> list[Any]:
    return [m.DeleteAclsRequest(tuple([_filter(each) for each in call.body["Filters"]]))]


def _resource(binding: m.AclBinding) -> Body:
    return {
        "ResourceType": RESOURCES[binding.resource_type],
        "ResourceName": binding.name,
        "PatternType": PATTERNS[binding.pattern_type],
    }


def _entry(binding: m.AclBinding) -> Body:
    return {
        "Principal": binding.principal,
        "Host": binding.host,
        "Operation": OPERATIONS[binding.operation],
        "PermissionType": PERMISSIONS[binding.permission],
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
