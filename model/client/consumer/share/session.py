"""The client's side of a share session with one node (ShareSessionHandler)."""

from __future__ import annotations

from typing import TYPE_CHECKING

from kafkasim.model.client.consumer.share.acknowledgements import batches_of
from kafkasim.model.errors import Errors
from kafkasim.model.messages.share import (
    FINAL_SHARE_EPOCH,
    INITIAL_SHARE_EPOCH,
    ShareAcknowledgeRequest,
    ShareFetchRequest,
    SharePartitionRequest,
)

if TYPE_CHECKING:
    from kafkasim.model.client.consumer.share.acknowledgements import ByPartition, TopicIdPartition
    from kafkasim.model.config import ConsumerConfig

BEGIN_ANEW = (
    Errors.SHARE_SESSION_NOT_FOUND,
    Errors.INVALID_SHARE_SESSION_EPOCH,
    Errors.SHARE_SESSION_LIMIT_REACHED,
)
"""Errors after which the next request opens a new session."""

LAST_EPOCH = 2**31 - 1


class ShareSessionHandler:
    """Builds the requests of one session, and follows its epoch."""

    __slots__ = ("_config", "_member_id", "epoch", "partitions")

    def __init__(self, config: ConsumerConfig, member_id: str) -> None:
        self._config = config
        self._member_id = member_id
        self.epoch = INITIAL_SHARE_EPOCH
        self.partitions: dict[TopicIdPartition, None] = {}

    @property
    def is_new(self) -> bool:
        """Whether the next request opens the session; it cannot acknowledge."""
        return self.epoch == INITIAL_SHARE_EPOCH

    def fetch(
        self, wanted: list[TopicIdPartition], acknowledgements: ByPartition
    ) -> ShareFetchRequest:
        """Return a fetch that makes ``wanted`` the session's partitions."""
        config = self._config
        if self.is_new:
            self.partitions.update(dict.fromkeys(wanted))
            added, forgotten = list(self.partitions), []
        else:
            forgotten = [key for key in self.partitions if key not in wanted]
            for key in forgotten:
                del self.partitions[key]
            added = [key for key in wanted if key not in self.partitions]
            self.partitions.update(dict.fromkeys(added))
        return ShareFetchRequest(
            config.group_id,
            self._member_id,
            self.epoch,
            config.fetch_max_wait_ms,
            config.fetch_min_bytes,
            config.fetch_max_bytes,
            config.max_poll_records,
            config.max_poll_records,
            _asked(added, acknowledgements),
            tuple(forgotten),
        )

    def acknowledge(self, acknowledgements: ByPartition, close: bool) -> ShareAcknowledgeRequest:
        """Return a request that only acknowledges; ``close`` ends the session with it."""
        if close:
            self.epoch = FINAL_SHARE_EPOCH
        asked = _asked([], acknowledgements)
        config = self._config
        return ShareAcknowledgeRequest(config.group_id, self._member_id, self.epoch, asked)

    def on_response(self, error: Errors) -> bool:
        """Follow the epoch; return whether the response counts."""
        if error in BEGIN_ANEW:
            self.epoch = INITIAL_SHARE_EPOCH
            return False
        if self.epoch > INITIAL_SHARE_EPOCH - 1:
            self.epoch = 1 if self.epoch == LAST_EPOCH else self.epoch + 1
        return error is Errors.NONE

    def on_failure(self) -> None:
        """Begin anew: the request may or may not have been served."""
        self.epoch = INITIAL_SHARE_EPOCH


def _asked(
    added: list[TopicIdPartition], acknowledgements: ByPartition
) -> tuple[SharePartitionRequest, ...]:
    keys = dict.fromkeys([*added, *acknowledgements])
    return tuple(
        [
            SharePartitionRequest(tp, topic_id, batches_of(acknowledgements.get(key, {})))
            for key in keys
            for topic_id, tp in [key]
        ]
    )
