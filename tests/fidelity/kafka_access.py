"""What users may do by their access control lists, and how they are throttled by quotas."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from pathlib import Path

from tests.fidelity.conversations import (
    access_rules,
    acls,
    granting,
    partly_allowed,
    privileges,
    throttled,
)
from tests.fidelity.conversations.holding import ask_all, hold_all
from tests.fidelity.conversations.talk import Talk
from tests.fidelity.real_kafka import VERSIONS as KRAFT_VERSIONS
from tests.fidelity.sides import SETTINGS as COMMON
from tests.fidelity.sides import Side

HERE = Path(__file__).parent
VERSIONS = KRAFT_VERSIONS

SECURED: dict[str, Callable[[Talk], None]] = {
    "entries": acls.changing,
    "rules": access_rules.rules,
    "privileges": privileges.single,
    "unknown resources": privileges.unknown,
    **partly_allowed.CONVERSATIONS,
}

FOR_EVERYONE = {**granting.SETTINGS, "allow.everyone.if.no.acl.found": "true"}

WITHOUT_ENTRIES: dict[str, Callable[[Talk], None]] = {
    "rules, everyone allowed": access_rules.rules,
    **throttled.CONVERSATIONS,
}

CLUSTERS = (
    (SECURED, granting.SETTINGS),
    (WITHOUT_ENTRIES, FOR_EVERYONE),
    ({"no authorizer": acls.disabled}, COMMON),
)


def ask(version: str) -> list[str]:
    """Return the answers of all clusters of a version."""
    return ask_all(version, CLUSTERS)


def answers(side_of: Callable[[Mapping[str, str]], Side]) -> list[str]:
    """Run every conversation on sides with their settings; return a line per answer."""
    return hold_all(side_of, CLUSTERS)


def committed(version: str) -> list[str]:
    """Return the answers that a version of Kafka gave."""
    return (HERE / "access" / f"{version}.txt").read_text().splitlines()
