"""One term of an active controller: from its activation to its resignation (QuorumController).

    request ──► handler ──► (records, response)
                               │
                               ├─► append the records to the metadata log, as one batch
                               ├─► replay them into the image at once
                               └─► park the response until the high watermark passes them

Nothing else changes the image. A response without records is parked too while earlier records are
not committed: it was read from a state that may still be lost. A resignation drops this object with
its image, and answers the parked requests with NOT_CONTROLLER.

A batch holds at most 10000 records. The records of an event that has more become several batches,
each replayed and committed on its own (ControllerResult.of, which is not atomic).

Left out: Kafka 3.9 counts the intervals of both elections from the change that made them due, 4.0
from the activation.
"""

from __future__ import annotations

import random
from collections import deque
from collections.abc import Mapping
from dataclasses import replace
from typing import TYPE_CHECKING, Any

from kafkasim.model.config import BrokerConfig
from kafkasim.model.controller.common.records import (
    ELR_FEATURE,
    GROUP_VERSION,
    TRANSACTION_VERSION,
    FeatureLevelRecord,
    NoOpRecord,
)
from kafkasim.model.controller.common.responses import not_controller
from kafkasim.model.controller.kraft.committed import CommittedMetadata
from kafkasim.model.controller.kraft.feature_levels import formatted
from kafkasim.model.controller.kraft.managers.heartbeats import CHECK_AGAIN_US
from kafkasim.model.controller.kraft.managers.replication import MAX_ELECTIONS
from kafkasim.model.controller.kraft.ports import Raft
from kafkasim.model.controller.kraft.requests import (
    CHARGED,
    HANDLERS,
    ControllerResult,
    Managers,
)
from kafkasim.model.controller.kraft.rules import ControllerRules
from kafkasim.model.effects import Request, Respond
from kafkasim.model.facts import BrokerHeartbeat, ControllerActive, SessionEnded
from kafkasim.model.messages import BrokerHeartbeatRequest, EnvelopeRequest

if TYPE_CHECKING:
    from kafkasim.model.controller.common.mutation_quota import (
        ControllerMutationQuota,
        ControllerMutationQuotaManager,
    )
    from kafkasim.model.timers import Timers

LANE = "controller"
MAX_RECORDS_PER_BATCH = 10_000
PERIODIC = ("stale-check", "no-op", "unclean-scan", "balance")


class ActiveController:
    """The active controller of one Raft epoch."""

    def __init__(
        self,
        epoch: int,
        raft: Raft,
        committed: CommittedMetadata,
        config: BrokerConfig,
        rules: ControllerRules,
        placement_rng: random.Random,
        timers: Timers,
        out: list[Any],
        quotas: ControllerMutationQuotaManager,
        now: int,
    ) -> None:
        self.epoch = epoch
        self.raft = raft
        self.committed = committed
        self.config = config
        self.rules = rules
        self.timers = timers
        self.out = out
        self.image = committed.image.copy()
        self.managers = Managers(self.image, config, rules, placement_rng, now)
        self.parked: deque[tuple[int, Request, Any]] = deque()  # (last offset, request, response)
        self._quotas = quotas
        self._charged: dict[tuple[int, int], ControllerMutationQuota] = {}  # by request
        self._written = -1  # the last offset that this controller wrote

    def activate(self, features: Mapping[str, int], cause: str, now: int) -> None:
        """Write the bootstrap records into an empty log, and begin the periodic tasks.

        ``cause`` is in words what ended the leadership before; :meth:`resign` takes that of this.
        ``features`` are the levels that kafka-storage format --feature has set.
        """
        self.out.append(ControllerActive(self.epoch, True, cause))
        if not self.image.features:
            levels = formatted(self.rules.supported_features(), features)
            bootstrap: list[Any] = [
                FeatureLevelRecord(name, level)
                for name, level in levels.items()
                if level > 0 or name in (GROUP_VERSION, TRANSACTION_VERSION)
            ]
            if levels.get(ELR_FEATURE, 0) > 0:  # ActivationRecordsGenerator.recordsForEmptyLog
                bootstrap += self.managers.configs.elr_safety_records()
            self.append(bootstrap, now)
        self._arm_stale_check(now)
        self._arm_no_op(now)
        arm = self.timers.arm
        arm("unclean-scan", now + self._unclean_interval_us(), LANE, self._on_unclean_scan)
        if self.config.auto_leader_rebalance_enable:
            arm("balance", now + self._balance_interval_us(), LANE, self._on_balance)

    def resign(self, cause: str) -> None:
        """Stop, and answer the parked requests with NOT_CONTROLLER."""
        self.out.append(ControllerActive(self.epoch, False, cause))
        for key in PERIODIC:
            self.timers.cancel(key)
        while self.parked:
            self.refuse(self.parked.popleft()[1])

    # Events.

    def serve(self, item: Request, now: int, envelope: EnvelopeRequest | None = None) -> None:
        """Append the records of a request, and send or park its response.

        ``envelope`` is what it was forwarded in, and names the client.
        """
        message = item.message
        if type(message) is BrokerHeartbeatRequest:
            self.out.append(_heartbeat(message))
        result = self._handle(item, envelope, now)
        records, response = result.records, result.response
        if records and self.append(records, now) is None:
            self.refuse(item)
            return
        if result.replayed is not None:
            response = result.replayed()
        if self._written >= self.committed.end_offset:
            self.parked.append((self._written, item, response))
        else:
            self._respond(item, response, now)
        if records:
            self._arm_stale_check(now)

    def _handle(
        self, item: Request, envelope: EnvelopeRequest | None, now: int
    ) -> ControllerResult:
        """Have a request served, within the quota of the client that sent it."""
        message = item.message
        charged = None if envelope is None else CHARGED.get(type(message))
        if envelope is not None and charged is not None:
            user = envelope.principal.partition(":")[2]
            quota = self._quotas.quota_for(user, envelope.client_id, message.knows_quota, now)
            if quota is not None:
                self._charged[item.connection, item.correlation] = quota
                return charged(self.managers, message, now, quota.record)
        return HANDLERS[type(message)](self.managers, message, now)

    def append(self, records: list[Any], now: int) -> int | None:
        """Append an event's records to the log and replay them.

        Returns the last offset, or None if this controller leads no longer.
        """
        last_offset: int | None = None
        for start in range(0, len(records), MAX_RECORDS_PER_BATCH):
            batch = records[start : start + MAX_RECORDS_PER_BATCH]
            last_offset = self.raft.schedule_append(self.epoch, batch, now)
            if last_offset is None:
                return None
            offset = last_offset - len(batch)
            for record in batch:
                offset += 1
                self.image.apply(record, offset, self.epoch)
            self._written = last_offset
        self._arm_no_op(now)
        return last_offset

    def complete(self, end_offset: int, now: int) -> None:
        """Send the parked responses whose records lie below ``end_offset``, which is committed."""
        parked = self.parked
        while parked and parked[0][0] < end_offset:
            _, item, response = parked.popleft()
            self._respond(item, response, now)

    def refuse(self, item: Request) -> None:
        """Answer that the active controller is elsewhere."""
        self.out.append(Respond(item.connection, item.correlation, not_controller(item.message)))

    def _respond(self, item: Request, response: Any, now: int) -> None:
        """Answer, with the time that the client must wait because of its quota.

        The broker that has forwarded the request mutes the client's connection.
        """
        if self._charged:
            quota = self._charged.pop((item.connection, item.correlation), None)
            wait_ms = 0 if quota is None else quota.throttle_time_ms(now // 1000)
            response = replace(response, throttle_time_ms=wait_ms) if wait_ms else response
        self.out.append(Respond(item.connection, item.correlation, response))

    # Timers.

    def _arm_stale_check(self, now: int, again: bool = False) -> None:
        """Arm the next check of sessions; ``again``: the last one found a stale broker."""
        if not self.timers.armed("stale-check"):
            deadline = self.managers.heartbeats.next_check_us(now, again)
            if deadline is not None:
                self.timers.arm("stale-check", deadline, LANE, self._on_stale_check)

    def _on_stale_check(self, now: int) -> None:
        """Fence at most one broker whose session ended; the next one is another event."""
        heartbeats = self.managers.heartbeats
        expired = heartbeats.remove_expired(now)
        found = expired is not None
        records: list[Any] = []
        stale: list[tuple[int, int, int]] = []
        while expired is not None:
            its_records = self.managers.replication.fence_stale(expired[0], expired[1])
            if its_records:
                records += its_records
                stale.append(expired)
            if self.rules.fences_one_broker_at_a_time():
                break
            expired = heartbeats.remove_expired(now)
        if records and self.append(records, now) is None:
            return  # the leadership is lost, and the inbox is about to say so
        for broker_id, epoch, silent_us in stale:
            heartbeats.fence(broker_id)
            self.out.append(
                SessionEnded(broker_id, epoch, silent_us, heartbeats.session_timeout_us)
            )
        self._arm_stale_check(now, again=found)

    def _arm_no_op(self, now: int) -> None:
        if self.config.metadata_max_idle_interval_ms:
            deadline = now + self.config.metadata_max_idle_interval_ms * 1000
            self.timers.arm("no-op", deadline, LANE, self._on_no_op)

    def _on_no_op(self, now: int) -> None:
        self.append([NoOpRecord()], now)

    def _balance_interval_us(self) -> int:
        return self.config.leader_imbalance_check_interval_seconds * 1_000_000

    def _unclean_interval_us(self) -> int:
        return self.config.unclean_leader_election_interval_ms * 1000

    def _on_balance(self, now: int) -> None:
        """Elect preferred leaders; go on soon if there were more than one event may elect."""
        records = self.managers.replication.balance_leaders()
        self._append_some(records, now)
        delay = CHECK_AGAIN_US if len(records) == MAX_ELECTIONS else self._balance_interval_us()
        self.timers.arm("balance", now + delay, LANE, self._on_balance)

    def _on_unclean_scan(self, now: int) -> None:
        records = self.managers.replication.elect_unclean()
        self._append_some(records, now)
        delay = CHECK_AGAIN_US if len(records) == MAX_ELECTIONS else self._unclean_interval_us()
        self.timers.arm("unclean-scan", now + delay, LANE, self._on_unclean_scan)

    def _append_some(self, records: list[Any], now: int) -> None:
        if records:
            self.append(records, now)


def _heartbeat(request: BrokerHeartbeatRequest) -> BrokerHeartbeat:
    return BrokerHeartbeat(
        request.broker_id,
        request.broker_epoch,
        request.current_metadata_offset,
        request.want_fence,
        request.want_shut_down,
    )
