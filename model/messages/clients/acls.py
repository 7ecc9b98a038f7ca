"""CreateAcls, DeleteAcls and DescribeAcls, and what an access control list entry is (KIP-11, 140).

Names are those of Kafka's enumerations in lower case, as kafka-acls takes them. Left out: the
resource types user and delegation-token with their operations.
"""

from __future__ import annotations

from typing import NamedTuple

from kafkasim.model.errors import Errors
from kafkasim.model.messages.base import Message
from kafkasim.model.values import value

TOPIC, GROUP, CLUSTER, TRANSACTIONAL_ID = "topic", "group", "cluster", "transactional-id"
RESOURCE_TYPES = (TOPIC, GROUP, CLUSTER, TRANSACTIONAL_ID)
CLUSTER_NAME = "kafka-cluster"
"""The name of the only resource of type cluster (Resource.CLUSTER_NAME)."""

LITERAL, PREFIXED, MATCH, ANY = "literal", "prefixed", "match", "any"
"""How a pattern names resources; ``match`` and ``any`` are for filters alone."""

WILDCARD = "*"
"""As a literal name: every resource of the type; as a host: every host."""

WILDCARD_PRINCIPAL = "User:*"

ALL = "all"
READ, WRITE, CREATE, DELETE, ALTER, DESCRIBE = (
    "read",
    "write",
    "create",
    "delete",
    "alter",
    "describe",
)
CLUSTER_ACTION, IDEMPOTENT_WRITE = "cluster-action", "idempotent-write"
DESCRIBE_CONFIGS, ALTER_CONFIGS = "describe-configs", "alter-configs"
OPERATIONS = (
    ALL, READ, WRITE, CREATE, DELETE, ALTER, DESCRIBE, CLUSTER_ACTION, DESCRIBE_CONFIGS,
    ALTER_CONFIGS, IDEMPOTENT_WRITE,
)  # fmt: skip

ALLOW, DENY = "allow", "deny"
PERMISSIONS = (ALLOW, DENY)


class AclBinding(NamedTuple):
    """One entry: who may do, or may not do, what with which resources (AclBinding)."""

    resource_type: str
    name: str
    pattern_type: str  # LITERAL or PREFIXED
    principal: str  # User:alice, or User:* for everybody
    host: str
    operation: str
    permission: str


@value
class AclFilter:
    """Which entries are meant; None and ANY match everything (AclBindingFilter)."""

    resource_type: str = ANY
    name: str | None = None
    pattern_type: str = ANY
    principal: str | None = None
    host: str | None = None
    operation: str = ANY
    permission: str = ANY


@value
class CreateAclsRequest(Message):
    bindings: tuple[AclBinding, ...]


@value
class CreateAclsResponse(Message):
    error: Errors
    results: tuple[tuple[Errors, str], ...]  # (error, message) of each binding


@value
class DeleteAclsRequest(Message):
    filters: tuple[AclFilter, ...]


@value
class DeleteAclsResponse(Message):
    error: Errors
    # (error, message, deleted entries) of each filter
    results: tuple[tuple[Errors, str, tuple[AclBinding, ...]], ...]


@value
class DescribeAclsRequest(Message):
    filter: AclFilter


@value
class DescribeAclsResponse(Message):
    error: Errors
    bindings: tuple[AclBinding, ...]
