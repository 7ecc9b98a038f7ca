"""AUTHZ: every broker allows what the access control lists of its metadata allow, and no more.

A node decides on the entries of its own image, which may be older than the controller's (KIP-801).
So its decision is compared with what the entries up to its metadata offset say, as a set: whoever
finds them otherwise, by a search or an index, must find the same (StandardAuthorizer). The entries
of one change take effect together, so amid a change what was before it counts, or what is after it.
A node that starts anew decides once it has loaded what it had (completeInitialLoad).

In ZooKeeper mode a decision's offset is that of the last notification that its broker has read. The
entries of a resource may be newer by then, and the broker that wrote them knows them first, so
what later changes leave counts as well, of those that are told up to a second later.
"""

from __future__ import annotations

from kafkasim.analysis.judging.findings import Findings
from kafkasim.analysis.judging.history.history import History
from kafkasim.analysis.judging.settings import Settings
from kafkasim.model import facts
from kafkasim.model.controller.common.acls import Action, Authorizer, AuthorizerRules
from kafkasim.model.messages.clients.acls import AclBinding

SECOND_US = 1_000_000


class Access:
    """AUTHZ: a decision is that of the entries, super users and the default of its broker."""

    def __init__(self, history: History, findings: Findings, settings: Settings) -> None:
        self._findings = findings
        # By metadata offset and entry: when it was told, and what.
        self._changes: dict[tuple[int, str], tuple[int, facts.AclChanged]] = {}
        self._ends: dict[int, None] = {}  # the last offsets of the changes
        self._decisions: list[tuple[int, int, str, facts.Authorized]] = []
        self._super_users = settings.super_users
        self._everyone = settings.allows_everyone
        self._zookeeper = settings.zookeeper

    def on_AclChanged(self, _seq: int, t: int, _node: str, fact: facts.AclChanged) -> None:
        """Note a change; a later controller tells again what an earlier one has."""
        self._changes.setdefault((fact.offset, fact.id), (t, fact))

    def on_MetadataCommitted(
        self, _seq: int, _t: int, _node: str, fact: facts.MetadataCommitted
    ) -> None:
        """Note where a change ends."""
        self._ends[fact.offset] = None

    def on_Authorized(self, seq: int, t: int, node: str, fact: facts.Authorized) -> None:
        """Keep a decision: its broker may be ahead of the controller that tells of the entries."""
        self._decisions.append((seq, t, node, fact))

    def finish(self) -> None:
        """Compare each decision with the entries of its broker's image."""
        newest: dict[str, int] = {}
        for seq, t, node, fact in self._decisions:
            if fact.offset < newest.setdefault(node, fact.offset):
                self._findings.add(
                    "AUTHZ", seq, t, ("", -1),
                    f"{node} decided on the entries up to metadata offset {fact.offset}, after it"
                    f" had decided on those up to {newest[node]}",
                )  # fmt: skip
            newest[node] = fact.offset
            images = self._later(t, fact) if self._zookeeper else self._images(fact)
            if fact.allowed not in [self._allowed(fact, each) for each in images]:
                did, does = ("allowed", "deny") if fact.allowed else ("denied", "allow")
                self._findings.add(
                    "AUTHZ", seq, t, ("", -1),
                    f"{node} {did} {fact.principal} to {fact.operation} {fact.resource_type}"
                    f" {fact.name or '(any)'}, which the entries up to metadata offset"
                    f" {fact.offset} {does}",
                )  # fmt: skip

    def _images(self, fact: facts.Authorized) -> list[int]:
        """Return the metadata offset of a decision, or amid a change those before and after it."""
        if fact.offset in self._ends or not self._ends:
            return [fact.offset]
        before = [each for each in self._ends if each < fact.offset]
        after = [each for each in self._ends if each > fact.offset]
        return [max(before, default=-1), min(after, default=fact.offset)]

    def _later(self, t: int, fact: facts.Authorized) -> list[int]:
        """Return the zxid of a decision, and those of the later changes that may be known."""
        told = [offset for (offset, _), (told, _) in self._changes.items() if told <= t + SECOND_US]
        return [fact.offset, *[offset for offset in told if offset > fact.offset]]

    def _allowed(self, fact: facts.Authorized, offset: int) -> bool:
        entries = self._entries(offset)
        authorizer = Authorizer(entries, self._super_users, self._everyone, AuthorizerRules())
        decide = authorizer.decide if fact.name else authorizer.decide_by_type
        name = fact.name or "hardcode"
        action = Action(fact.principal, fact.host, fact.operation, fact.resource_type, name)
        return decide(action).allowed

    def _entries(self, offset: int) -> dict[str, AclBinding]:
        entries: dict[str, AclBinding] = {}
        for each in sorted(self._changes):
            _, fact = self._changes[each]
            if fact.offset <= offset and fact.added:
                entries[fact.id] = AclBinding(
                    fact.resource_type, fact.name, fact.pattern_type, fact.principal, fact.host,
                    fact.operation, fact.permission,
                )  # fmt: skip
            elif fact.offset <= offset:
                entries.pop(fact.id, None)
        return entries
