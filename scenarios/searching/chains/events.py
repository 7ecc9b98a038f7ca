"""Events of a chain: roles and replicas move, machines go away, an operator acts."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from kafkasim.scenarios.searching.chains.anchor import Anchor
from kafkasim.scenarios.searching.chains.pace import Pace
from kafkasim.scenarios.searching.shapes.focus import TOPIC, Focus, ms

Event = Callable[[Focus, Pace, Anchor], None]

GONE = ("crash", "crash", "power-loss", "stop", "gc-pause", "isolate")
"""How a broker goes away; power losses stay within the no-loss budget (``guarded``)."""


def _operate(focus: Focus, kind: str, anchor: Anchor, delay: float = 0, **keys: Any) -> None:
    focus.operations.append({"kind": kind, **anchor.at(delay), **keys})


def _strike(
    focus: Focus, kind: str, anchor: Anchor, lasts: float | None, delay: float = 0, **keys: Any
) -> None:
    fault: dict[str, Any] = {"kind": kind, **anchor.at(delay), "guarded": True, **keys}
    if lasts is not None:
        fault["for"] = ms(lasts)
    focus.faults.append(fault)


# ------------------------------------------------------------------------------ roles, replicas


def leaders_move(focus: Focus, pace: Pace, anchor: Anchor) -> None:
    """Leaderships move by reassigned orders and a preferred election, and often back again."""
    rng = focus.rng
    before = list(focus.orders)
    _reorder(focus, anchor, [tuple(rng.sample(order, len(order))) for order in before])
    if rng.random() < 0.6:
        back = pace.near() + 50
        _reorder(focus, anchor, before, back)
        if rng.random() < 0.3:
            after = [tuple(rng.sample(order, len(order))) for order in before]
            _reorder(focus, anchor, after, back + pace.near() + 50)


def _reorder(focus: Focus, anchor: Anchor, orders: list[tuple[int, ...]], delay: float = 0) -> None:
    for partition, order in enumerate(orders):
        if order != focus.orders[partition]:
            _operate(focus, "reassign", anchor, delay, topic=TOPIC, partition=partition,
                     replicas=list(order))  # fmt: skip
    focus.orders = list(orders)
    _operate(focus, "elect-leader", anchor, delay + 40, topic=TOPIC)


def replicas_move(focus: Focus, pace: Pace, anchor: Anchor) -> None:
    """A partition gets other replicas; some of these reassignments are cancelled or taken back."""
    rng = focus.rng
    partition = rng.randrange(len(focus.orders))
    before = focus.orders[partition]
    brokers = range(1, focus.cluster["brokers"] + 1)
    keys: dict[str, Any] = {"topic": TOPIC, "partition": partition}
    after = tuple(rng.sample(brokers, rng.choice((len(before), len(before), 2, 3))))
    _operate(focus, "reassign", anchor, 0, **keys, replicas=list(after))
    then = rng.random()
    if then < 0.3:
        _operate(focus, "reassign", anchor, pace.near(), **keys, cancel=True)
    elif then < 0.6:
        _operate(focus, "reassign", anchor, pace.near(), **keys, replicas=list(before))
    else:
        focus.orders[partition] = after


def partitions_added(focus: Focus, _: Pace, anchor: Anchor) -> None:
    """The topic grows."""
    _operate(focus, "create-partitions", anchor, topic=TOPIC,
             partitions=len(focus.orders) + focus.rng.choice((1, 3)))  # fmt: skip


def another_topic(focus: Focus, pace: Pace, anchor: Anchor) -> None:
    """A topic is created, and deleted soon after: brokers get and lose replicas."""
    name = f"extra-{len(focus.operations)}"
    factor = focus.rng.choice((1, 2, 3))
    _operate(focus, "create-topic", anchor, topic=name, partitions=focus.rng.choice((1, 4)),
             **{"replication-factor": factor})  # fmt: skip
    _operate(focus, "delete-topic", anchor, 50 + pace.near(), topic=name)


# ---------------------------------------------------------------------------------- machines


def broker_away(focus: Focus, pace: Pace, anchor: Anchor) -> None:
    """A broker is away for a while, perhaps twice, perhaps for good."""
    rng = focus.rng
    node, kind = f"broker-{rng.choice(focus.brokers)}", rng.choice(GONE)
    if rng.random() < 0.1 and kind != "gc-pause":
        _strike(focus, kind, anchor, None, node=node)  # until all faults are healed
        return
    lasts = pace.away()
    _strike(focus, kind, anchor, lasts, node=node)
    if rng.random() < 0.4:
        kind = rng.choice(GONE)
        _strike(focus, kind, anchor, pace.away(), lasts + pace.near(), node=node)


def brokers_away(focus: Focus, pace: Pace, anchor: Anchor) -> None:
    """Two brokers are away at overlapping times."""
    rng = focus.rng
    for delay, broker in zip((0.0, pace.near()), rng.sample(focus.brokers, 2), strict=True):
        _strike(focus, rng.choice(GONE), anchor, pace.away(), delay, node=f"broker-{broker}")


def leader_away(focus: Focus, pace: Pace, anchor: Anchor) -> None:
    """Whoever leads or follows a partition then goes away; so does, perhaps, the next leader."""
    rng = focus.rng
    role = f"{rng.choice(('leader', 'leader', 'follower'))}:{TOPIC}-0"
    _strike(focus, rng.choice(GONE), anchor, pace.away(), node=role)
    if rng.random() < 0.4:
        _strike(focus, rng.choice(GONE), anchor, pace.away(), pace.near(), node=f"leader:{TOPIC}-0")


def broker_restarts(focus: Focus, pace: Pace, anchor: Anchor) -> None:
    """An operator restarts a broker, or all brokers one after the other."""
    rng = focus.rng
    keys: dict[str, Any] = {"kill": rng.random() < 0.4, "pause": ms(pace.near())}
    if rng.random() < 0.3:
        _operate(focus, "rolling-restart", anchor, **keys)
    else:
        _operate(focus, "restart", anchor, node=f"broker-{rng.choice(focus.brokers)}", **keys)


def disk_replaced(focus: Focus, pace: Pace, anchor: Anchor) -> None:
    """A broker comes back with an empty disk."""
    rng = focus.rng
    combined = focus.cluster.get("combined", 0)  # a voter must not forget its vote
    brokers = [broker for broker in focus.brokers if broker > combined]
    if brokers:
        _operate(focus, "replace-disk", anchor, node=f"broker-{rng.choice(brokers)}",
                 kill=rng.random() < 0.5, pause=ms(pace.near()))  # fmt: skip


def controller_away(focus: Focus, pace: Pace, anchor: Anchor) -> None:
    """The active controller goes away, and perhaps the next one soon after."""
    rng = focus.rng
    for delay in (0.0, pace.near())[: rng.choice((1, 1, 2))]:
        _strike(focus, rng.choice(GONE), anchor, pace.away(), delay, node="active-controller")


def voters_away(focus: Focus, pace: Pace, anchor: Anchor) -> None:
    """A controller that has just changed its role loses power, and so may the next one.

    What it told the others it must still know: its vote, its epoch, its log.
    """
    rng = focus.rng
    if focus.cluster["controllers"] == 1 or focus.cluster.get("combined", 0):
        controller_away(focus, pace, anchor)
        return
    _strike(focus, rng.choice(GONE), anchor, pace.away(), node="active-controller")
    for _ in range(rng.choice((1, 2, 2))):
        role = rng.choice(("unattached", "candidate", "follower", "leader"))
        seen = {"fact": "RaftRole", "fields": {"role": role}, "count": rng.choice((1, 1, 2, 3))}
        kind = rng.choice(("power-loss", "power-loss", "crash", "isolate"))
        _strike(focus, kind, Anchor(rng.choice((0.1, 1.0, 10.0)), seen), pace.away(), node="@node")


def coordinator_away(focus: Focus, pace: Pace, anchor: Anchor) -> None:
    """A group's coordinator goes away, or its offsets partition gets another leader."""
    rng = focus.rng
    groups = [each["group"] for each in focus.data["workload"] if "group" in each]
    node = f"coordinator:{rng.choice(groups)}"
    _strike(focus, rng.choice(GONE), anchor, pace.away(), node=node)
    if rng.random() < 0.5:
        _operate(focus, "elect-leader", anchor, pace.near())


def client_away(focus: Focus, pace: Pace, anchor: Anchor) -> None:
    """A consumer or a producer stops, dies, pauses or is cut off, and comes back."""
    rng = focus.rng
    node = rng.choice(("any-consumer", "any-consumer", "any-producer"))
    kind = rng.choice(("crash", "stop", "gc-pause", "isolate", "restart"))
    _strike(focus, kind, anchor, None if kind == "restart" else pace.away(), node=node)


# ---------------------------------------------------------------------------------- operators


def records_deleted(focus: Focus, pace: Pace, anchor: Anchor) -> None:
    """An operator deletes records up to the high watermark, often while a broker is away."""
    rng = focus.rng
    partitions = range(len(focus.orders))
    for partition in rng.sample(partitions, min(len(partitions), rng.choice((1, 2, 6)))):
        _operate(focus, "delete-records", anchor, topic=TOPIC, partition=partition,
                 offset=rng.choice((-1, -1, -1, 10)))  # fmt: skip
    if rng.random() < 0.6:
        early = Anchor(max(50.0, anchor.base - pace.away()), anchor.when)
        node = f"broker-{rng.choice(focus.brokers)}"
        lasts = anchor.base - early.base + pace.near()
        _strike(focus, rng.choice(GONE), early, max(50.0, lasts), node=node)


def min_isr_changes(focus: Focus, pace: Pace, anchor: Anchor) -> None:
    """min.insync.replicas is lowered or raised, and changed once more soon after."""
    rng = focus.rng
    factor = focus.data["topics"][0]["replication-factor"]
    for delay in (0.0, pace.near())[: rng.choice((1, 2))]:
        config = {"min.insync.replicas": rng.randrange(1, factor + 1)}
        _operate(focus, "alter-config", anchor, delay, topic=TOPIC, config=config)


def setting_changes(focus: Focus, _: Pace, anchor: Anchor) -> None:
    """A property of the topic changes that decides when data is flushed, rolled or deleted."""
    config = focus.rng.choice((
        {"flush.messages": 1}, {"segment.bytes": 1000}, {"retention.ms": 500},
        {"retention.bytes": 2000}, {"retention.ms": -1},
    ))  # fmt: skip
    _operate(focus, "alter-config", anchor, topic=TOPIC, config=config)


def unclean_allowed(focus: Focus, pace: Pace, anchor: Anchor) -> None:
    """Unclean elections are allowed for the topic, and forbidden again soon after."""
    key = "unclean.leader.election.enable"
    _operate(focus, "alter-config", anchor, topic=TOPIC, config={key: True})
    _operate(focus, "alter-config", anchor, pace.near(), topic=TOPIC, config={key: False})


def voter_changes(focus: Focus, pace: Pace, anchor: Anchor) -> None:
    """A standby becomes a voter. It or another voter leaves; it may come back with an empty disk.

    Only the standby gets another disk: the first voters come from controller.quorum.voters, so a
    new disk of theirs has the first voter set again, and votes by it. A chain may have several such
    changes, and each of them may fail. Those that would leave the standby as one of two voters
    leave out its new disk, or the removal: a set that has lost the disks of half of its voters
    elects nobody any more.
    """
    rng = focus.rng
    if focus.cluster.get("combined", 0) or focus.cluster["controllers"] == 1:
        return
    focus.cluster["standby-controllers"] = 1
    last = focus.cluster["controllers"]
    standby = f"controller-{last + 1}"
    _operate(focus, "add-voter", anchor, node=standby)
    gone = pace.near()
    if rng.random() < 0.5:
        voter = f"controller-{rng.randrange(1, last + 1)}"
        if _voters_beside(focus, standby, voter) > 1 or not _loses_its_disk(focus, standby):
            _operate(focus, "remove-voter", anchor, gone, node=voter)
        return
    _operate(focus, "remove-voter", anchor, gone, node=standby)
    gone += 500 + pace.near()
    if _voters_beside(focus, standby) > 1:
        _operate(focus, "replace-disk", anchor, gone, node=standby, kill=True, pause="100ms")
    _operate(focus, "add-voter", anchor, gone + 500 + pace.near(), node=standby)


def _voters_beside(focus: Focus, standby: str, *removed: str) -> int:
    """Return how many of the first voters no change removes, these neither."""
    every = [each["node"] for each in focus.operations if each["kind"] == "remove-voter"]
    controllers: int = focus.cluster["controllers"]
    return controllers - len({*every, *removed} - {standby})


def _loses_its_disk(focus: Focus, standby: str) -> bool:
    return any(
        each["kind"] == "replace-disk" and each["node"] == standby for each in focus.operations
    )


def features_change(focus: Focus, _: Pace, anchor: Anchor) -> None:
    """Eligible leader replicas (KIP-966) are turned on or off while the cluster runs."""
    level = focus.rng.choice((1, 1, 0))
    features = {"eligible.leader.replicas.version": level}
    _operate(focus, "update-features", anchor, features=features)


_BOTH: tuple[Event, ...] = (
    leaders_move, replicas_move, partitions_added, another_topic, broker_away, brokers_away,
    leader_away, broker_restarts, disk_replaced, controller_away, coordinator_away, client_away,
    records_deleted, min_isr_changes, setting_changes, unclean_allowed,
)  # fmt: skip

EVENTS: dict[str, tuple[Event, ...]] = {
    "kraft": (*_BOTH, voters_away, voter_changes, features_change),
    "zookeeper": _BOTH,
}
"""The events of each mode. A seed draws one to four of them and plays these alone."""
