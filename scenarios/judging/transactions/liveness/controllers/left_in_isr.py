"""Stalls behind a broker that stays in ISRs, because the metadata quorum elects no leader any more.

A broker that ends because it cannot register (``registrations.py``) stays the leader of its
partitions, and in the ISRs that it was in, if the quorum is lost for ever (``lost_voters.py``):
only an active controller elects another leader, and grants an AlterPartition. So nobody appends
where it leads, and elsewhere the high watermark stands: it needs each member of the ISR
(Partition.maybeIncrementLeaderHW). What a coordinator writes there does not become committed.

So wait for ever:

- a group whose partition of ``__consumer_offsets`` it is: no generation and no commit is complete.
  What a consumer holds it reads on (``liveness/holders.py``);
- a share group whose partition of it, or of ``__share_group_state``, it is;
- a producer or processor whose transactional id has its partition of ``__transaction_state`` there:
  no transaction begins or is decided;
- a partition with the open transaction of such an id.
"""

from __future__ import annotations

import re
from collections.abc import Mapping

from kafkasim.model import facts
from kafkasim.scenarios.judging.invariants.traced import coordinator_partition, offsets_partition
from kafkasim.scenarios.judging.source import FactSource, PartitionKey
from kafkasim.scenarios.judging.transactions.liveness.controllers.last_changes import LastChanges
from kafkasim.scenarios.judging.transactions.liveness.controllers.lost_voters import LostVoters
from kafkasim.scenarios.judging.transactions.liveness.holders import Holders
from kafkasim.scenarios.judging.transactions.liveness.shares.homes import share_homes
from kafkasim.scenarios.judging.transactions.liveness.shares.leaders import SHARES

_GROUP = re.compile(r"group (\S+) (?:is at|was given records below) \d+ of ")
_CLIENT = re.compile(r"(\S+) (?:has records that are neither|handles what it was given)")
_OPEN = re.compile(r"\S+ has an open transaction of producer id (\d+) from offset ")


class LeftInIsr:
    """Follows the ISRs, and who has which transactional id.

    ``ids`` are the transactional ids of client hosts.
    """

    def __init__(
        self, trace: FactSource, ids: Mapping[str, str], voters: LostVoters, holders: Holders
    ) -> None:
        self._ids = ids
        self._holders = holders
        self._voters = voters
        self._changes = LastChanges(trace)
        self._owners: dict[int, str] = {}  # producer id -> transactional id
        trace.subscribe(facts.TransactionState, self._on_transaction)

    def excuse(self, line: str) -> str:
        """Return why Kafka would miss for ever what a line of a stalled run tells of, or ""."""
        why = next((why for home in self._homes(line) if (why := self._stuck(home))), "")
        reads_on = why and self._holders.reads_on(line, lambda node: bool(self._down(node)))
        return "" if reads_on else why

    def _homes(self, line: str) -> tuple[PartitionKey, ...]:
        """Return the coordinators' partitions that must go on for what a line tells of."""
        group, client, shares = _GROUP.match(line), _CLIENT.match(line), SHARES.match(line)
        opened = _OPEN.match(line)
        owner = None
        if shares is not None:
            return share_homes(shares[1], shares[4], int(shares[5]), self._changes.topics)
        if group is not None:
            return (offsets_partition(group[1], self._changes.topics),)
        if client is not None:
            owner = self._ids.get(client[1])
        elif opened is not None:
            owner = self._owners.get(int(opened[1]))
        if owner is None:
            return ()
        return (coordinator_partition("__transaction_state", owner, self._changes.topics),)

    def _stuck(self, home: PartitionKey) -> str:
        """Return why a member of a partition's ISR is down for ever, or ""; a leader is one."""
        change = self._changes.of(home)
        isr = () if change is None else change.isr
        return next((why for broker in isr if (why := self._down(broker))), "")

    def _down(self, broker: int) -> str:
        return self._voters.excuse(f"broker-{broker} is down")

    def _on_transaction(self, _seq: int, _t: int, _n: str, fact: facts.TransactionState) -> None:
        self._owners[fact.producer_id] = fact.transactional_id
