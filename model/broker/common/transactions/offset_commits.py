"""TxnOffsetCommit: verified like a produce request, then served by the group coordinator.

Models KafkaApis.handleTxnOffsetCommitRequest and CoordinatorRuntime's
scheduleTransactionalWriteOperation.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from typing import TYPE_CHECKING, Any

from kafkasim.model.coordinator.runtime import client_error
from kafkasim.model.effects import Post
from kafkasim.model.errors import Errors
from kafkasim.model.messages import TxnOffsetCommitRequest, TxnOffsetCommitResponse
from kafkasim.model.records import GROUP_METADATA_TOPIC, NO_SEQUENCE, TopicPartition
from kafkasim.model.replication.requests.transactions.verification import (
    NOTHING_TO_VERIFY,
    operation_of,
)

if TYPE_CHECKING:
    from kafkasim.model.effects import Request
    from kafkasim.model.group.coordinator import GroupCoordinator
    from kafkasim.model.replication.requests.transactions.verification import (
        TransactionVerification,
        Verified,
    )


class TxnOffsetCommits:
    """Serves TxnOffsetCommit. ``knows(tp)``: whether the metadata cache has a partition."""

    def __init__(
        self,
        out: list[Any],
        coordinator: GroupCoordinator,
        verification: TransactionVerification,
        knows: Callable[[TopicPartition], bool],
        respond: Callable[[Request, Any], None],
    ) -> None:
        self._out = out
        self._coordinator = coordinator
        self._verification = verification
        self._knows = knows
        self._respond = respond

    def serve(self, item: Request, now: int) -> None:
        """Refuse unknown partitions, have the transaction verified, pass the rest on."""
        request: TxnOffsetCommitRequest = item.message
        known = tuple([offset for offset in request.offsets if self._knows(offset[0])])
        unknown = [offset[0] for offset in request.offsets if offset not in known]
        refused = tuple([(tp, Errors.UNKNOWN_TOPIC_OR_PARTITION) for tp in unknown])
        if not known:
            self._respond(item, TxnOffsetCommitResponse(refused))
            return
        served = replace(request, offsets=known)
        lane = self._coordinator.lane_of(request)
        number = self._coordinator.partition_for(request.group_id)
        partition = TopicPartition(GROUP_METADATA_TOPIC, number)

        def merge(answer: TxnOffsetCommitResponse) -> TxnOffsetCommitResponse:
            return TxnOffsetCommitResponse((*refused, *answer.results))

        def verified(outcome: Verified, _at: int) -> None:
            if partition in outcome.errors:
                error = client_error(outcome.errors[partition])
                results = tuple([(offset[0], error) for offset in known])
                self._respond(item, merge(TxnOffsetCommitResponse(results)))
                return
            guard = outcome.guards.get(partition)

            def commit(_: None, later: int) -> None:
                self._coordinator.on_txn_offset_commit(item, served, guard, merge, later)

            self._out.append(Post(lane, commit, None))

        if not request.group_id:
            verified(NOTHING_TO_VERIFY, now)  # the coordinator refuses it before any other check
            return
        self._verification.verify(
            request.transactional_id,
            request.producer_id,
            request.producer_epoch,
            {partition: NO_SEQUENCE},
            operation_of(request.transaction_version, request.knows_abortable),
            verified,
            now,
        )
