"""The network: FIFO, stalls, ends, buffers, handshakes, rules."""

import pytest

from kafkasim.model.effects import Respond
from tests.sim.host_probes import Bench, Probe


def responses(bench: Bench) -> list[int]:
    return [w[1] for w in bench.whats("a") if w[0] == "response"]


def requests(bench: Bench) -> list[int]:
    return [w[1] for w in bench.whats("b") if w[0] == "request"]


def echo_bench(seed: int = 1) -> tuple[Bench, int]:
    bench = Bench(seed)
    bench.start("b")
    bench.start("a")
    return bench, bench.connect()


def test_a_connection_opens_one_round_trip_later():
    bench, _ = echo_bench()
    [at] = bench.times("a", "opened")
    assert 500 <= at <= 550


def test_an_exchange_takes_two_latencies_and_the_service_time():
    bench, connection = echo_bench()
    began = bench.world.now
    bench.send(connection, 1)
    bench.run(2_000)
    [at] = bench.times("a", ("response", 1))
    assert 550 <= at - began <= 600


def test_requests_and_answers_keep_their_order():
    bench, connection = echo_bench()
    bench.send(connection, *range(1, 40))
    bench.run(100_000)
    assert (requests(bench), responses(bench)) == (list(range(1, 40)), list(range(1, 40)))


def test_nothing_listens_is_refused():
    bench = Bench()
    bench.start("a")
    bench.act("a", lambda p, _now: p.dial("b"))
    bench.run(2_000)
    [(at, _, what)] = bench.log
    assert what == ("open-failed", "refused")
    assert 500 <= at <= 550


def test_a_partitioned_connect_times_out_after_ten_seconds_of_silence():
    bench = Bench()
    bench.start("b")
    bench.start("a")
    bench.link_faults.partition("a", "b")
    bench.act("a", lambda p, _now: p.dial("b"))
    bench.run(20_000_000)
    assert bench.log == [(10_000_000, "a", ("open-failed", "timeout"))]


def test_a_connect_succeeds_by_a_retransmit_when_the_partition_heals():
    bench = Bench()
    bench.start("b")
    bench.start("a")
    with bench.link_faults.partition("a", "b"):
        bench.act("a", lambda p, _now: p.dial("b"))
        bench.run(2_000_000)
    bench.run(5_000_000)
    [at] = bench.times("a", "opened")
    assert 3_000_500 <= at <= 3_000_550


def test_a_stalled_packet_arrives_in_order_after_heal_by_a_doubled_retransmit():
    bench, connection = echo_bench()
    began = bench.world.now
    rule = bench.link_faults.partition("a", "b")
    bench.send(connection, 1)
    bench.run(300_000)
    bench.send(connection, 2)
    bench.run(400_000)
    rule.heal()
    bench.send(connection, 3)
    assert requests(bench) == []
    bench.run(2_000_000)
    assert requests(bench) == [1, 2, 3]
    [at] = bench.times("b", ("request", 1))
    # Lost at 0, again at 200 and 600 ms; the one after 1400 ms gets through.
    assert 1_400_250 <= at - began <= 1_400_400


def test_a_oneway_partition_loses_answers_only():
    bench, connection = echo_bench()
    with bench.link_faults.partition_oneway("b", "a"):
        bench.send(connection, 1)
        bench.run(100_000)
        assert (requests(bench), responses(bench)) == ([1], [])
    bench.run(300_000)
    assert responses(bench) == [1]


def test_isolate_cuts_a_host_from_all_others():
    bench = Bench(names=("a", "b", "c"))
    for name in ("a", "b", "c"):
        bench.start(name)
    bench.link_faults.isolate("c")
    bench.act("a", lambda p, _now: p.dial("b"))
    bench.act("a", lambda p, _now: p.dial("c"))
    bench.run(11_000_000)
    assert bench.whats("a") == ["opened", ("open-failed", "timeout")]


def test_slow_adds_a_delay_each_way():
    bench, connection = echo_bench()
    began = bench.world.now
    with bench.link_faults.slow("a", "b", 10_000):
        bench.send(connection, 1)
        bench.run(100_000)
    [at] = bench.times("a", ("response", 1))
    assert 20_550 <= at - began <= 20_600


def test_flaky_delays_but_loses_nothing():
    bench, connection = echo_bench()
    bench.link_faults.flaky("a", "b", 0.3)
    bench.send(connection, *range(1, 30))
    bench.run(60_000_000)
    assert responses(bench) == list(range(1, 30))


def test_a_close_queues_behind_data_and_received_requests_still_run():
    bench, connection = echo_bench()

    def send_and_close(process: Probe, _now: int) -> None:
        for number in (1, 2, 3):
            process.send(connection, number)
        process.hang_up(connection)

    bench.act("a", send_and_close)
    bench.run(10_000)
    assert (requests(bench), responses(bench)) == ([1, 2, 3], [])
    assert bench.hosts["b"].card.sockets == {}


def test_a_server_that_closes_tells_the_client_after_its_answers():
    bench = Bench()

    def answer_and_close(process: Probe, item, _now: int) -> None:
        process.answer(item)
        process.hang_up(item.connection)

    bench.start("b", answer_and_close)
    bench.start("a")
    connection = bench.connect()
    bench.send(connection, 1)
    bench.run(10_000)
    assert bench.whats("a") == ["opened", ("response", 1), ("closed", "closed")]


def test_closing_with_stalled_data_lets_a_drawn_prefix_arrive():
    arrived = set()
    for seed in range(30):
        bench, connection = echo_bench(seed)
        rule = bench.link_faults.partition("a", "b")
        bench.send(connection, 1, 2, 3)
        bench.act("a", lambda p, _now, c=connection: p.hang_up(c))
        bench.run(100_000)
        rule.heal()
        bench.run(1_000_000)
        arrived.add(tuple(requests(bench)))
    assert arrived == {(), (1,), (1, 2), (1, 2, 3)}


def test_a_full_socket_buffer_stalls_the_sender_until_the_receiver_reads():
    bench, connection = echo_bench()
    bench.hosts["b"].pause(1_000_000)
    bench.send(connection, *range(1, 6), size=300 * 1024)
    bench.run(900_000)
    socket = bench.hosts["a"].card.sockets[connection]
    assert (len(socket.queue), socket.unread) == (2, 3 * 300 * 1024)
    bench.run(1_000_000)
    assert requests(bench) == [1, 2, 3, 4, 5]
    assert responses(bench) == [1, 2, 3, 4, 5]
    assert (len(socket.queue), socket.unread, socket.peer.unread) == (0, 0, 0)


def test_a_message_larger_than_the_buffer_still_passes():
    bench, connection = echo_bench()
    bench.send(connection, 1, 2, size=3 * 1024 * 1024)
    bench.run(100_000)
    assert responses(bench) == [1, 2]


def test_bandwidth_is_shared_by_what_a_host_sends():
    bench, connection = echo_bench()
    began = bench.world.now
    bench.send(connection, 1, size=1250 * 800)
    bench.run(50_000)
    [at] = bench.times("b", ("request", 1))
    assert 800 + 250 + 50 + 976 <= at - began <= 800 + 275 + 50 + 977


def test_reset_tells_both_ends_and_loses_what_travels():
    bench, connection = echo_bench()
    bench.send(connection, 1)
    bench.link_faults.reset("a", "b")
    bench.run(10_000)
    assert bench.whats("a") == ["opened", ("closed", "reset")]
    assert (requests(bench), bench.hosts["b"].card.sockets) == ([], {})


def test_half_open_is_silent_and_new_connections_work():
    bench, connection = echo_bench()
    bench.link_faults.half_open("a", "b")
    bench.send(connection, 1)
    bench.run(5_000_000)
    again = bench.connect()
    bench.send(again, 2)
    bench.run(10_000)
    assert bench.whats("a") == ["opened", "opened", ("response", 2)]


def test_a_sender_gives_up_after_fifteen_minutes():
    bench, connection = echo_bench()
    bench.link_faults.partition("a", "b")
    bench.send(connection, 1)
    bench.run(1_200_000_000)
    assert bench.whats("a") == ["opened", ("closed", "timeout")]


@pytest.mark.parametrize(
    ("selection", "held"),
    [
        ({"api": "Ping"}, True),
        ({"api": "Produce"}, False),
        ({"purpose": "test"}, True),
        ({"purpose": "raft-fetch"}, False),
        ({"direction": "request"}, True),
        ({"direction": "response", "api": "Ping"}, True),
    ],
)
def test_hold_keeps_back_by_api_direction_and_purpose_until_release(selection, held):
    bench, connection = echo_bench()
    rule = bench.link_faults.hold("a", "b", **selection)
    bench.send(connection, 1, 2)
    bench.run(10_000_000)
    assert responses(bench) == ([] if held else [1, 2])
    bench.link_faults.release(rule)
    bench.run(10_000)
    assert responses(bench) == [1, 2]


def test_cut_by_purpose_leaves_other_connections_alone():
    bench, connection = echo_bench()
    other = bench.connect(purpose="heartbeat")
    with bench.link_faults.cut("a", "b", purpose="heartbeat"):
        bench.send(connection, 1)
        bench.send(other, 2)
        bench.run(10_000)
        assert responses(bench) == [1]
    bench.run(1_000_000)
    assert responses(bench) == [1, 2]


def test_the_first_rule_with_a_verdict_wins():
    bench, connection = echo_bench()
    bench.link_faults.slow("a", "b", 1_000)
    bench.link_faults.partition("a", "b")
    bench.send(connection, 1)
    bench.run(10_000)
    assert responses(bench) == [1]


def test_heal_removes_all_rules():
    bench, _ = echo_bench()
    bench.link_faults.slow("a", "b", 1)
    bench.link_faults.hold("a", "b")
    bench.link_faults.heal()
    assert bench.link_faults.rules == []


def test_the_server_mutes_a_connection_until_it_answers():
    bench = Bench()
    parked: list = []
    bench.start("b", lambda _process, item, _now: parked.append(item))
    bench.start("a")
    connection = bench.connect()
    bench.send(connection, 1, 2)
    bench.run(10_000)
    assert requests(bench) == [1]
    bench.act("b", lambda p, _now: p.out.append(Respond(parked[0].connection, 1, None)))
    bench.run(10_000)
    assert (requests(bench), responses(bench)) == ([1, 2], [])


def test_routes_follow_the_topology():
    bench = Bench(names=("a",))
    bench.hosts["b"] = bench.world.add_host("b", rack="rack-1", clock_offset_us=0)
    bench.hosts["c"] = bench.world.add_host("c", dc="dc-1", clock_offset_us=0)
    route = bench.world.topology.route
    assert [route("a", x).latency_us for x in "abc"] == [20, 1_000, 60_000]
    assert bench.link_faults.resolve("dc-0") == ("a", "b")
    bench.world.topology.link("a", "c", 5_000, 10)
    assert route("a", "c") == (5_000, 501, 10)


def test_a_lost_route_stalls_until_it_is_back():
    bench, connection = echo_bench()
    bench.world.topology.unlink("a", "dc-0/rack-0")
    bench.send(connection, 1)
    bench.run(100_000)
    assert responses(bench) == []
    bench.world.topology.link("a", "dc-0/rack-0", 125, 1250)
    bench.run(1_000_000)
    assert responses(bench) == [1]


def test_the_wire_records_every_message_handed_to_a_socket():
    rows: list[tuple] = []

    class Wire:
        def record(self, *row):
            rows.append(row)

    bench, connection = echo_bench()
    bench.network.wires = (Wire(),)
    bench.send(connection, 7)
    bench.run(10_000)
    assert [row[1:8] for row in rows] == [
        ("a", "b", "test", "request", connection, 7, 100),
        ("b", "a", "test", "response", connection, 7, 100),
    ]
