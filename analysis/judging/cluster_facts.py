"""One cluster's facts, among those of several clusters in one run.

Hosts carry their cluster in their name: ``a.broker-1`` is broker-1 of cluster a. Topic ids, groups
and producer ids mean something in their cluster only, so each cluster has judges of its own, and
they see its facts under the names that its hosts have in it. What the world itself tells (phases,
faults between sites) every cluster sees. A host without a cluster has clients in several; what they
tell belongs to the cluster that has the topic, but for topics of a mirror's own.
"""

from __future__ import annotations

import re
from dataclasses import replace
from functools import partial
from typing import Any

from kafkasim.analysis.judging.promise import FactSource, Handler
from kafkasim.model.facts import FaultEnded, FaultStarted, TopicCreated

WORLD = "world"
"""The node of the facts that no host records."""


INTERNAL = ".internal"
"""How the names of topics end that hold a mirror's own state; it reads them when it starts."""


class ClusterFacts:
    """A source of one cluster's facts. It is made before the first of them."""

    def __init__(self, source: FactSource, cluster: str) -> None:
        self._source = source
        self._domain = f"{cluster}."
        self._names: dict[str, str] = {}  # by node: its name in this cluster, "" if it has none
        self._topic_ids: dict[str, None] = {}
        self._callbacks: dict[type, tuple[Handler, ...]] = {}
        self.subscribe(TopicCreated, self._on_topic)

    def subscribe(self, fact_type: type, callback: Handler) -> None:
        """Call ``callback`` for every later fact of a type, after those subscribed before."""
        known = self._callbacks.get(fact_type)
        self._callbacks[fact_type] = (*(known or ()), callback)
        if known is None:
            self._source.subscribe(fact_type, partial(self._tell, fact_type))

    def unsubscribe(self, fact_type: type, callback: Handler) -> None:
        """Stop calling ``callback``; one that is not subscribed is not an error."""
        known = self._callbacks.get(fact_type, ())
        self._callbacks[fact_type] = tuple([each for each in known if each != callback])

    def _tell(self, fact_type: type, seq: int, t_us: int, node: str, fact: Any) -> None:
        name = self._names.get(node)
        if name is None:
            name = self._names[node] = local_name(node, self._domain)
        if not name:
            if "." in node or getattr(fact, "topic_id", "") not in self._topic_ids:
                return
            if hasattr(fact, "group") or hasattr(fact, "transactional_id"):
                return  # what a mirror reads and in what transactions: mirrors.py judges that
            name = node
        elif node == WORLD and isinstance(fact, FaultStarted | FaultEnded):
            own = re.sub(rf"(?<![^+|]){re.escape(self._domain)}", "", fact.target)
            if own == fact.target:
                return  # a fault of other clusters
            fact = replace(fact, target=own)
        for callback in self._callbacks[fact_type]:
            callback(seq, t_us, name, fact)

    def _on_topic(self, _seq: int, _t: int, _node: str, fact: TopicCreated) -> None:
        if not fact.topic.endswith(INTERNAL):
            self._topic_ids[fact.topic_id] = None


def local_name(node: str, domain: str) -> str:
    """Return the name of a node in a cluster's domain (``a.``), "" if it is no node of it."""
    return node if node == WORLD else node.removeprefix(domain) if node.startswith(domain) else ""
