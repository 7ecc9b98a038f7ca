"""Hosts: lanes, barriers, service, pauses, crashes, power, clocks, applications, determinism."""

import itertools
from typing import Any

import pytest

from kafkasim.model.effects import Barrier, Call, Exit, Flush, Post, Reply, Respond, Then
from kafkasim.model.facts import BrokerState, HostStarted, HostStopped
from kafkasim.model.storage.files import DiskError
from tests.sim.host_probes import Bench, PingResponse, Probe


def echo_bench(seed: int = 1, on_request=None) -> tuple[Bench, int]:
    bench = Bench(seed)
    bench.start("b", on_request)
    bench.start("a")
    return bench, bench.connect()


def numbers(bench: Bench, name: str, kind: str) -> list[int]:
    return [what[1] for what in bench.whats(name) if what[0] == kind]


class App:
    """A loop that logs, and calls when asked."""

    def __init__(self, bench: Bench, host) -> None:
        self.bench, self.host = bench, host
        self.replies: list = []
        self.deadline: int | None = None
        self.discarded = False

    def on_reply(self, reply):
        self.replies.append(reply)

    def run(self, now):
        self.bench.log.append((self.bench.world.now, "app", "run"))
        if self.deadline is not None and self.deadline <= now:
            self.deadline = None

    def next_deadline(self):
        return self.deadline

    def failures(self):
        return []

    def discard(self):
        self.discarded = True


# ------------------------------------------------------------------------- barriers and flushes


def test_a_barrier_holds_what_stands_behind_it_until_the_file_is_durable():
    def vote(process: Probe, item, _now: int) -> None:
        process.files.append("quorum-state", "vote", 10)
        process.out.append(Post("other", lambda _m, _at: process.note("posted before"), None))
        process.out.append(Barrier(("quorum-state",)))
        process.out.append(Post("other", lambda _m, _at: process.note("posted behind"), None))
        process.answer(item)

    bench, connection = echo_bench(on_request=vote)
    began = bench.world.now
    bench.send(connection, 1)
    bench.run(100_000)
    [before] = bench.times("b", "posted before")
    [behind] = bench.times("b", "posted behind")
    [answered] = bench.times("a", ("response", 1))
    assert before - began < 400
    assert behind - before > 300
    assert answered > behind
    bench.hosts["b"].power_loss()
    assert bench.hosts["b"].disk.read("quorum-state") == ["vote"]


def test_a_barrier_holds_its_lane_and_no_other():
    bench = Bench()
    process = bench.start("b")
    host = bench.hosts["b"]

    def on(lane: str, action) -> None:
        bench.act("b", lambda p, _now: p.out.append(Post(lane, action, None)))

    process.files.append("f", 1, 1)
    on("raft", lambda _m, _now: process.out.append(Barrier(("f",))))
    bench.run(100)
    on("raft", lambda _m, _now: process.note("raft"))
    on("heartbeat", lambda _m, _now: process.note("heartbeat"))
    process.timers.arm("t", host.local_now() + 60, "raft", lambda _now: process.note("timer"))
    bench.run(60_000)
    [heartbeat], [raft], [timer] = (bench.times("b", w) for w in ("heartbeat", "raft", "timer"))
    assert heartbeat < 200
    assert raft > 300
    assert timer == raft


def test_facts_behind_a_barrier_are_recorded_at_once():
    bench = Bench()
    bench.start("b")

    def action(process, _now):
        process.out += [BrokerState("1"), Barrier(("f",)), BrokerState("2")]

    bench.act("b", action)
    states = [(t, fact.state) for t, _, fact in bench.trace.rows if type(fact) is BrokerState]
    assert states == [(0, "1"), (0, "2")]


def test_a_barrier_on_a_failing_disk_halts_the_process():
    bench = Bench()
    bench.start("b")
    bench.hosts["b"].disk.fail_flushes()
    bench.act("b", lambda p, _now: p.out.append(Barrier(("f",))))
    bench.run(100_000)
    assert bench.trace.rows[-1][2] == HostStopped("halt", "a flush failed: Input/output error")


def test_a_process_that_can_do_without_the_files_of_a_barrier_goes_on():
    bench = Bench()
    process = bench.start("b")
    process.files.append("f", 1, 1)
    bench.hosts["b"].disk.fail_flushes()
    heard = []

    def on_barrier_failed(files, error, _now):
        heard.append((files, error))
        process.out.append(BrokerState("1"))
        return True

    process.on_barrier_failed = on_barrier_failed
    bench.act("b", lambda p, _now: p.out.extend([Barrier(("f",)), Then(lambda _: heard.append(2))]))
    bench.run(100_000)
    states = [fact.state for _, _, fact in bench.trace.rows if type(fact) is BrokerState]
    assert (heard, states) == ([(["f"], "Input/output error"), 2], ["1"])


def test_what_a_then_leads_to_comes_behind_all_that_was_held():
    bench = Bench()
    process = bench.start("b")
    process.files.append("f", 1, 1)
    heard = []

    def then(name: str, *effects) -> Then:
        return Then(lambda _now: (heard.append(name), process.out.extend(effects)))

    first = then("first", BrokerState("1"), then("of the first"))
    effects = [Barrier(("f",)), first, Barrier(("f",)), then("second"), BrokerState("2")]
    bench.act("b", lambda p, _now: p.out.extend(effects))
    bench.run(100_000)
    states = [fact.state for _, _, fact in bench.trace.rows if type(fact) is BrokerState]
    assert (heard, states, process.out) == (["first", "second", "of the first"], ["2", "1"], [])


def test_a_paused_process_hears_of_a_failed_barrier_when_it_resumes():
    bench = Bench()
    bench.start("b")
    host = bench.hosts["b"]
    host.disk.fail_flushes()
    bench.act("b", lambda p, _now: p.out.append(Barrier(("f",))))
    host.pause(100_000)
    bench.run(99_999)
    assert host.alive
    bench.run(10)
    stopped = HostStopped("halt", "a flush failed: Input/output error")
    assert bench.trace.rows[-1] == (100_000, "b", stopped)


def test_a_host_whose_disk_cannot_be_read_stays_down():
    bench = Bench()
    bench.start("b")
    host = bench.hosts["b"]
    host.crash()

    def factory(_files, _rng, _now):
        raise DiskError("f", "Input/output error")

    assert host.start(factory) is None
    assert not host.alive
    assert bench.trace.rows[-1][2] == HostStopped("disk-error")


def test_a_flush_answers_on_the_issuing_lane():
    bench = Bench()
    process = bench.start("b")
    process.files.append("f", 1, 1)
    flush = Flush(("f",), lambda error, _now: process.note(("flushed", error)))
    bench.act("b", lambda p, _now: p.out.append(flush))
    bench.run(100_000)
    [(at, _, what)] = bench.log
    assert what == ("flushed", None)
    assert 300 < at < 20_000


def test_a_flush_answer_of_a_dead_incarnation_is_discarded():
    bench = Bench()
    process = bench.start("b")
    process.files.append("f", 1, 1)
    flush = Flush(("f",), lambda _error, _now: process.note("flushed"))
    bench.act("b", lambda p, _now: p.out.append(flush))
    bench.run(10)
    bench.hosts["b"].restart()
    bench.run(100_000)
    assert bench.log == []
    bench.hosts["b"].power_loss()
    assert bench.hosts["b"].disk.read("f") == [1]  # the disk ended it all the same


# ------------------------------------------------------------------------------ write cost


def test_small_writes_delay_the_answer_and_large_ones_hold_the_thread():
    def append(process: Probe, item, _now: int) -> None:
        process.files.append("log", item.message.number, item.message.number * 1024)
        process.answer(item)

    bench, connection = echo_bench(on_request=append)
    took = {}
    for kib in (1, 400, 5_000):
        began = bench.world.now
        bench.send(connection, kib)
        bench.run(50_000)
        took[kib] = bench.times("a", ("response", kib))[0] - began
    assert 552 <= took[1] <= 602
    assert 1_350 <= took[400] <= 1_400
    assert 10_550 <= took[5_000] <= 10_600


def test_a_stalled_disk_stops_writers_and_no_others():
    def serve(process: Probe, item, _now: int) -> None:
        if item.message.number == 1:
            process.files.append("log", 1, 100)
        process.answer(item)

    bench, connection = echo_bench(on_request=serve)
    other = bench.connect()
    bench.hosts["b"].disk.stall()
    bench.send(connection, 1)
    bench.send(other, 2)
    bench.run(1_000_000)
    assert numbers(bench, "a", "response") == [2]
    bench.hosts["b"].disk.resume()
    bench.run(10_000)
    assert numbers(bench, "a", "response") == [2, 1]


# ------------------------------------------------------------------------------ requests


def test_the_pool_serves_as_many_requests_as_it_has_threads():
    bench = Bench(service_us=1_000)
    bench.start("b")
    bench.start("a")
    connections = [bench.connect() for _ in range(10)]
    for number, connection in enumerate(connections):
        bench.send(connection, number)
    bench.run(20_000)
    at = sorted(t for t, who, w in bench.log if who == "b")
    assert at[7] - at[0] < 30
    assert at[8] - at[0] >= 1_000


def test_a_request_lane_of_its_own_is_single_threaded():
    from tests.sim.host_probes import PingRequest

    class Grouped(Probe):
        request_lanes = {PingRequest: "group"}

    bench = Bench(service_us=1_000)
    bench.start("b", kind=Grouped)
    bench.start("a")
    for number, connection in enumerate([bench.connect() for _ in range(3)]):
        bench.send(connection, number)
    bench.run(20_000)
    at = sorted(t for t, who, w in bench.log if who == "b")
    assert [y - x >= 1_000 for x, y in itertools.pairwise(at)] == [True, True]


class Pooled(Probe):
    """Serves request N on lane ``pool/(N mod 10)``."""

    lane_threads = {"pool": 2}

    def lane_of(self, message: Any, connection: int) -> str:
        return f"pool/{message.number % 10}"


def pooled(
    numbers: list[int], seed: int = 1, kind: type[Probe] = Pooled, arrived: list | None = None
) -> list[tuple[int, int]]:
    """Return when each of the requests was served, which come at once: ms, number.

    Into ``arrived`` goes when they were read, in the order in which they were served.
    """

    def serve(process: Probe, item, _now: int) -> None:
        if arrived is not None:
            arrived.append((item.message.number % 10, item.received_us))
        process.answer(item)

    bench = Bench(seed, service_us=1_000)
    bench.start("b", serve, kind=kind)
    bench.start("a")
    for connection, number in zip([bench.connect() for _ in numbers], numbers, strict=True):
        bench.send(connection, number)
    bench.run(20_000)
    at = [(t, what[1]) for t, who, what in bench.log if who == "b"]
    began = min(t for t, _ in at)
    return [(1 + (t - began) // 900, number) for t, number in at]


def test_a_pool_serves_as_many_lanes_as_it_has_threads_each_in_its_order():
    arrived: list[tuple[int, int]] = []
    served = pooled([1, 11, 21, 2, 12], arrived=arrived)
    for lane in (1, 2):
        read = [at for key, at in arrived if key == lane]
        assert read == sorted(read)
    assert [at for at, number in served if number % 10 == 1] == [1, 2, 3]
    assert [at for at, number in served if number % 10 == 2] == [1, 2]


def test_the_lanes_of_a_pool_wait_for_its_threads_and_the_seed_decides_which_is_next():
    served = {seed: pooled([1, 2, 3, 4, 5], seed) for seed in range(8)}
    assert {tuple(at for at, _ in each) for each in served.values()} == {(1, 1, 2, 2, 3)}
    assert len({tuple(number for _, number in each[2:]) for each in served.values()}) > 1


def test_a_pool_with_one_thread_serves_one_lane_at_a_time():
    class One(Pooled):
        lane_threads = {"pool": 1}

    assert [at for at, _ in pooled([1, 2, 11], kind=One)] == [1, 2, 3]


def test_what_goes_first_is_served_before_what_waits_on_its_lane():
    def serve(process: Probe, item, _now: int) -> None:
        if item.message.number == 1:
            for number in (11, 21):
                noted = number + 100
                post = Post("pool/1", lambda m, _at: process.note(("post", m)), noted, number == 21)
                process.out.append(post)
            process.timers.arm("late", 0, "pool/1", lambda _at: process.note(("late", 0)), True)
            process.out.append(Barrier(("f",)))
            process.files.append("f", 1, 1)
        process.answer(item)

    bench = Bench(service_us=1_000)
    bench.start("b", kind=Pooled, on_request=serve)
    bench.start("a")
    for connection, number in [(bench.connect(), 1), (bench.connect(), 31)]:
        bench.send(connection, number)
    bench.run(40_000)
    order = [what for _, who, what in bench.log if who == "b"]
    assert order[0] == ("request", 1)
    assert order.index(("post", 121)) < order.index(("request", 31))
    assert order.index(("late", 0)) < order.index(("request", 31)) < order.index(("post", 111))


def test_a_full_request_queue_stops_reading_and_loses_nothing():
    class Small(Probe):
        lane_threads = {}
        queued_max_requests = 2

    bench = Bench(service_us=1_000)
    bench.start("b", kind=Small)
    bench.start("a")
    for number, connection in enumerate([bench.connect() for _ in range(6)]):
        bench.send(connection, number)
    bench.run(600)
    queued = bench.hosts["b"].lanes.lane("requests").queue
    unread = [each for each in bench.hosts["b"].card.sockets.values() if each.inbox]
    assert (len(queued), len(unread)) == (2, 3)
    bench.run(20_000)
    assert sorted(numbers(bench, "a", "response")) == list(range(6))


def test_a_stalled_processor_sends_no_response_until_the_queue_has_room():
    class Small(Probe):
        lane_threads = {}
        queued_max_requests = 1
        network_threads = 1

    parked = []

    def park_first(process: Probe, item, _now: int) -> None:
        process.answer(item) if item.message.number else parked.append(item)

    bench = Bench(service_us=1_000)
    bench.start("b", kind=Small, on_request=park_first)
    bench.start("a")
    connections = [bench.connect() for _ in range(4)]
    bench.send(connections[0], 0)
    bench.run(2_000)
    began = bench.world.now
    for number in (1, 2, 3):
        bench.send(connections[number], number)
    bench.run(500)
    bench.act("b", lambda process, _now: process.answer(parked[0]))
    bench.run(20_000)
    [answered] = bench.times("a", ("response", 0))
    assert 1_000 < answered - began < 2_000  # a handler was done, so there was room in the queue
    assert sorted(numbers(bench, "a", "response")) == [0, 1, 2, 3]


def test_a_request_for_a_pool_waits_for_a_request_handler():
    class Coordinator(Probe):
        lane_threads = {}

        def lane_of(self, message, connection) -> str:
            return "group/0" if message.number > 100 else "requests"

    bench = Bench(service_us=1_000)
    bench.start("b", kind=Coordinator)
    bench.start("a")
    connections = [bench.connect(), bench.connect()]
    bench.send(connections[0], 1)
    bench.run(500)
    bench.send(connections[1], 101)
    bench.run(5_000)
    [served], [handed_on] = (bench.times("b", ("request", number)) for number in (1, 101))
    assert handed_on - served == 1_000


def test_received_us_is_when_the_network_thread_read_it():
    seen: list[tuple[int, int]] = []

    def note(process: Probe, item, now: int) -> None:
        seen.append((item.received_us, now))
        process.answer(item)

    bench, connection = echo_bench(on_request=note)
    bench.send(connection, 1)
    bench.run(10_000)
    [(received, now)] = seen
    assert now - received == 50


def test_answering_twice_is_a_bug():
    def twice(process: Probe, item, _now: int) -> None:
        process.answer(item)
        process.answer(item)

    bench, connection = echo_bench(on_request=twice)
    bench.send(connection, 1)
    with pytest.raises(AssertionError, match="answers twice"):
        bench.run(10_000)


# ------------------------------------------------------------------------------ posts, races


def test_two_lanes_race_and_the_seed_decides():
    def order(seed: int) -> tuple:
        bench = Bench(seed)
        bench.start("b")

        def action(process, _now):
            for lane in ("x", "y"):
                process.out.append(Post(lane, lambda m, _at: process.note(m), lane))

        bench.act("b", action)
        bench.run(1_000)
        return tuple(bench.whats("b"))

    orders = [order(seed) for seed in range(20)]
    assert set(orders) == {("x", "y"), ("y", "x")}
    assert orders == [order(seed) for seed in range(20)]


# ------------------------------------------------------------------------------ pause


def test_a_pause_stretches_the_service_it_falls_into():
    bench = Bench(service_us=1_000)
    bench.start("b")
    bench.start("a")
    connection = bench.connect()
    began = bench.world.now
    bench.send(connection, 1)
    bench.run(700)
    bench.hosts["b"].pause(5_000)
    bench.run(20_000)
    [at] = bench.times("b", ("request", 1))
    assert 6_250 <= at - began <= 6_275


def test_a_short_pause_inside_a_service_time_stretches_it_too():
    bench = Bench(service_us=10_000)
    bench.start("b")
    bench.start("a")
    connection = bench.connect()
    began = bench.world.now
    bench.send(connection, 1)
    bench.run(1_000)
    bench.hosts["b"].pause(2_000)
    bench.run(3_000)
    bench.hosts["b"].pause(2_000)
    bench.run(20_000)
    [at] = bench.times("b", ("request", 1))
    assert 14_250 <= at - began <= 14_275


def test_on_resume_backlog_and_timers_merge_by_due_time_all_at_the_late_now():
    bench = Bench()
    process = bench.start("b")
    host = bench.hosts["b"]
    seen: list[tuple[str, int]] = []
    for at in (30_000, 10_000):
        process.timers.arm(
            at, host.local_now() + at, "main", lambda now, at=at: seen.append((at, now))
        )
    host.pause(50_000)
    bench.run(20_000)
    host.step_clock(5)
    bench.world.at(25_000, host.stop)
    process.on_shutdown = None
    process.shutdown = lambda now: seen.append(("stop", now))
    bench.run(100_000)
    assert seen == [(10_000, 50_000), ("stop", 50_000), (30_000, 50_000)]


def test_a_paused_host_accepts_connections_and_answers_after_the_pause():
    bench = Bench()
    bench.start("b")
    bench.start("a")
    bench.hosts["b"].pause(1_000_000)
    connection = bench.connect()
    bench.send(connection, 1)
    bench.run(900_000)
    assert bench.whats("b") == []
    bench.run(1_000_000)
    assert numbers(bench, "a", "response") == [1]


def test_a_paused_broker_executes_on_wake_what_it_received_before_the_client_closed():
    bench, connection = echo_bench()
    bench.hosts["b"].pause(1_000_000)
    bench.send(connection, 1)
    bench.run(1_000)
    bench.act("a", lambda p, _now: p.hang_up(connection))
    bench.run(2_000_000)
    assert numbers(bench, "b", "request") == [1]


def test_a_pause_within_a_pause_extends_it():
    bench = Bench()
    process = bench.start("b")
    process.timers.arm(
        "t", bench.hosts["b"].local_now() + 10, "main", lambda _now: process.note("t")
    )
    bench.hosts["b"].pause(1_000)
    bench.run(500)
    bench.hosts["b"].pause(5_000)
    bench.run(10_000)
    assert bench.log == [(5_500, "b", "t")]
    assert bench.trace.kinds() == ["HostStarted", "HostPaused", "HostPaused", "HostResumed"]


def test_a_crash_in_a_pause_ends_it():
    bench = Bench()
    bench.start("b")
    bench.hosts["b"].pause(1_000)
    bench.run(500)
    bench.hosts["b"].restart()
    bench.hosts["b"].pause(1_000)
    bench.run(700)
    assert bench.hosts["b"].paused
    bench.run(700)
    assert not bench.hosts["b"].paused


# ------------------------------------------------------------------------------ crash, power


def test_a_crash_resets_the_peers_at_once_and_keeps_the_page_cache():
    bench, _connection = echo_bench()
    bench.hosts["b"].disk.append("f", 1, 1)
    began = bench.world.now
    bench.hosts["b"].crash()
    bench.run(1_000)
    [at] = bench.times("a", ("closed", "reset"))
    assert 250 <= at - began <= 275
    assert bench.hosts["b"].disk.read("f") == [1]


def test_a_request_in_service_dies_in_a_crash():
    bench, connection = echo_bench()
    bench.send(connection, 1)
    bench.run(290)
    assert bench.hosts["b"].lanes.lane("requests").free == 7
    bench.hosts["b"].restart()
    bench.run(10_000)
    assert (bench.whats("b"), bench.whats("a")) == ([], ["opened", ("closed", "reset")])


def test_power_loss_is_silent_and_data_sent_after_the_boot_is_reset():
    bench, connection = echo_bench()
    bench.hosts["b"].power_loss()
    bench.run(5_000_000)
    bench.send(connection, 1)
    bench.run(5_000_000)
    assert bench.whats("a") == ["opened"]
    bench.hosts["b"].boot()
    bench.run(10_000_000)
    assert bench.whats("a") == ["opened", ("closed", "reset")]
    assert bench.whats("b") == []


def test_what_travelled_when_the_power_went_is_sent_again_and_reset_after_the_boot():
    bench, connection = echo_bench()
    bench.send(connection, 1, 2)
    bench.hosts["b"].power_loss()
    bench.run(1_000_000)
    assert bench.whats("a") == ["opened"]
    bench.hosts["b"].boot()
    bench.run(10_000_000)
    assert bench.whats("a") == ["opened", ("closed", "reset")]


def test_a_crash_behind_a_partition_is_heard_when_data_is_sent_after_heal():
    bench, connection = echo_bench()
    rule = bench.link_faults.partition("a", "b")
    bench.hosts["b"].crash()
    bench.run(1_000_000)
    assert bench.whats("a") == ["opened"]
    rule.heal()
    bench.send(connection, 1)
    bench.run(1_000_000)
    assert bench.whats("a") == ["opened", ("closed", "reset")]


def test_incarnations_have_their_own_random_stream():
    bench = Bench()
    first = bench.start("b").rng.random()
    second = bench.hosts["b"].restart().rng.random()
    again = Bench()
    assert again.start("b").rng.random() == first
    assert again.hosts["b"].restart().rng.random() == second
    assert first != second
    assert [fact for _, _, fact in bench.trace.rows] == [
        HostStarted(0),
        HostStopped("crash"),
        HostStarted(1),
    ]


def test_a_clean_stop_runs_shutdown_and_closes_connections():
    bench, _ = echo_bench()
    bench.hosts["b"].stop()
    bench.run(10_000)
    assert bench.whats("a") == ["opened", ("closed", "closed")]
    assert bench.trace.rows[-1][2] == HostStopped("shutdown")


def test_nothing_behind_an_exit_happens():
    bench = Bench()
    bench.start("b")

    def action(process, _now):
        process.out += [Exit("no quorum", False), BrokerState("after")]

    bench.act("b", action)
    stopped = HostStopped("halt", "no quorum")
    assert [fact for _, _, fact in bench.trace.rows] == [HostStarted(0), stopped]


def test_a_crash_from_inside_the_outbox_stops_it_there():
    bench = Bench()
    bench.start("b")
    record = bench.trace.record

    def crashing(t_us, node, fact):
        record(t_us, node, fact)
        if fact == BrokerState("1"):
            bench.hosts["b"].crash()

    bench.trace.record = crashing
    bench.act("b", lambda p, _now: p.out.extend([BrokerState("1"), BrokerState("2")]))
    assert bench.trace.kinds() == ["HostStarted", "BrokerState", "HostStopped"]


# ------------------------------------------------------------------------------ clocks


def test_wall_clocks_agree_until_one_is_stepped():
    bench = Bench()
    host = bench.world.add_host("c")
    process = host.start(lambda files, rng, now: Probe("c", files, rng, now, bench.world, []))
    bench.run(1_000_000)
    true_ms = (bench.world.epoch_us + bench.world.now) // 1000
    assert process.wall_ms(host.local_now()) == true_ms
    host.step_clock(-3_600_000_000)
    assert process.wall_ms(host.local_now()) == true_ms - 3_600_000


def test_a_drifting_clock_fires_its_timers_early_or_late():
    bench = Bench()
    process = bench.start("b")
    host = bench.hosts["b"]
    process.timers.arm("t", 1_000_000, "main", lambda now: process.note(now))
    host.set_drift(100_000)
    bench.run(2_000_000)
    assert bench.log == [(909_091, "b", 1_000_000)]


def test_timers_fire_in_order_of_deadline_and_not_before():
    bench = Bench()
    process = bench.start("b")
    for key, at in (("late", 300), ("early", 100), ("moved", 50), ("cancelled", 10)):
        process.timers.arm(key, at, "main", lambda now, key=key: process.note((key, now)))
    process.timers.arm("moved", 200, "main", lambda now: process.note(("moved", now)))
    process.timers.cancel("cancelled")
    bench.act("b", lambda _p, _now: None)
    bench.run(1_000)
    assert bench.whats("b") == [("early", 100), ("moved", 200), ("late", 300)]


# ------------------------------------------------------------------------------ applications


class Called(Probe):
    def on_call(self, item: Call, now: int) -> None:
        self.note(("call", item.call))
        self.out.append(Reply(item.call, "done", None))


def app_bench() -> tuple[Bench, App]:
    bench = Bench()
    bench.start("a", kind=Called)
    app = App(bench, bench.hosts["a"])
    bench.hosts["a"].attach(app)
    return bench, app


def test_a_call_is_answered_at_the_same_instant_and_runs_the_application():
    bench, app = app_bench()
    bench.hosts["a"].call(Call(7, "m", ()))
    assert app.replies == [Reply(7, "done", None)]
    assert bench.log == [(0, "app", "run"), (0, "a", ("call", 7)), (0, "app", "run")]


def test_the_application_wakes_at_its_deadline_and_stops_in_a_pause():
    bench, app = app_bench()
    bench.log.clear()
    app.deadline = 1_000
    bench.hosts["a"].call(Call(1, "m", ()))
    bench.run(500)
    bench.hosts["a"].pause(9_500)
    bench.run(20_000)
    assert bench.log == [(0, "a", ("call", 1)), (0, "app", "run"), (10_000, "app", "run")]


def test_a_crash_discards_the_application():
    bench, app = app_bench()
    bench.hosts["a"].crash()
    assert (app.discarded, bench.hosts["a"].app) == (True, None)


# ------------------------------------------------------------------------------ determinism


def busy_run(seed: int) -> list:
    bench = Bench(seed, names=("a", "b", "c"))

    def serve(process: Probe, item, _now: int) -> None:
        process.files.append("log", item.message.number, 20_000)
        if item.message.number % 7 == 0:
            process.out.append(Barrier(("log",)))
        process.out.append(Post("x", lambda m, _at: process.note(("post", m)), item.message.number))
        process.out.append(
            Respond(item.connection, item.correlation, PingResponse(item.message.number))
        )

    bench.start("b", serve)
    bench.start("c", serve)
    bench.start("a")
    one, two = bench.connect(), bench.connect()
    bench.link_faults.flaky("a", "b", 0.1)
    for number in range(1, 100):
        bench.send((one, two)[number % 2], number)
        bench.run(700)
        if number == 40:
            bench.hosts["b"].pause(9_000)
    bench.run(5_000_000)
    bench.hosts["b"].power_loss()
    bench.log.append(tuple(map(str, bench.hosts["b"].disk.read("log"))))
    return bench.log + bench.trace.rows


def test_the_same_seed_gives_the_same_run_and_another_seed_another():
    assert busy_run(3) == busy_run(3)
    assert busy_run(3) != busy_run(4)
