"""The parts of a lane scheduler alone: wake-ups, and the backlog of a pause."""

from types import SimpleNamespace

from kafkasim.model.timers import Timers
from kafkasim.sim.clock import HostClock
from kafkasim.sim.host.backlog import Backlog
from kafkasim.sim.host.wakeups import FAR, WakeUps
from kafkasim.sim.kernel import Kernel
from kafkasim.sim.net.sockets import Packet


class Bench:
    """Wake-ups over real timers; ``rang`` logs when an event that was not void rang."""

    def __init__(self) -> None:
        self.kernel, self.timers = Kernel(), Timers()
        self.rang: list[int] = []
        self.wakeups = WakeUps(self.kernel, HostClock(), self.timers, (self.on_wake,))

    def on_wake(self, event) -> None:
        if self.wakeups.rang(event):
            self.rang.append(int(self.kernel.now))

    def arm(self, key: str, deadline: int) -> None:
        self.timers.arm(key, deadline, "main", lambda _now: None)
        self.wakeups.arm()


def test_an_earlier_deadline_gets_an_event_of_its_own_and_the_later_one_counts_again():
    bench = Bench()
    for key, deadline in (("late", 300), ("later", 400), ("early", 100)):
        bench.arm(key, deadline)
    assert (bench.wakeups.armed_us, len(bench.kernel._queue)) == (100, 2)
    bench.kernel.run_until(200)
    assert (bench.rang, bench.wakeups.armed_us) == ([100], 300)
    bench.kernel.run_until(1_000)
    assert (bench.rang, bench.wakeups.armed_us) == ([100, 300], FAR)


def test_forgotten_events_ring_void():
    bench = Bench()
    bench.arm("t", 100)
    bench.wakeups.forget()
    bench.kernel.run_until(1_000)
    assert (bench.rang, bench.wakeups.armed_us) == ([], FAR)


def test_a_cancelled_timer_arms_nothing_and_the_applications_deadline_counts():
    class App:
        def next_deadline(self):
            return 200

    bench = Bench()
    bench.timers.arm("t", 100, "main", lambda _now: None)
    bench.timers.cancel("t")
    bench.wakeups.attach(App())
    bench.wakeups.arm()
    assert bench.wakeups.armed_us == 200
    assert bench.wakeups.detach() is not None
    assert (bench.wakeups.app, bench.wakeups.app_ready) == (None, False)


def test_a_backlog_is_in_order_of_due_time_then_of_the_draw_and_keeps_a_connections_order():
    kernel, draws = Kernel(), iter([0.9, 0.1, 0.5, 0.2])
    backlog = Backlog(kernel, lambda: next(draws))
    sockets = [SimpleNamespace(arrives=[]), SimpleNamespace(arrives=[])]
    first, other, second = (Packet(sockets[n], 1, None, 1) for n in (0, 1, 0))
    for packet in (first, other, second):
        backlog.postpone(print, packet)
    kernel.run_until(10)
    backlog.postpone(print, "later")
    backlog.add(0, print, "timer")
    assert [event for *_, event in backlog.take()] == [other, "timer", first, second, "later"]
    assert backlog.take() == []
