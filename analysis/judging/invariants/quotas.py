"""RATE: a client waits for the quota that the metadata has, and for none that was removed.

A broker measures a client by the quotas of its own image, the most specific one that applies
(DefaultQuotaCallback.quotaLimit). In ZooKeeper mode its quotas have no metadata offset, so there it
is not judged.
"""

from __future__ import annotations

from kafkasim.analysis.judging.findings import Findings
from kafkasim.analysis.judging.history.history import History
from kafkasim.analysis.judging.settings import Settings
from kafkasim.model import facts
from kafkasim.model.controller.common.client_quotas import entity_text, precedence


class Rates:
    """RATE: the rate above which a client has to wait is that of its broker's metadata."""

    def __init__(self, history: History, findings: Findings, settings: Settings) -> None:
        self._findings = findings
        self._judged = not settings.zookeeper
        # (entity, quota) -> what it was set to, by metadata offset
        self._changes: dict[tuple[str, str], dict[int, str | None]] = {}
        self._throttled: list[tuple[int, int, str, facts.Throttled]] = []

    def on_ConfigChanged(self, _seq: int, _t: int, _node: str, fact: facts.ConfigChanged) -> None:
        """Note a quota; a later controller tells again what an earlier one has."""
        if not fact.resource.startswith(("client-id:", "user:")):
            return
        self._changes.setdefault((fact.resource, fact.config), {})[fact.offset] = fact.value

    def on_Throttled(self, seq: int, t: int, node: str, fact: facts.Throttled) -> None:
        """Keep a decision: its broker may be ahead of the controller that tells of the quotas."""
        if self._judged and fact.rate is not None:
            self._throttled.append((seq, t, node, fact))

    def finish(self) -> None:
        """Compare each throttle with the quotas of its broker's image."""
        for seq, t, node, fact in self._throttled:
            rate = self._rate(fact)
            if rate != fact.rate:
                due = "no quota" if rate is None else f"a quota of {rate}"
                self._findings.add(
                    "RATE", seq, t, ("", -1),
                    f"{node} throttled client {fact.client_id} of user {fact.user} above a"
                    f" {fact.config} of {fact.rate}; up to metadata offset {fact.offset} it has"
                    f" {due}",
                )  # fmt: skip

    def _rate(self, fact: facts.Throttled) -> str | None:
        for entity, _ in precedence(fact.user, fact.client_id):
            changes = self._changes.get((entity_text(entity), fact.config), {})
            known = [offset for offset in changes if offset <= fact.offset]
            rate = changes[max(known)] if known else None
            if rate is not None:
                return rate
        return None
