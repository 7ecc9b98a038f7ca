"""Blocks of producer ids for the brokers (ZkProducerIdManager, AllocateProducerIds)."""

from __future__ import annotations

from typing import TYPE_CHECKING

from kafkasim.model.controller.zk.events import Steps, ZkFailed
from kafkasim.model.controller.zk.store.zk_data import PRODUCER_IDS, ProducerIdBlock
from kafkasim.model.errors import Errors
from kafkasim.model.messages import AllocateProducerIdsRequest, AllocateProducerIdsResponse
from kafkasim.model.zookeeper.ops import GetData, SetData, ZkError

if TYPE_CHECKING:
    from kafkasim.model.controller.zk.context import ControllerContext
    from kafkasim.model.controller.zk.store.controller_store import ControllerStore

BLOCK_SIZE = 1000


class ProducerIds:
    """Gives each block of ids to one broker, by compare and set on /latest_producer_id_block."""

    def __init__(self, context: ControllerContext, store: ControllerStore) -> None:
        self.context = context
        self.store = store

    def allocate(self, request: AllocateProducerIdsRequest) -> Steps:
        """Return the response with the next block.

        Raises:
            ZkFailed: ZooKeeper returned an unexpected error.
        """
        known = self.context.broker_epochs.get(request.broker_id)
        if known is None:
            return AllocateProducerIdsResponse(Errors.BROKER_ID_NOT_REGISTERED, 0, 0)
        if request.broker_epoch != known:
            return AllocateProducerIdsResponse(Errors.STALE_BROKER_EPOCH, 0, 0)
        while True:
            (found,) = yield (GetData(PRODUCER_IDS),)
            if found.error is not ZkError.OK:
                raise ZkFailed(found.error)
            start = found.data.end + 1 if found.data else 0
            block = ProducerIdBlock(request.broker_id, start, start + BLOCK_SIZE - 1)
            (written,) = yield from self.store.write(
                SetData(PRODUCER_IDS, block, found.stat.version)
            )
            if written.error is ZkError.OK:
                return AllocateProducerIdsResponse(Errors.NONE, start, BLOCK_SIZE)
