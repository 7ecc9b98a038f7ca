"""The states of a leader's ISR (kafka.cluster.PartitionState).

    committed --may_join_isr--> expanding --reply ok--> committed
    committed --out_of_sync---> shrinking --reply ok--> committed
    expanding, shrinking --INELIGIBLE_REPLICA, OPERATION_NOT_ATTEMPTED--> the last committed one
    any --metadata with the known partition epoch or a newer one--> committed

One object stands for one proposal: the controller's answer counts only while that very object is
still the leader's state. What is sent, with the broker epochs of the proposed members, is fixed
when the proposal is made, and a retry sends it unchanged (Partition.prepareIsrExpand,
sentLeaderAndIsr): a member that restarts meanwhile is refused by its old broker epoch.
"""

from __future__ import annotations

from kafkasim.model.messages import AlterPartitionData


class IsrState:
    """An ISR as the leader sees it: committed (:func:`committed`) or with a proposal in flight."""

    __slots__ = ("change", "isr", "last", "maximal", "moving", "proposed", "reason", "sent")

    def __init__(
        self,
        isr: tuple[int, ...],
        maximal: tuple[int, ...],
        proposed: tuple[int, ...],
        last: IsrState | None = None,
        change: str = "",
        moving: tuple[int, ...] = (),
        reason: str = "",
    ) -> None:
        self.isr = isr  # the last set that the controller committed
        self.maximal = maximal  # all that may be in the controller's ISR by now: they guard the HW
        self.proposed = proposed  # the set that the leader asks for
        self.last = last  # the committed state to fall back to; None unless a proposal is in flight
        self.change = change  # "expand" or "shrink", as the facts name it; "" when committed
        self.moving = moving  # the replicas that join or leave
        self.sent: AlterPartitionData | None = (
            None  # the proposal as it is sent, if one is in flight
        )
        self.reason = reason  # why, as the facts name it: "caught-up" or "lag"

    @property
    def in_flight(self) -> bool:
        """Whether a proposal waits for the controller's answer."""
        return self.last is not None

    def expand(self, replica: int) -> IsrState:
        """Propose that ``replica`` joins: it holds the high watermark back from now on."""
        wanted = (*self.isr, replica)
        return IsrState(self.isr, wanted, wanted, self, "expand", (replica,), "caught-up")

    def shrink(self, out: tuple[int, ...]) -> IsrState:
        """Propose that ``out`` leaves: it holds the high watermark back until that is committed."""
        wanted = tuple([member for member in self.isr if member not in out])
        return IsrState(self.isr, self.isr, wanted, self, "shrink", out, "lag")


def committed(isr: tuple[int, ...]) -> IsrState:
    """Return the state of an ISR that the controller has committed; nothing is in flight."""
    return IsrState(isr, isr, isr)
