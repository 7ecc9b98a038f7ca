"""Stalls of share groups whose share coordinator has lost that a share partition was initialized.

Two logs tell of it: ``__consumer_offsets`` that the group coordinator had it initialized
(ShareGroupStatePartitionMetadata), ``__share_group_state`` what the initialization wrote. If a loss
takes only the second, the group coordinator never has it initialized again
(GroupMetadataManager.subscribedTopicsChangeMap), and the share coordinator refuses each read with
INVALID_REQUEST (ShareCoordinatorShard.maybeGetReadStateError). The leader tells its members
UNKNOWN_SERVER_ERROR for it (SharePartition.fetchPersisterError) and hands out nothing, until an
operator resets or deletes the group's offsets.
"""

from __future__ import annotations

from kafkasim.analysis.judging.history.footing import Footing
from kafkasim.analysis.judging.promise import FactSource
from kafkasim.analysis.judging.source import Losses
from kafkasim.analysis.judging.transactions.liveness.shares.leaders import SHARES, Key
from kafkasim.model import facts

REFUSED = "UNKNOWN_SERVER_ERROR"


class ForgottenShares:
    """Follows the leaders of share partitions, who read the persisted state."""

    def __init__(self, trace: FactSource, losses: Losses) -> None:
        self._footing = Footing(trace, losses)
        self._topic_ids: dict[str, str] = {}  # by name, the last one counts
        self._loaded: dict[Key, int] = {}  # the row of the last read that succeeded
        self._refused: dict[Key, int] = {}  # the row of the last one, if it failed
        for kind, handler in (
            (facts.TopicCreated, self._on_topic),
            (facts.SharePartitionLoaded, self._on_loaded),
            (facts.SharePartitionClosed, self._on_closed),
        ):
            trace.subscribe(kind, handler)

    def excuse(self, line: str) -> str:
        """Return the reason of the loss since the last leader could read, or ""."""
        found = SHARES.match(line)
        if found is None:
            return ""
        group, key = found[1], (self._topic_ids.get(found[4], ""), int(found[5]))
        refused = self._refused.get((group, *key))
        if refused is None:
            return ""
        loaded = self._loaded.get((group, *key), -1)
        return self._footing.lost([self._footing.of_share(group, key, loaded, refused)])

    def _on_topic(self, _seq: int, _t: int, _node: str, fact: facts.TopicCreated) -> None:
        self._topic_ids[fact.topic] = fact.topic_id

    def _on_loaded(self, seq: int, _t: int, _node: str, fact: facts.SharePartitionLoaded) -> None:
        key = (fact.group, fact.topic_id, fact.partition)
        self._loaded[key] = seq
        self._refused.pop(key, None)

    def _on_closed(self, seq: int, _t: int, _node: str, fact: facts.SharePartitionClosed) -> None:
        if fact.reason == REFUSED:
            self._refused[fact.group, fact.topic_id, fact.partition] = seq
