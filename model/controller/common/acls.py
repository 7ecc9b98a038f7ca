"""Access control lists: which entries a filter means, and what they allow (StandardAuthorizer).

Every node decides on the entries of its own metadata image (KIP-801), so a change takes effect at
each node when that node has replayed it. Kafka keeps its entries sorted and searches them; here
they are looked through, which decides the same: a search that stops too early is a variant's
(:meth:`AuthorizerRules.matching`).

In ZooKeeper mode the entries are each broker's cache of znodes, and are decided on in the same way
(AclAuthorizer). Left out: delegation tokens.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import NamedTuple

from kafkasim.model.messages.clients.acls import (
    ALL,
    ALLOW,
    ALTER,
    ALTER_CONFIGS,
    ANY,
    CLUSTER,
    CLUSTER_NAME,
    DELETE,
    DENY,
    DESCRIBE,
    DESCRIBE_CONFIGS,
    LITERAL,
    MATCH,
    OPERATIONS,
    PERMISSIONS,
    PREFIXED,
    READ,
    RESOURCE_TYPES,
    WILDCARD,
    WILDCARD_PRINCIPAL,
    WRITE,
    AclBinding,
    AclFilter,
)

_IMPLYING: dict[str, tuple[str, ...]] = {
    DESCRIBE: (DESCRIBE, READ, WRITE, DELETE, ALTER),
    DESCRIBE_CONFIGS: (DESCRIBE_CONFIGS, ALTER_CONFIGS),
}
"""The operations whose ALLOW allows another one, too; a DENY denies nothing else."""


class Action(NamedTuple):
    """What somebody asks for (Action, with the principal and host of its request)."""

    principal: str
    host: str
    operation: str
    resource_type: str
    name: str


class Decision(NamedTuple):
    """What the authorizer says, and the entry that decided, None for a default."""

    allowed: bool
    rule: AclBinding | None


class AuthorizerRules:
    """The decisions of StandardAuthorizerData. A variant overrides one of them."""

    def matching(self, entries: Iterable[AclBinding], action: Action) -> list[AclBinding]:
        """Return the entries of the resource that an action names, of whatever principal."""
        return [each for each in entries if covers(each, action.resource_type, action.name)]

    def implied(self, entry: AclBinding, operation: str) -> bool:
        """Return whether an entry is about an operation, by name or by implication."""
        if entry.operation in (ALL, operation):
            return True
        return entry.permission == ALLOW and entry.operation in _IMPLYING.get(operation, ())

    def is_from(self, entry: AclBinding, host: str) -> bool:
        """Return whether an entry is about a host: its own address, or all of them (A06)."""
        return entry.host in (host, WILDCARD)

    def without_entries(self, entries: list[AclBinding], everyone: bool) -> bool:
        """Return whether an action is allowed of which no entry says anything.

        ``entries`` are those of the resource, of other principals or operations;
        allow.everyone.if.no.acl.found counts only if there are none.
        """
        return everyone and not entries


class Authorizer:
    """Decides by the entries of one node's image, which it reads at each decision.

    Args:
        entries: of the image, by id; the mapping changes as metadata is replayed.
        super_users: principals that may do everything.
        everyone: allow.everyone.if.no.acl.found.
    """

    def __init__(
        self,
        entries: Mapping[str, AclBinding],
        super_users: tuple[str, ...],
        everyone: bool,
        rules: AuthorizerRules,
    ) -> None:
        self._entries = entries
        self._super_users = super_users
        self._everyone = everyone
        self._rules = rules

    def decide(self, action: Action) -> Decision:
        """Return whether an action is allowed (StandardAuthorizerData.authorize).

        A super user may do everything; then one DENY refuses, whatever else allows.
        """
        if action.principal in self._super_users:
            return Decision(True, None)
        entries = self._rules.matching(self._entries.values(), action)
        allowed_by: AclBinding | None = None
        for entry in entries:
            if not self._is_about(entry, action):
                continue
            if entry.permission == DENY:
                return Decision(False, entry)
            allowed_by = allowed_by or entry
        if allowed_by is not None:
            return Decision(True, allowed_by)
        return Decision(self._rules.without_entries(entries, self._everyone), None)

    def decide_by_type(self, action: Action) -> Decision:
        """Return whether the operation is allowed on any resource of the type.

        So it is on a resource that no entry names, or by an ALLOW that no DENY of its name, of a
        prefix of it or of all names takes back (Authorizer.authorizeByResourceType).
        """
        hardcode = self.decide(action)  # of a name like that
        if hardcode.allowed:
            return hardcode
        entries = [
            each
            for each in self._entries.values()
            if each.resource_type == action.resource_type and self._is_of(each, action)
            and each.operation in (ALL, action.operation)
        ]  # fmt: skip
        denied = [each for each in entries if each.permission == DENY]
        for entry in denied:
            if entry.pattern_type == LITERAL and entry.name == WILDCARD:
                return Decision(False, entry)
        for entry in entries:
            if entry.permission == ALLOW and not any(_dominates(deny, entry) for deny in denied):
                return Decision(True, entry)
        return Decision(False, None)

    def _is_about(self, entry: AclBinding, action: Action) -> bool:
        return self._is_of(entry, action) and self._rules.implied(entry, action.operation)

    def _is_of(self, entry: AclBinding, action: Action) -> bool:
        return entry.principal in (action.principal, WILDCARD_PRINCIPAL) and self._rules.is_from(
            entry, action.host
        )


def covers(entry: AclBinding, resource_type: str, name: str) -> bool:
    """Return whether an entry is about a resource: by its name, a prefix of it, or as every one."""
    if entry.resource_type != resource_type:
        return False
    if entry.pattern_type == PREFIXED:
        return name.startswith(entry.name)
    return entry.name in (name, WILDCARD)


def _dominates(deny: AclBinding, allow: AclBinding) -> bool:
    """Return whether a DENY takes back all that an ALLOW names."""
    if allow.pattern_type == LITERAL and allow.name == WILDCARD:
        return False  # a DENY of everything was looked for before
    if deny.pattern_type == PREFIXED:
        return allow.name.startswith(deny.name)
    return allow.pattern_type == LITERAL and allow.name == deny.name


def selects(wanted: AclFilter, entry: AclBinding) -> bool:
    """Return whether a filter means an entry (AclBindingFilter.matches)."""
    return (
        wanted.resource_type in (ANY, entry.resource_type)
        and _selects_name(wanted, entry)
        and wanted.principal in (None, entry.principal)
        and wanted.host in (None, entry.host)
        and wanted.operation in (ANY, entry.operation)
        and wanted.permission in (ANY, entry.permission)
    )


def _selects_name(wanted: AclFilter, entry: AclBinding) -> bool:
    """(ResourcePatternFilter.matches)"""
    if wanted.pattern_type not in (ANY, MATCH, entry.pattern_type):
        return False
    if wanted.name is None:
        return True
    if wanted.pattern_type != MATCH:
        return wanted.name == entry.name
    if entry.pattern_type == PREFIXED:
        return wanted.name.startswith(entry.name)
    return entry.name in (wanted.name, WILDCARD)


def is_binding(binding: AclBinding) -> bool:
    """Return whether an entry names one resource type, operation and so on.

    ANY and MATCH are for filters alone: the constructors of ResourcePattern and AccessControlEntry
    throw IllegalArgumentException, which fails the whole request (AclApis.handleCreateAcls).
    """
    return (
        binding.resource_type in RESOURCE_TYPES
        and binding.pattern_type in (LITERAL, PREFIXED)
        and binding.operation in OPERATIONS
        and binding.permission in PERMISSIONS
    )


def request_problem(binding: AclBinding) -> str:
    """Return why a request must not name an entry, "" if it may (AclApis.handleCreateAcls)."""
    if binding.resource_type == CLUSTER and binding.name != CLUSTER_NAME:
        return f"The only valid name for the CLUSTER resource is {CLUSTER_NAME}"
    if not binding.name:
        return "Invalid empty resource name"
    return ""


def binding_problem(binding: AclBinding) -> str:
    """Return why an entry cannot be created, "" if it can (AclControlManager.validateNewAcl)."""
    problem = request_problem(binding)
    if not problem and ":" not in binding.principal:
        return f"Could not parse principal from `{binding.principal}` (no colon is present)"
    return problem


def acl_text(binding: AclBinding) -> str:
    """Return an entry in words, for facts: ``allow User:a write on topic orders*``."""
    name = f"{binding.name}*" if binding.pattern_type == PREFIXED else binding.name
    host = "" if binding.host == WILDCARD else f" from {binding.host}"
    what = f"{binding.permission} {binding.principal}{host} {binding.operation}"
    return f"{what} on {binding.resource_type} {name}"
