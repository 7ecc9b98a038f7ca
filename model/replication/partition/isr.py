"""The states of a leader's ISR (kafka.cluster.PartitionState).

    Committed --may_join_isr--> PendingExpand --reply ok--> Committed
    Committed --lag-----------> PendingShrink --reply ok--> Committed
    Pending*  --INELIGIBLE_REPLICA, OPERATION_NOT_ATTEMPTED--> the last Committed
    any       --metadata with a newer partition epoch--> Committed

``isr`` is the last committed set, ``maximal`` is every replica that the controller may by now hold
in the ISR: it is what guards the high watermark. One object is one proposal: a reply counts only
while its own object is still the partition's state.
"""

from __future__ import annotations


class Committed:
    """The controller's word; nothing in flight."""

    __slots__ = ("isr", "maximal", "proposed")
    in_flight = False
    change = ""

    def __init__(self, isr: tuple[int, ...]) -> None:
        self.isr = isr
        self.maximal = isr
        self.proposed = isr


class PendingExpand(Committed):
    """``replica`` is proposed to join: it already counts for the high watermark."""

    __slots__ = ("last", "moving")
    in_flight = True
    change = "expand"

    def __init__(self, last: Committed, replica: int) -> None:
        super().__init__(last.isr)
        self.last = last
        self.moving: tuple[int, ...] = (replica,)
        self.proposed = self.maximal = (*last.isr, replica)


class PendingShrink(Committed):
    """``out`` is proposed to leave: it still counts for the high watermark."""

    __slots__ = ("last", "moving")
    in_flight = True
    change = "shrink"

    def __init__(self, last: Committed, out: tuple[int, ...]) -> None:
        super().__init__(last.isr)
        self.last = last
        self.moving = out
        self.proposed = tuple([member for member in last.isr if member not in out])


Pending = PendingExpand | PendingShrink
