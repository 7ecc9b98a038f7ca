"""missed-deletion: a group has a value that was deleted, and will never hear of the deletion.

It has read the value, and passes the place of the tombstone once a cleaner has removed that:
delete.retention.ms was shorter than the group's lag (KIP-534). Kafka allows it, so it is an
observation, and no anomaly. A tombstone that gave way to a later record of its key is not missed.
"""

from __future__ import annotations

from collections.abc import Callable

from kafkasim.model import facts
from kafkasim.scenarios.judging.source import FactSource, PartitionKey


class MissedDeletions:
    """Follows what groups read of compacted topics; ``note`` records an observation."""

    def __init__(self, trace: FactSource, note: Callable[[str, int], None]) -> None:
        self._trace = trace
        self._note = note
        self._keys: dict[PartitionKey, dict[int, str]] = {}
        self._tombstones: dict[PartitionKey, dict[int, None]] = {}
        self._removed: dict[PartitionKey, dict[int, None]] = {}
        self._next: dict[tuple[str, str, PartitionKey], int] = {}  # by group and member
        self._values: dict[tuple[str, PartitionKey], dict[str, None]] = {}  # keys with a value
        trace.subscribe(facts.KeysAppended, self._on_keys)

    def _on_keys(self, _seq: int, _t: int, _node: str, fact: facts.KeysAppended) -> None:
        key = (fact.topic_id, fact.partition)
        if not self._keys:  # runs without a compacted topic pay for nothing else
            self._trace.subscribe(facts.Cleaned, self._on_cleaned)
            self._trace.subscribe(facts.Positioned, self._on_positioned)
            self._trace.subscribe(facts.Polled, self._on_polled)
        self._keys.setdefault(key, {}).update(enumerate(fact.keys, fact.base_offset))
        self._tombstones.setdefault(key, {}).update(dict.fromkeys(fact.tombstones))

    def _on_cleaned(self, _seq: int, _t: int, _node: str, fact: facts.Cleaned) -> None:
        key = (fact.topic_id, fact.partition)
        tombstones = self._tombstones.get(key, {})
        removed = [offset for offset in fact.removed_offsets() if offset in tombstones]
        if not removed:
            return
        names = self._keys[key]
        last = {name: offset for offset, name in names.items() if offset < fact.mapped_offset}
        for offset in removed:
            if last[names[offset]] == offset:
                self._removed.setdefault(key, {})[offset] = None

    def _on_positioned(self, _seq: int, _t: int, _node: str, fact: facts.Positioned) -> None:
        reader = (fact.group, fact.member_id, (fact.topic_id, fact.partition))
        if fact.reason == "none":
            self._next.pop(reader, None)
        else:
            self._next[reader] = fact.offset

    def _on_polled(self, _seq: int, t_us: int, _node: str, fact: facts.Polled) -> None:
        key = (fact.topic_id, fact.partition)
        names = self._keys.get(key)
        if names is None or not fact.offsets:
            return
        reader = (fact.group, fact.member_id, key)
        expected = self._next.get(reader, fact.offsets[0])
        values = self._values.setdefault((fact.group, key), {})
        for offset in fact.offsets:
            for passed in range(expected, offset):
                if passed in self._removed.get(key, {}) and names[passed] in values:
                    self._note("missed-deletion", t_us)
            if offset in self._tombstones[key]:
                values.pop(names[offset], None)
            elif offset in names:
                values[names[offset]] = None
            expected = offset + 1
        self._next[reader] = expected
