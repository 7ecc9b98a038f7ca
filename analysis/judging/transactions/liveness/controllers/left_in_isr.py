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

from collections.abc import Mapping, Sequence

from kafkasim.analysis.judging.promise import FactSource
from kafkasim.analysis.judging.source import PartitionKey
from kafkasim.analysis.judging.transactions.liveness.controllers.last_changes import Homes
from kafkasim.analysis.judging.transactions.liveness.controllers.lost_voters import LostVoters
from kafkasim.analysis.judging.transactions.liveness.holders import Holders


class LeftInIsr:
    """Follows the ISRs of coordinators' partitions.

    ``ids`` are the transactional ids of client hosts, and ``members`` the hosts of each group.
    """

    def __init__(
        self,
        trace: FactSource,
        ids: Mapping[str, str],
        members: Mapping[str, Sequence[str]],
        voters: LostVoters,
        holders: Holders,
    ) -> None:
        self._homes = Homes(trace, ids, members)
        self._holders = holders
        self._voters = voters

    def excuse(self, line: str) -> str:
        """Return why Kafka would miss for ever what a line of a stalled run tells of, or ""."""
        why = self._homes.why(line, self._stuck)
        reads_on = why and self._holders.reads_on(line, lambda node: bool(self._down(node)))
        return "" if reads_on else why

    def _stuck(self, home: PartitionKey) -> str:
        """Return why a member of a partition's ISR is down for ever, or ""; a leader is one."""
        change = self._homes.changes.of(home)
        isr = () if change is None else change.isr
        return next((why for broker in isr if (why := self._down(broker))), "")

    def _down(self, broker: int) -> str:
        return self._voters.excuse(f"broker-{broker} is down")
