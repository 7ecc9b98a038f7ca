"""Shapes of faults between replicas: leaderships, the ISR, reassignments, segments."""

from __future__ import annotations

from typing import Any

from kafkasim.scenarios.searching.shapes.focus import TOPIC, Focus, ms

OLD_PROTOCOL = "2.6"
"""Followers truncate by OffsetsForLeaderEpoch; with ZooKeeper, leaders write the ISR."""


def moving_leaders(focus: Focus) -> None:
    """Leaderships move two or three times within a few seconds.

    Meanwhile links between replicas are slow and one broker may get no metadata; a broker may crash
    when a replica truncates or the ISR changes.
    """
    rng = focus.rng
    focus.prepare(rng.choice((3, 3, 4)), rng.randrange(7500, 10_000))
    if rng.random() < 0.5:
        focus.config["inter.broker.protocol.version"] = OLD_PROTOCOL
    factor = rng.choice((2, 3, 3))
    focus.assign_all_orders(factor, rng.choice((2, 6, 6)))
    first = list(focus.orders)
    moves = [rng.randrange(1500, 2600)]
    for _ in range(rng.choice((1, 1, 2))):
        moves.append(moves[-1] + rng.randrange(400, 2000))
    stop = rng.choice((None, moves[0] + rng.randrange(-400, 900), moves[-1] + 300))
    focus.producers(stop)
    for number, at in enumerate(moves):
        focus.move_leaders(at, first if number and rng.random() < 0.5 else None)
    for _ in range(rng.choice((1, 2, 2, 3))):
        one, other = rng.sample(focus.brokers, 2)
        focus.delay_replication(one, [other], *_around(focus, moves))
    for broker in rng.sample(focus.brokers, rng.choice((0, 1, 1))):
        focus.stall_metadata(broker, *_around(focus, moves))
    if rng.random() < 0.3:
        _crash(focus, moves)


def there_and_back(focus: Focus) -> None:
    """Leaderships move to other brokers and back again, perhaps away once more.

    One broker gets no metadata about it, or only about the last move. The links on which the logs
    would converge are slow.
    """
    rng = focus.rng
    focus.prepare(rng.choice((3, 3, 4)), rng.randrange(7500, 10_000))
    if rng.random() < 0.5:
        focus.config["inter.broker.protocol.version"] = OLD_PROTOCOL
    focus.assign_all_orders(rng.choice((2, 3, 3, 3)), 6)
    first = list(focus.orders)
    away = rng.randrange(1500, 2600)
    back = away + rng.randrange(500, 1800)
    again = back + rng.randrange(500, 1500)
    focus.producers(rng.choice((None, away + rng.randrange(-300, 600), away + 100)))
    focus.move_leaders(away)
    second = list(focus.orders)
    focus.move_leaders(back, first)
    if rng.random() < 0.4:
        focus.move_leaders(again, second)
    one, other, third = rng.sample(focus.brokers, 3)
    if rng.random() < 0.8:
        begins = away - rng.randrange(100, 700)
        focus.stall_metadata(rng.choice((one, other, third)), begins,
                   rng.choice((back - 150, back + 300, again + 500)) - begins)  # fmt: skip
    begins = away - rng.randrange(20, 900)
    focus.delay_replication(
        one, [other], begins, rng.choice((away + 300, back + 50, back + 600)) - begins
    )
    if rng.random() < 0.7:
        begins = rng.choice((away - 50, away + 200, back - 200, back - 50))
        focus.delay_replication(third, [rng.choice((one, other))], begins,
                   rng.choice((back + 200, again + 100, again + 2500)) - begins)  # fmt: skip


def _around(focus: Focus, moves: list[int]) -> tuple[float, float]:
    """Return when something begins, shortly before a move, and how long it lasts.

    It ends some time after that move or a later one. Both are in ms.
    """
    rng = focus.rng
    start = rng.randrange(len(moves))
    begins = moves[start] - rng.randrange(20, 800)
    ends = moves[rng.randrange(start, len(moves))] + rng.choice((100, 400, 1000, 2500, 5000))
    return begins, ends + rng.randrange(100) - begins


def _crash(focus: Focus, moves: list[int]) -> None:
    """Crash one broker between the moves, or two when a replica truncates or an ISR changes."""
    rng = focus.rng
    if rng.random() < 0.5:
        node = f"broker-{rng.choice(focus.brokers)}"
        focus.fault(
            "crash", moves[0] + rng.randrange(100, 1200), rng.randrange(3500, 5000), node=node
        )
        return
    nodes = [f"broker-{broker}" for broker in rng.sample(focus.brokers, 2)]
    when = rng.choice(
        (focus.condition("Truncated", topic=TOPIC), focus.partition_change("caught-up", "lag"))
    )
    focus.fault(
        "crash", rng.choice((5, 50, 200)), rng.randrange(3500, 5000), nodes=nodes, when=when
    )


def leaving_isr(focus: Focus) -> None:
    """A replica gets no records from a leader and leaves the ISR.

    At that moment another link is slow, or the leader gets no metadata. Then leaderships move, or
    the leader crashes.
    """
    rng = focus.rng
    focus.prepare(rng.choice((3, 4)), rng.randrange(8000, 10_000))
    if rng.random() < 0.3:
        focus.config["inter.broker.protocol.version"] = OLD_PROTOCOL
    lag = focus.config["replica.lag.time.max.ms"] = rng.choice((1000, 1500))
    focus.assign_all_orders(3, rng.choice((3, 6)))
    leader, other, third = rng.sample(focus.brokers, 3)
    begins = rng.randrange(600, 1500)
    out = begins + lag * 3 // 2
    focus.producers(rng.choice((None, begins + rng.randrange(300, lag + 200))))
    far = rng.choice(([third], [third], [other, third]))
    focus.delay_replication(leader, far, begins, lag * 2 + rng.randrange(500, 4500))
    if rng.random() < 0.6:
        focus.delay_replication(leader, [other], rng.choice((1, 20)), rng.randrange(500, 5000),
                   when=focus.partition_change("lag"))  # fmt: skip
    if rng.random() < 0.4:
        focus.stall_metadata(leader, out + rng.randrange(-300, 500), rng.randrange(500, 4000))
    if len(far) == 2 or rng.random() < 0.3:
        focus.fault("crash", out + rng.randrange(0, 1500), rng.randrange(3000, 5000),
                    node=f"broker-{leader}")  # fmt: skip
    else:
        moves = out + rng.randrange(100, 1500)
        focus.move_leaders(moves)
        if rng.random() < 0.6:  # its fetches from the next leader are not answered either
            focus.fault("hold", moves - 50, rng.randrange(1000, 4000), node=f"broker-{other}",
                        peers=[f"broker-{third}"], api="Fetch", direction="response")  # fmt: skip


def rejoining_isr(focus: Focus) -> None:
    """A replica comes back and joins the ISR while AlterPartition is slow or its response lost.

    At that moment the leaders get no metadata, the replica gets no records, it goes away once
    more, or the leaders crash.
    """
    rng = focus.rng
    focus.prepare(rng.choice((3, 4)), rng.randrange(8000, 10_000))
    lag = focus.config["replica.lag.time.max.ms"] = rng.choice((1000, 1000, 2000, 20_000))
    if focus.mode == "zookeeper":
        focus.config["zookeeper.session.timeout.ms"] = 2000
    focus.assign_all_orders(3, rng.choice((2, 6)))
    focus.producers(rng.choice((None, None, 4000)))
    joiner, *leaders = rng.sample(focus.brokers, 3)
    node = f"broker-{joiner}"
    asks = [f"broker-{leader}" for leader in leaders[: rng.choice((1, 2, 2, 2))]]
    begins = rng.randrange(800, 1800)
    if lag < 20_000 and rng.random() < 0.3:
        focus.delay_replication(joiner, leaders, begins, lag * 2)
    else:
        focus.fault(rng.choice(("crash", "stop", "power-loss")), begins, rng.randrange(200, 700),
                    node=node)  # fmt: skip
    asked = {"nodes": asks, "api": "AlterPartition"}
    direction = rng.choice(("request", "response"))
    if rng.random() < (0.7 if direction == "request" else 0.2):
        _twice(focus, joiner, begins, {**asked, "direction": direction})
        joins = {"fact": "HostStopped", "node": node, "count": 2}
    else:
        joins = {"fact": "PartitionChanged", "fields": {"topic": TOPIC, "reason": "caught-up"}}
        lasts = rng.randrange(4000, 8000)
        if rng.random() < 0.25:
            reset = {"fact": "FaultStarted", "fields": {"fault": "reset"}}
            focus.fault("hold", begins, lasts, **asked, direction="response", until=reset)
            focus.fault("reset", rng.choice((20, 100, 200)), nodes=asks,
                        peers=_controllers(focus, leaders),
                        when=focus.partition_change("caught-up", "lag"))  # fmt: skip
        else:
            focus.fault("hold", begins, lasts, **asked, direction=direction)
    if rng.random() < 0.8:
        focus.delay_replication(joiner, leaders, None, rng.randrange(2500, 5000), when=joins)
    for leader in leaders if rng.random() < 0.7 else ():  # hold the responses, too
        answers = {"direction": "response" if focus.mode == "kraft" else "request"}
        focus.stall_metadata(leader, None, rng.randrange(2500, 5000), when=joins, **answers)
    if rng.random() < 0.3:
        nodes = [f"broker-{leader}" for leader in leaders]
        focus.fault("crash", rng.choice((100, 1000, 3500)), rng.randrange(2000, 4000), nodes=nodes,
                    when=focus.partition_change("caught-up"))  # fmt: skip


def _twice(focus: Focus, joiner: int, begins: int, asked: dict[str, Any]) -> None:
    """Let the replica come back twice: the first incarnation's proposal arrives in the second's."""
    focus.config["broker.session.timeout.ms"] = 2000
    again = {"fact": "BrokerRegistration", "fields": {"broker": joiner, "change": "unfenced"}}
    focus.fault("power-loss", focus.rng.randrange(300, 1200), 200, node=f"broker-{joiner}",
                when=dict(again))  # fmt: skip
    focus.fault("hold", begins, focus.duration_ms, **asked, until={**again, "count": 2})


def _controllers(focus: Focus, others: list[int]) -> list[str]:
    """Return the hosts that may be the active controller, except the brokers ``others``."""
    if focus.mode == "kraft":
        return [f"controller-{number + 1}" for number in range(focus.cluster["controllers"])]
    brokers = range(1, focus.cluster["brokers"] + 1)
    return [f"broker-{number}" for number in brokers if number not in others]


def controlled_shutdown(focus: Focus) -> None:
    """A broker shuts down in the controlled way while one of its successors gets no metadata.

    In KRaft mode the heartbeat response that lets the broker stop may be late instead. The broker
    must not stop before its successors lead.
    """
    rng = focus.rng
    focus.prepare(rng.choice((3, 4)), rng.randrange(7000, 9000))
    focus.assign_all_orders(rng.choice((2, 3)), rng.choice((2, 6)))
    focus.producers()
    leaving, heir = rng.sample(focus.brokers, 2)
    node = f"broker-{leaving}"
    stops = rng.randrange(1200, 2500)
    if rng.random() < 0.7:
        focus.stall_metadata(heir, stops - rng.randrange(50, 600), rng.randrange(1500, 4000))
    if focus.mode == "kraft":
        if rng.random() < 0.5 or not focus.faults:
            when = {"fact": "BrokerState", "node": node,
                    "fields": {"state": "PENDING_CONTROLLED_SHUTDOWN"}}  # fmt: skip
            focus.fault("hold", None, rng.randrange(700, 2000), node=node, api="BrokerHeartbeat",
                        direction="response", when=when)  # fmt: skip
        focus.data["expect"]["never"] = ["stopped-early"]
    focus.operations.append({"kind": "stop", "node": node, "at": ms(stops)})
    starts = stops + rng.choice((1000, 2000, 4000))
    focus.operations.append({"kind": "start", "node": node, "at": ms(starts)})


def reassignment(focus: Focus) -> None:
    """Replicas move to two other brokers: one gets no records and the other crashes.

    The old replicas must keep the partition until both new ones are in the ISR. It has records when
    the move begins: without any, a replica that gets none is caught up.
    """
    rng = focus.rng
    focus.prepare(4, rng.randrange(7500, 9500))
    one, other, first, last = rng.sample(range(1, 5), 4)
    focus.assign([(one, other), (other, one)][: rng.choice((1, 2))])
    focus.producers()
    begins = rng.randrange(700, 1500)
    focus.delay_replication(last, [one, other, first], begins - 500, focus.duration_ms)
    for partition in range(len(focus.orders)):
        written = {"fact": "HighWatermark", "fields": {"topic": TOPIC, "partition": partition}}
        focus.reassign(partition, (first, last), begins + 100 * partition, when=written)
    focus.fault("crash", begins + rng.randrange(700, 3000), rng.randrange(3500, 5000),
                node=f"broker-{first}")  # fmt: skip
    if focus.mode == "kraft":  # a new ZooKeeper controller removes dead leaders first
        focus.data["expect"]["never"] = ["leaderless"]


def partition_churn(focus: Focus) -> None:
    """A replica with a slow link comes back while the controller keeps changing its partition.

    The changes bring no new leader epoch, so the replica must get into the ISR in between. The
    controller refuses its return until the session is over; five seconds are left after that.
    """
    rng = focus.rng
    focus.prepare(3, 9500)
    focus.config["replica.lag.time.max.ms"] = 10_000
    focus.data["topics"][0]["config"].pop("segment.bytes", None)  # a fetch reads one segment
    one, other, far = rng.sample(focus.brokers, 3)
    focus.assign([(one, other, far)])
    focus.producers()
    focus.data["workload"] = focus.data["workload"][:1]
    focus.fault("slow-link", 1, node=f"broker-{one}", peers=[f"broker-{far}"],
                extra=ms(rng.randrange(200, 300)))  # fmt: skip
    away = rng.randrange(400, 800)
    node = f"broker-{far}"
    focus.operations.append({"kind": "stop", "node": node, "at": ms(away)})
    focus.operations.append({"kind": "start", "node": node, "at": ms(away + 1000)})
    at, order = away + 1000, ((one, far, other), (one, other, far))
    while (
        at < focus.duration_ms
    ):  # at irregular times: in step with the fetches, every proposal would be refused
        focus.reassign(0, order[0], at)
        at, order = at + rng.randrange(250, 400), order[::-1]
    focus.data["expect"]["in-time"] = ["isr-expand"]


def recreated_topic(focus: Focus) -> None:
    """A topic is deleted and created again with other leaders while its producers are cut off.

    Its leader epochs had risen before, so clients know higher epochs than the new topic's. They
    must find the new topic: no send may fail for good. The producers are not idempotent, because
    a new leader that got later sequences first refuses the earlier ones as out of order until
    delivery.timeout.ms is over, as Kafka's does.
    """
    rng = focus.rng
    focus.prepare(3, 9000)
    focus.config["auto.create.topics.enable"] = False
    focus.assign_all_orders(3, rng.choice((1, 2)))
    config: dict[str, Any] = {"request.timeout.ms": 1000, "delivery.timeout.ms": 5000}
    config |= {"acks": "all", "enable.idempotence": False, "metadata.max.age.ms": 500}
    focus.producers(**config)
    focus.data["workload"] = focus.data["workload"][:1]
    focus.data["topics"][0]["config"].pop("segment.bytes", None)  # a batch has to fit into one
    focus.move_leaders(800)
    focus.move_leaders(1400)
    deleted = rng.randrange(1900, 2400)
    if rng.random() < 0.7:
        names = [f"producer-{n + 1}" for n in range(focus.data["workload"][0]["count"])]
        focus.fault("isolate", deleted - 100, rng.randrange(700, 1400), nodes=names)
    orders = [rng.sample(focus.brokers, 3) for _ in focus.orders]
    focus.operations.append({"kind": "delete-topic", "topic": TOPIC, "at": ms(deleted)})
    focus.operations.append({"kind": "create-topic", "topic": TOPIC, "assignment": orders,
                             "at": ms(deleted + rng.randrange(300, 600))})  # fmt: skip
    focus.data["expect"]["never"] = ["send-failed"]


def short_segments(focus: Focus) -> None:
    """Segments hold a few batches, followers are far from their leaders, consumers are quick.

    So high watermarks stay at the ends of segments.
    """
    rng = focus.rng
    focus.prepare(3, 6000)
    focus.assign_all_orders(3, rng.choice((1, 3)))
    config = focus.data["topics"][0]["config"]
    config["segment.bytes"] = rng.choice((400, 600, 1000))
    focus.producers()
    focus.data["workload"][0]["rate"] = rng.choice(("3/s", "10/s"))
    for each in [each for each in focus.data["workload"][1:] if "protocol" not in each]:
        each["config"] |= {"fetch.max.wait.ms": 30, "auto.offset.reset": "earliest"}
    nodes = [f"broker-{broker}" for broker in focus.brokers]
    far = rng.randrange(3)
    focus.fault("slow-link", 1, node=nodes[far], peers=nodes[:far] + nodes[far + 1 :],
                extra=ms(rng.randrange(30, 120)))  # fmt: skip
    if rng.random() < 0.5:
        focus.move_leaders(rng.randrange(2000, 4000))
