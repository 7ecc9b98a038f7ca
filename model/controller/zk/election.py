"""Which broker is the controller: the competition for /controller (KafkaController.elect).

    /controller is free ──► read /controller_epoch ──► multi: create /controller, raise the epoch
                                                          │ won                 │ lost
                                                          ▼                     ▼
                                              elected(): become active     read who won

The loser, and every other broker, watches /controller. The controller epoch is the fence: it rises
with every election in the same transaction that creates /controller, every write of a controller
checks it, and brokers refuse control requests with a lower one.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, Protocol

from kafkasim.model.controller.zk.events import ControllerMoved, Steps, ZkFailed
from kafkasim.model.controller.zk.store.zk_data import CONTROLLER, CONTROLLER_EPOCH, ControllerInfo
from kafkasim.model.facts import ControllerActive, ZkControllerWrite
from kafkasim.model.zookeeper.ops import Create, Delete, Exists, GetData, Multi, SetData, ZkError

if TYPE_CHECKING:
    from kafkasim.model.controller.zk.context import ControllerContext
    from kafkasim.model.controller.zk.store.client import KafkaZkClient
    from kafkasim.model.controller.zk.store.controller_store import ControllerStore

OK, NODEEXISTS = ZkError.OK, ZkError.NODEEXISTS
FREE = "/controller was free: the session of the one before is over, or it resigned"
NOBODY = -1


class ElectionOutcome(Protocol):
    """What the election does to the controller that competes."""

    def elected(self) -> Steps:
        """Become active; the epoch in the context is this controller's."""
        ...

    def resigned(self) -> None:
        """Stop being active."""
        ...


class ControllerElection:
    """Competes for one broker. ``active_id`` is the controller it knows of, −1 for none."""

    def __init__(
        self,
        broker_id: int,
        zk: KafkaZkClient,
        context: ControllerContext,
        store: ControllerStore,
        outcome: ElectionOutcome,
    ) -> None:
        self.broker_id = broker_id
        self.zk = zk
        self.context = context
        self.store = store
        self.outcome = outcome
        self.active_id = NOBODY

    @property
    def is_active(self) -> bool:
        """Whether this broker believes that it is the controller."""
        return self.active_id == self.broker_id

    def when_active(self, steps: Callable[[], Steps]) -> Callable[[], Steps]:
        """Return steps that do nothing if this broker is not the controller when they begin."""

        def run() -> Steps:
            if self.is_active:
                yield from steps()

        return run

    def reelect(self) -> Steps:
        """Compete again: /controller was deleted, or a new session began."""
        yield from self.maybe_resign()
        yield from self.elect()

    def maybe_resign(self) -> Steps:
        """Read /controller and set a watch; resign if another broker is the controller."""
        was_active = self.is_active
        yield from self._read_controller()
        if was_active and not self.is_active:
            other = f"broker {self.active_id} is the controller"
            self._resigned("/controller is gone" if self.active_id == NOBODY else other)

    def resign(self, cause: str) -> None:
        """Forget who the controller is, and stop being it; ``cause`` says why, in words."""
        was_active, self.active_id = self.is_active, NOBODY
        if was_active:
            self._resigned(cause)

    def _resigned(self, cause: str) -> None:
        self.store.out.append(ControllerActive(self.context.epoch, False, cause))
        self.outcome.resigned()

    def _read_controller(self) -> Steps:
        _, found = yield (Exists(CONTROLLER, watch=True), GetData(CONTROLLER))
        self.active_id = found.data.broker_id if found.error is OK else NOBODY

    def elect(self) -> Steps:
        """Compete for /controller if it is free; the winner becomes active."""
        (found,) = yield (GetData(CONTROLLER),)
        self.active_id = found.data.broker_id if found.error is OK else NOBODY
        if self.active_id != NOBODY:
            return
        try:
            yield from self._take_epoch()
        except ControllerMoved:
            yield from self.maybe_resign()
            return
        self.active_id = self.broker_id
        self.store.out.append(ControllerActive(self.context.epoch, True, FREE))
        try:
            yield from self.outcome.elected()
        except ZkFailed:
            yield from self._trigger_move()

    def _take_epoch(self) -> Steps:
        """Create /controller and raise the epoch in one multi
        (registerControllerAndIncrementControllerEpoch).

        Raises:
            ControllerMoved: another broker was faster.
            ZkFailed: ZooKeeper returned an unexpected error.
        """
        (found,) = yield (GetData(CONTROLLER_EPOCH),)
        if found.error is ZkError.NONODE:
            yield (Create(CONTROLLER_EPOCH, 0),)
            (found,) = yield (GetData(CONTROLLER_EPOCH),)
        if found.error is not OK:
            raise ZkFailed(found.error)
        epoch, version = found.data + 1, found.stat.version
        me = ControllerInfo(self.broker_id)
        take = Multi(
            (Create(CONTROLLER, me, ephemeral=True), SetData(CONTROLLER_EPOCH, epoch, version))
        )
        (result,) = yield (take,)
        zxid = result.zxid
        if result.error in (NODEEXISTS, ZkError.BADVERSION):
            # The first reply may have been lost after the multi succeeded; then the znodes are
            # those of this session (checkControllerAndEpoch).
            who, stored = yield (GetData(CONTROLLER), GetData(CONTROLLER_EPOCH))
            mine = who.error is OK and who.data.broker_id == self.broker_id
            if not mine or who.stat.ephemeral_owner != self.zk.session_id or stored.data != epoch:
                raise ControllerMoved(CONTROLLER)
            zxid = stored.stat.mzxid
        elif result.error is not OK:
            raise ZkFailed(result.error)
        self.context.epoch, self.context.epoch_zk_version = epoch, version + 1
        self.store.out.append(ZkControllerWrite(zxid, epoch, CONTROLLER_EPOCH, version + 1))

    def _trigger_move(self) -> Steps:
        """Delete /controller so that another broker competes: becoming active failed
        (triggerControllerMove)."""
        yield from self._read_controller()
        if self.is_active:
            delete = self.store.guarded(Delete(CONTROLLER))
            self.resign("it could not become active")
            yield (delete,)
