"""The names of topics, and the ids that each name has had: a topic may be created again.

A topic that is deleted and created again has a new id (KIP-516), but consumers keep positions and
coordinators keep offsets by its name.
"""

from __future__ import annotations

from kafkasim.analysis.judging.promise import FactSource
from kafkasim.model import facts


class TopicNames:
    """Follows the topics of a run. A controller may tell of a topic more than once."""

    def __init__(self, trace: FactSource) -> None:
        self.name: dict[str, str] = {}
        """Topic id -> name"""
        self.ids: dict[str, list[str]] = {}
        """Name -> the ids of its topics, in the order of their creation"""
        self.others: dict[str, list[str]] = {}
        """Topic id -> the ids of the other topics of its name; only of names that several have"""
        trace.subscribe(facts.TopicCreated, self._on_topic)

    def _on_topic(self, _seq: int, _t: int, _node: str, fact: facts.TopicCreated) -> None:
        if fact.topic_id in self.name:
            return
        self.name[fact.topic_id] = fact.topic
        ids = self.ids.setdefault(fact.topic, [])
        ids.append(fact.topic_id)
        if len(ids) > 1:
            self.others |= {each: [other for other in ids if other != each] for each in ids}
