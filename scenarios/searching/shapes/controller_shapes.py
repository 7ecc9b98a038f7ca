"""Shapes of faults between controllers, and between controllers and brokers."""

from __future__ import annotations

from kafkasim.scenarios.searching.draw_faults import LOG_DIRS
from kafkasim.scenarios.searching.shapes.focus import Focus


def paused_controller(focus: Focus) -> None:
    """A broker dies and is soon back; the controller pauses over the end of its session."""
    rng = focus.rng
    focus.prepare(3, rng.randrange(7000, 9500))
    session = focus.config["broker.session.timeout.ms"]
    focus.assign_all_orders(3, rng.choice((2, 6)))
    focus.producers()
    victims = rng.sample(focus.brokers, rng.choice((1, 1, 2)))
    begins = rng.randrange(1000, 2500)
    for number, victim in enumerate(victims):
        focus.fault(rng.choice(("power-loss", "crash", "crash")), begins + 3000 * number,
                    rng.choice((200, session // 2, session + 300)),
                    node=f"broker-{victim}")  # fmt: skip
    pause = session * rng.choice((6, 7, 8, 9)) // 10
    focus.fault("gc-pause", begins + pause - rng.randrange(100, 300), rng.randrange(700, 2500),
                node="active-controller")  # fmt: skip
    if rng.random() < 0.3:
        focus.move_leaders(begins + rng.choice((-100, 500, 3000)))


def eligible_leaders(focus: Focus) -> None:
    """A partition with ELR (KIP-966) falls below min.insync.replicas.

    Brokers lose the controller, stop or crash; then the last broker of the ISR loses power or
    crashes. Some brokers are back at once.
    """
    rng = focus.rng
    factor = rng.choice((1, 2, 2, 3, 3, 3))
    focus.prepare(3, rng.randrange(8500, 10_000))
    focus.cluster.pop("kafka-version", None)
    focus.cluster.pop("nodes", None)
    focus.cluster["features"] = {"eligible.leader.replicas.version": 1}
    focus.data["topics"][0]["config"]["min.insync.replicas"] = min(2, factor)
    focus.assign_all_orders(factor, rng.choice((2, 6)))
    begins = rng.randrange(1000, 2000)
    focus.producers(rng.choice((None, begins)))
    session = focus.config["broker.session.timeout.ms"]
    last, *gone = rng.sample(focus.brokers, 3)
    controllers = [f"controller-{n + 1}" for n in range(focus.cluster["controllers"])]
    for broker in gone[: factor - 1] if rng.random() < 0.8 else gone[:1]:
        node = f"broker-{broker}"
        kind = rng.choice(("cut-purpose", "cut-purpose", "stop", "crash"))
        if kind == "cut-purpose":
            focus.fault(kind, begins, session + rng.randrange(2000, 4500), node=node,
                        peers=controllers, purpose="heartbeat")  # fmt: skip
        else:
            focus.fault(kind, begins, rng.choice((300, session + 2000)), node=node)
    out = begins + session + rng.randrange(200, 1500)
    focus.fault(rng.choice(("power-loss", "power-loss", "crash")), out,
                rng.choice((200, 300, 3000)), node=f"broker-{last}")  # fmt: skip
    if rng.random() < 0.3:
        focus.config |= {"log.dirs": LOG_DIRS, "metadata.log.dir": "/data/meta"}
        focus.fault("disk-failure", begins + rng.randrange(0, session + 2000),
                    rng.randrange(500, 4000), node=f"broker-{rng.choice((last, *gone))}",
                    dir=rng.choice(LOG_DIRS))  # fmt: skip


def raft_quorum(focus: Focus) -> None:
    """Three controllers write much metadata while their leader or a voter fails.

    The leader's disk is slow, or the leader or a voter is cut off, loses power or stops.
    """
    rng = focus.rng
    focus.prepare(3, rng.randrange(7000, 10_000))
    config = focus.config
    focus.cluster["controllers"] = 3
    for key in ("controller.quorum.fetch.timeout.ms", "controller.quorum.request.timeout.ms"):
        config.pop(key, None)
    config["metadata.max.idle.interval.ms"] = 50
    late = {"config": {"controller.quorum.election.timeout.ms": 3000}}
    leader = rng.choice((1, 2, 3))
    others = [number for number in (1, 2, 3) if number != leader]
    rng.shuffle(others)
    nodes = focus.cluster.setdefault("nodes", {})
    nodes |= {
        f"controller-{number}": late for number in others
    }  # so that ``leader`` is elected first
    focus.assign_all_orders(3, rng.choice((1, 3)))
    focus.producers()
    begins = rng.randrange(1000, 1600)
    _strike_quorum(focus, begins, *(f"controller-{number}" for number in (leader, *others)))


def _strike_quorum(focus: Focus, begins: int, leader: str, one: str, other: str) -> None:
    """Cut off the leader or a voter; or let one of them lose what it has not flushed.

    In the latter case another voter is slow to fetch. ``one`` and ``other`` are the voters.
    """
    rng = focus.rng
    how = rng.choice(("leader cut off", "voter cut off", "leader", "leader", "voter"))
    old = focus.cluster.get("kafka-version") == "3.9"
    if how == "leader cut off":
        focus.config["broker.session.timeout.ms"] = 5000
        focus.config["broker.heartbeat.interval.ms"] = 1000
        focus.fault("partition", begins, node=leader, peers=[one, other])
        focus.data["expect"]["never"] = [
            "fenced"
        ]  # brokers find the next controller before their session ends
        return
    if how == "voter cut off":
        focus.fault("isolate", begins, rng.randrange(3500, 6000), node=one)
        if not old:
            focus.data["expect"]["never"] = [
                "failover"
            ]  # with pre-votes the voter deposes nobody when it is back
        return
    late = rng.choice((
        {"kind": "cut-purpose", "purpose": "raft-fetch"},
        {"kind": "hold", "api": "RaftFetch", "direction": "response"},
    ))  # fmt: skip
    focus.fault(at=begins - 100, lasts=rng.randrange(800, 2500), node=leader, peers=[other], **late)
    struck = begins + rng.randrange(300, 1000)
    if how == "leader":
        focus.fault("slow-disk", begins, node=leader, factor=1000,
                    until={"fact": "HostStopped", "node": leader})  # fmt: skip
        focus.fault("power-loss", struck, rng.choice((100, 100, 2000)), node=leader)
    else:
        focus.fault("crash", struck, rng.choice((3000, 6000)), node=leader)
        focus.fault("power-loss", struck, rng.choice((100, 200)), node=one)
    focus.move_leaders(struck - rng.choice((50, 200)))


def zookeeper_session(focus: Focus) -> None:
    """A broker's ZooKeeper session ends, and the response to its new registration is late."""
    rng = focus.rng
    focus.prepare(rng.choice((3, 4)), rng.randrange(8500, 10_000))
    session = _sessions(focus, 2000, 3000)
    _topic(focus)
    servers = _servers(focus)
    victim = f"broker-{rng.choice(focus.brokers)}"
    begins = rng.randrange(600, 1500)
    lasts = session + rng.randrange(800, 2500)
    cut = rng.choice(("partition", "hold"))
    purpose = {} if cut == "partition" else {"purpose": "zookeeper"}
    focus.fault(cut, begins, lasts, node=victim, peers=servers, **purpose)
    focus.fault("hold", begins + lasts - rng.randrange(50, 1000), rng.randrange(1500, 4000),
                node=victim, peers=servers, api="ZkOperation", direction="response")  # fmt: skip
    if rng.random() < 0.4:
        focus.move_leaders(begins + rng.randrange(1000, lasts + 1500))


def zookeeper_bounce(focus: Focus) -> None:
    """A broker restarts before the controller notices that it was away.

    Either it is quick and the controller gets nothing from ZooKeeper meanwhile, or its session
    ends and it has another one before the controller reads the list of brokers.
    """
    rng = focus.rng
    focus.prepare(rng.choice((3, 4)), rng.randrange(7500, 9500))
    _sessions(focus, 6000, 9000)
    if rng.random() < 0.6:
        focus.config["controlled.shutdown.enable"] = False
    if rng.random() < 0.5:
        focus.config["inter.broker.protocol.version"] = "2.6"
    focus.config["replica.high.watermark.checkpoint.interval.ms"] = rng.choice((200, 5000))
    _topic(focus)
    servers = _servers(focus)
    begins = rng.randrange(800, 2000)
    focus.fault("hold", begins, rng.randrange(1500, 5000), node="active-controller", peers=servers,
                purpose="zookeeper", direction="response")  # fmt: skip
    node = f"broker-{rng.choice(focus.brokers)}"
    if rng.random() < 0.3:
        nodes = focus.cluster.setdefault("nodes", {})
        nodes[node] = {"config": {"zookeeper.session.timeout.ms": 2000}}
        focus.cluster["zookeeper-config"]["tickTime"] = 500
        focus.fault("hold", begins + 100, rng.randrange(2500, 3500), node=node, peers=servers,
                    purpose="zookeeper")  # fmt: skip
    else:
        focus.fault("stop", begins + rng.randrange(50, 600), rng.randrange(200, 700), node=node)
        if rng.random() < 0.3:
            focus.fault("hold", begins - 200, rng.randrange(700, 2500), node="active-controller",
                        peers=[node], purpose="controller", direction="request")  # fmt: skip
    if rng.random() < 0.5:
        focus.move_leaders(rng.randrange(5000, 7000))


def zookeeper_zombie(focus: Focus) -> None:
    """A controller loses ZooKeeper, or pauses, for longer than its session while it has work.

    The work is ISR changes, a moved leadership, or a broker that comes back.
    """
    rng = focus.rng
    focus.prepare(rng.choice((3, 4, 4)), 10_000)
    session = _sessions(focus, 2000, 3000)
    focus.config["replica.lag.time.max.ms"] = rng.choice((1000, 1500))
    _topic(focus)
    servers = _servers(focus)
    begins = rng.randrange(800, 2000)
    lost = rng.choice(({"purpose": "zookeeper"}, {"api": "ZkOperation", "direction": "request"}))
    lasts = session + rng.randrange(500, 3500)
    if rng.random() < 0.8:
        focus.fault("hold", begins, lasts, node="active-controller", peers=servers, **lost)
    if not focus.faults or rng.random() < 0.6:
        focus.fault("gc-pause", begins + rng.randrange(0, lasts * 2 // 3), session + 1000,
                    node="active-controller")  # fmt: skip
    one, other = rng.sample(focus.brokers, 2)
    if rng.random() < 0.6:
        focus.delay_replication(one, [other], begins - rng.choice((1500, 700, 100)) + 600,
                   rng.randrange(1500, 6000))  # fmt: skip
    if rng.random() < 0.4:
        focus.fault(rng.choice(("stop", "crash")), begins - rng.choice((500, 100, -1000)),
                    rng.choice((300, 3000)), node=f"broker-{other}")  # fmt: skip
    else:  # it restarts once under each of the two controllers
        for at in (rng.randrange(50, 300), begins + session + rng.randrange(100, 1500)):
            focus.fault("stop", at, 300, node=f"broker-{other}")
    if rng.random() < 0.5:
        focus.move_leaders(begins + rng.randrange(100, 5000))


def _sessions(focus: Focus, *choices: int) -> int:
    session = focus.rng.choice(choices)
    focus.config["zookeeper.session.timeout.ms"] = session
    return session


def _servers(focus: Focus) -> list[str]:
    return [f"zookeeper-{number + 1}" for number in range(focus.cluster["zookeepers"])]


def _topic(focus: Focus) -> None:
    focus.assign_all_orders(3, focus.rng.choice((2, 6)))
    focus.producers()
