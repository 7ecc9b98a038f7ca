"""Applications: asyncio over host time, the client port, and what a crash leaves of them."""

import asyncio
import gc
import socket
import subprocess
import sys
import threading
import time

import pytest

from kafkasim.model.effects import Call, Process, Reply
from kafkasim.model.facts import ApplicationFailed, HostResumed, HostStopped
from kafkasim.sim.apps import loop as loop_module
from kafkasim.sim.apps.client_port import Applications, launch
from kafkasim.sim.apps.refusals import NotSimulated
from kafkasim.sim.trace.recording import Trace
from kafkasim.sim.world import World

SECOND = 1_000_000


@pytest.fixture(autouse=True)
def _release():
    yield
    while loop_module._discarded:
        loop_module._discarded[-1].release()


class Driver:
    """A host: runs one incarnation's applications from deadline to deadline."""

    def __init__(self, *applications, now=0):
        self.calls, self.facts, self.log = [], [], []
        self.now = now
        self.apps = Applications("consumer-1", self.calls.append, self.facts.append, now)
        for application in applications:
            self.apps.start(application)

    def note(self, what):
        self.log.append((self.apps.port.now_us, what))

    def run(self, until=3600 * SECOND):
        self.apps.run(self.now)
        while (deadline := self.apps.next_deadline()) is not None and deadline <= until:
            self.now = deadline
            self.apps.run(self.now)
        return self.log

    def reply(self, call, result=None, error=None):
        self.apps.on_reply(Reply(call, result, error))
        self.run()


def run(application):
    """Run one application that takes the driver, and return its log."""
    driver = Driver()
    driver.apps.start(lambda _: application(driver))
    driver.run()
    driver.apps.release()
    return driver.log


# -------------------------------------------------------------------------- asyncio over host time


def test_sleep_ends_at_its_deadline():
    async def application(driver):
        driver.note("start")
        await asyncio.sleep(1.5)
        driver.note("end")

    assert run(application) == [(0, "start"), (1_500_000, "end")]


def test_gather_runs_tasks_in_order_and_timers_by_deadline():
    async def nap(driver, name, seconds):
        await asyncio.sleep(seconds)
        driver.note(name)
        return name

    async def application(driver):
        naps = [nap(driver, "b", 0.002), nap(driver, "a", 0.001), nap(driver, "c", 0.002)]
        driver.note(await asyncio.gather(*naps))

    assert run(application) == [(1000, "a"), (2000, "b"), (2000, "c"), (2000, ["b", "a", "c"])]


def test_queue_hands_over_between_tasks():
    async def produce(driver, queue):
        for item in range(3):
            await queue.put(item)
            driver.note(f"put {item}")

    async def application(driver):
        queue = asyncio.Queue(1)
        producer = asyncio.create_task(produce(driver, queue))
        await asyncio.sleep(1)
        for _ in range(3):
            driver.note(await queue.get())
        await producer

    assert [what for _, what in run(application)] == ["put 0", 0, "put 1", 1, "put 2", 2]


def test_timeout_and_wait_for_end_at_their_deadline():
    async def application(driver):
        for _ in range(2):
            try:
                async with asyncio.timeout(0.25):
                    await asyncio.Event().wait()
            except TimeoutError:
                driver.note("timeout")
        try:
            await asyncio.wait_for(asyncio.sleep(9), 1)
        except TimeoutError:
            driver.note("wait_for")
        assert await asyncio.wait_for(asyncio.sleep(0.5, "in time"), 1) == "in time"

    assert run(application) == [(250_000, "timeout"), (500_000, "timeout"), (1_500_000, "wait_for")]


def test_event_lock_and_task_group_are_asyncios_own():
    async def guarded(driver, lock, event, name):
        await event.wait()
        async with lock:
            await asyncio.sleep(0.001)
            driver.note(name)

    async def application(driver):
        lock, event = asyncio.Lock(), asyncio.Event()
        async with asyncio.TaskGroup() as group:
            for name in "abc":
                group.create_task(guarded(driver, lock, event, name))
            event.set()

    assert run(application) == [(1000, "a"), (2000, "b"), (3000, "c")]


def test_cancelled_timer_leaves_no_deadline():
    async def application(driver):
        task = asyncio.create_task(asyncio.sleep(1000))
        await asyncio.sleep(0.001)
        task.cancel()
        await asyncio.gather(task, return_exceptions=True)
        driver.note("end")

    driver = Driver()
    driver.apps.start(lambda _: application(driver))
    assert driver.run() == [(1000, "end")]
    assert driver.apps.next_deadline() is None


def test_tasks_cancelled_by_a_group_are_cancelled_in_order():
    async def wait(driver, name):
        try:
            await asyncio.sleep(10)
        finally:
            driver.note(name)

    async def fail():
        raise ValueError("no")

    async def application(driver):
        try:
            async with asyncio.TaskGroup() as group:
                for name in range(40):
                    group.create_task(wait(driver, name))
                group.create_task(fail())
        except* ValueError:
            driver.note("failed")

    assert run(application) == [(0, name) for name in [*range(40), "failed"]]


def test_time_is_the_hosts_monotonic_time():
    async def application(driver):
        driver.note(asyncio.get_running_loop().time())

    driver = Driver(now=7_250_000)
    driver.apps.start(lambda _: application(driver))
    assert driver.run() == [(7_250_000, 7.25)]


def test_paused_host_runs_what_is_due_late_and_in_order():
    async def ticks(driver, name, seconds):
        await asyncio.sleep(seconds)
        driver.note(name)

    driver = Driver()
    for name, seconds in [("late", 3), ("early", 1), ("future", 60)]:
        driver.apps.start(lambda _, n=name, s=seconds: ticks(driver, n, s))
    driver.apps.run(0)
    driver.apps.run(5 * SECOND)
    assert driver.log == [(5 * SECOND, "early"), (5 * SECOND, "late")]
    assert driver.apps.next_deadline() == 60 * SECOND


def test_abandoned_async_generator_is_closed():
    async def numbers(driver):
        try:
            yield 1
        finally:
            await asyncio.sleep(0.001)
            driver.note("closed")

    async def application(driver):
        async for _ in numbers(driver):
            break
        gc.collect()
        await asyncio.sleep(1)

    assert run(application) == [(1000, "closed")]


# --------------------------------------------------------------------------------- the client port


def test_call_is_handed_over_and_ends_with_its_reply():
    async def application(port):
        driver.note(await port.call("consumer.poll", 100))

    driver = Driver(application)
    driver.run()
    assert driver.calls == [Call(1, "consumer.poll", (100,))]
    driver.reply(1, "records")
    assert driver.log == [(0, "records")]


def test_reply_with_an_error_raises_it():
    async def application(port):
        with pytest.raises(OSError, match="refused"):
            await port.call("producer.send")
        driver.note("refused")

    driver = Driver(application)
    driver.run()
    driver.reply(1, error=OSError("refused"))
    assert driver.log == [(0, "refused")]


def test_acknowledged_call_has_two_futures():
    async def application(port):
        taken, acked = port.call_acked("producer.send", "orders")
        driver.note(await taken)
        driver.note(await acked)

    driver = Driver(application)
    driver.run()
    driver.reply(1)
    driver.reply(-1, (0, 7))
    assert driver.log == [(0, None), (0, (0, 7))]


def test_call_that_is_not_taken_is_never_acknowledged():
    async def application(port):
        _, acked = port.call_acked("producer.send", "orders")
        with pytest.raises(OSError, match="buffer"):
            await acked
        driver.note("refused")

    driver = Driver(application)
    driver.run()
    driver.reply(1, error=OSError("buffer"))
    assert driver.log == [(0, "refused")]


def test_error_that_nobody_awaits_is_no_failure():
    async def application(port):
        port.call("producer.send")

    driver = Driver(application)
    driver.run()
    driver.reply(1, error=OSError("late"))
    gc.collect()
    driver.apps.release()
    assert driver.log == []


def test_posted_call_needs_no_reply():
    async def application(port):
        port.post("consumer.commit_async")
        port.post("producer.flush")

    driver = Driver(application)
    driver.run()
    driver.reply(2, error=OSError("ignored"))
    assert driver.calls == [Call(1, "consumer.commit_async", ()), Call(2, "producer.flush", ())]


def test_reply_after_the_caller_gave_up_is_dropped():
    async def application(port):
        try:
            async with asyncio.timeout(1):
                await port.call("consumer.poll")
        except TimeoutError:
            driver.note("gave up")

    driver = Driver(application)
    driver.run()
    driver.reply(1, "records")
    assert driver.log == [(SECOND, "gave up")]


def test_synchronous_reply_is_taken_up_in_the_same_run():
    async def application(port):
        for _ in range(3):
            driver.note(await port.call("consumer.position"))

    driver = Driver(application)
    driver.apps.port._submit = lambda call: driver.apps.on_reply(Reply(call.call, 5, None))
    driver.apps.run(0)
    assert driver.log == [(0, 5), (0, 5), (0, 5)]


def test_application_records_facts():
    async def application(port):
        port.record(HostResumed())

    driver = Driver(application)
    driver.run()
    assert driver.facts == [HostResumed()]


# ------------------------------------------------------------------------------------------ crashes


async def with_finally(driver, wait):
    try:
        driver.note("start")
        await wait()
    finally:
        driver.note("finally")
        await asyncio.sleep(1)


def crashed(wait):
    """Return a driver whose application was discarded while it waited, all references dropped."""
    driver = Driver()
    driver.apps.start(lambda port: with_finally(driver, lambda: wait(port)))
    driver.run(until=0)
    driver.apps.discard()
    return driver


@pytest.mark.parametrize(
    "wait",
    [
        lambda _: asyncio.sleep(9),
        lambda port: port.call("consumer.poll"),
        lambda _: asyncio.gather(asyncio.sleep(9), asyncio.Event().wait()),
        lambda _: asyncio.wait_for(asyncio.Queue().get(), 9),
    ],
)
def test_crash_runs_no_finally_and_collecting_neither(wait):
    driver = crashed(wait)
    log = driver.log
    del driver.apps
    gc.collect()
    assert log == [(0, "start")]


def test_discarded_application_is_deaf():
    driver = crashed(lambda port: port.call("consumer.poll"))
    driver.apps.on_reply(Reply(1, "records", None))
    driver.apps.run(9 * SECOND)
    assert (driver.log, driver.apps.next_deadline()) == ([(0, "start")], None)


def test_release_frees_what_was_discarded_without_warnings():
    driver = crashed(lambda _: asyncio.sleep(9))
    driver.apps.release()
    gc.collect()
    assert driver.apps.loop not in loop_module._discarded


def test_task_that_never_started_is_discarded_silently():
    driver = Driver(lambda _: asyncio.sleep(1))
    driver.apps.discard()
    driver.apps.release()
    gc.collect()
    assert driver.log == []


def test_step_that_ends_its_own_process_goes_on_unheard():
    async def application(port):
        driver.apps.discard()
        port.post("consumer.close")
        port.record(HostResumed())
        await asyncio.sleep(0)
        driver.note("unreachable")

    driver = Driver(application)
    driver.run()
    assert (driver.calls, driver.facts, driver.log) == ([], [], [])


# ----------------------------------------------------------------------------------------- failures


def test_failure_of_an_application_ends_the_run():
    async def application(_):
        await asyncio.sleep(1)
        raise ValueError("orders")

    driver = Driver(application)
    with pytest.raises(ValueError, match="orders"):
        driver.run()


def test_failure_of_a_task_that_nobody_awaited_is_raised_at_the_end():
    async def fail():
        raise ValueError("orders")

    async def application(_):
        driver.task = asyncio.create_task(fail())
        await asyncio.sleep(1)

    driver = Driver(application)
    driver.run()
    with pytest.raises(ValueError, match="orders"):
        driver.apps.release()


def test_failure_that_was_awaited_is_the_applications_own():
    async def fail():
        raise ValueError("orders")

    async def application(driver):
        with pytest.raises(ValueError, match="orders"):
            await asyncio.create_task(fail())
        driver.note("caught")

    assert run(application) == [(0, "caught")]


def test_spinning_application_is_stopped(monkeypatch):
    monkeypatch.setattr(loop_module, "STEPS_MAX", 1000)

    async def application(_):
        while True:
            await asyncio.sleep(0)

    with pytest.raises(RuntimeError, match="consumer-1: an application spins without waiting"):
        Driver(application).run()


def audited_since(*version):
    """Skip where Python has no audit event for it yet."""
    return pytest.mark.skipif(sys.version_info < version, reason=f"audited since {version}")


@pytest.mark.parametrize(
    ("forbidden", "named"),
    [
        pytest.param(lambda: time.sleep(0), "await asyncio.sleep", marks=audited_since(3, 13)),
        pytest.param(threading.Thread(target=int).start, "a thread", marks=audited_since(3, 12)),
        (lambda: socket.socket(), "a socket"),
        (lambda: subprocess.Popen(["true"]), "a subprocess"),
        (lambda: asyncio.get_running_loop().run_in_executor(None, print), r"run_in_executor\(\)"),
        (lambda: asyncio.get_running_loop().call_soon_threadsafe(print), "call_soon_threadsafe"),
        (lambda: asyncio.get_running_loop().add_reader(0, print), r"loop\.add_reader\(\)"),
    ],
)
def test_real_things_are_refused(forbidden, named):
    async def application(_):
        with pytest.raises(NotSimulated, match=f"^an application cannot use .*{named}"):
            forbidden()

    run(application)


@pytest.mark.parametrize(
    "forbidden", [lambda: asyncio.to_thread(print), lambda: asyncio.open_connection("localhost", 1)]
)
def test_real_waits_are_refused(forbidden):
    async def application(_):
        with pytest.raises(NotSimulated):
            await forbidden()

    run(application)


def test_real_things_work_outside_of_applications():
    async def application(_):
        await asyncio.sleep(1)

    run(application)
    time.sleep(0)
    thread = threading.Thread(target=int)
    thread.start()
    thread.join()
    assert not thread.is_alive()


def test_outer_loop_is_left_as_it_was():
    async def outer():
        async def application(driver):
            driver.note(await asyncio.sleep(1, "inner"))

        task = asyncio.current_task()
        loop = asyncio.get_running_loop()
        driver = Driver()
        driver.apps.start(lambda _: application(driver))
        driver.run()
        return driver.log, asyncio.get_running_loop() is loop, asyncio.current_task() is task

    assert asyncio.run(outer()) == ([(SECOND, "inner")], True, True)


def test_every_method_of_an_event_loop_is_there_or_refused():
    inherited = [
        name
        for name in dir(asyncio.AbstractEventLoop)
        if not name.startswith("__")
        and getattr(loop_module.HostLoop, name) is getattr(asyncio.AbstractEventLoop, name)
    ]
    assert inherited == []


# --------------------------------------------------------------------------------------- on a host


class Echo(Process):
    """A client process that answers every call with its arguments."""

    def on_call(self, item, now):
        self.out.append(Reply(item.call, item.args, None))


def test_application_lives_and_dies_with_its_host():
    async def application(port):
        try:
            log.append((await port.call("echo", 7), port.now_us))
            await asyncio.sleep(1)
            log.append("tick")
            await asyncio.sleep(100)
        finally:
            log.append("finally")

    log = []
    world = World(1, Trace())
    host = world.add_host("consumer-1", clock_offset_us=5)
    host.on_start.append(lambda started: launch(started, application))
    host.start(lambda files, rng, now: Echo("consumer-1", files, rng, now))
    world.run(2 * SECOND)
    host.restart()
    world.run(2 * SECOND + 1000)
    host.crash()
    assert log == [((7,), 5), "tick", ((7,), 2 * SECOND + 5)]


def failing(application, process=Echo, until=3 * SECOND):
    """Run an application on a host; return what the trace has of its end, and the host."""
    ends = []
    trace = Trace()
    for kind in (ApplicationFailed, HostStopped):
        trace.subscribe(kind, lambda _, t_us, __, fact: ends.append((t_us, fact)))
    world = World(1, trace)
    host = world.add_host("consumer-1")
    host.on_start.append(lambda started: launch(started, application))
    host.start(lambda files, rng, now: process("consumer-1", files, rng, now))
    world.run(until)
    return ends, host


def line_of(function, offset):
    return f"{__name__}:{function.__code__.co_firstlineno + offset} in {function.__name__}"


def test_an_application_that_raises_ends_its_process_and_not_the_run():
    async def application(port):
        await port.call("echo", 7)
        await asyncio.sleep(1)
        raise ValueError(f"no {object()}")

    ends, host = failing(application)
    failed = ApplicationFailed(
        "consumer-1-task-1", True, "ValueError", "no <object object>", (line_of(application, 3),)
    )
    assert ends == [(SECOND, failed), (SECOND, HostStopped("application-failed"))]
    assert host.process is None
    assert host.start() is not None


def test_a_callback_that_raises_and_a_spinning_application_are_failures_too(monkeypatch):
    monkeypatch.setattr(loop_module, "STEPS_MAX", 1000)

    async def calls_back(_):
        asyncio.get_running_loop().call_later(1, int, "x")
        await asyncio.sleep(10)

    async def spins(_):
        while True:
            await asyncio.sleep(0)

    found = [failing(application)[0] for application in (calls_back, spins)]
    assert [(t, fact.exception, fact.task) for ((t, fact), _) in found] == [
        (SECOND, "ValueError", "consumer-1-callback"),
        (0, "RuntimeError", "consumer-1-callback"),
    ]


def test_an_exit_ends_the_process_of_its_application_and_not_the_simulator():
    async def leaves():
        await asyncio.sleep(1)
        sys.exit("no more orders")

    async def in_a_task(_):
        tasks.append(asyncio.create_task(leaves(), name="worker"))
        await asyncio.sleep(10)

    async def in_a_callback(_):
        asyncio.get_running_loop().call_later(1, sys.exit, 3)
        await asyncio.sleep(10)

    tasks = []
    found = [failing(application) for application in (lambda _: leaves(), in_a_task, in_a_callback)]
    assert [(at, fact.task, fact.exception, fact.reason) for ((at, fact), _), _ in found] == [
        (SECOND, "consumer-1-task-1", "SystemExit", "no more orders"),
        (SECOND, "worker", "SystemExit", "no more orders"),
        (SECOND, "consumer-1-callback", "SystemExit", "3"),
    ]
    assert [host.process for _, host in found] == [None, None, None]


@pytest.mark.parametrize("how", ["end of the run", "crash"])
def test_a_task_that_failed_unseen_is_told_when_its_application_ends(how):
    async def fail():
        raise OSError("disk")

    async def application(port):
        tasks.append(asyncio.create_task(fail(), name="worker"))
        await port.call("echo", 7)
        await asyncio.sleep(100)

    tasks = []
    ends, host = failing(application)
    assert ends == []
    fact = ApplicationFailed("worker", False, "OSError", "disk", (line_of(fail, 1),))
    if how == "crash":
        host.crash()
        assert [each for _, each in ends] == [fact, HostStopped("crash")]
    else:
        assert host.ground_truth() == [fact]
        assert host.ground_truth() == []


def test_a_bug_of_the_model_ends_the_run_though_the_application_swallows_it():
    class Broken(Process):
        def on_call(self, *_):
            raise AssertionError("a bug of the model")

    async def application(port):
        try:
            await port.call("echo", 7)
        except AssertionError:
            await asyncio.sleep(1)

    with pytest.raises(AssertionError, match="a bug of the model"):
        failing(application, Broken)


def test_a_judge_that_raises_ends_the_run():
    trace = Trace()

    def judge(*_):
        raise AssertionError("a bug of a judge")

    async def application(_):
        raise ValueError("orders")

    trace.subscribe(ApplicationFailed, judge)
    world = World(1, trace)
    host = world.add_host("consumer-1")
    host.on_start.append(lambda started: launch(started, application))
    with pytest.raises(AssertionError, match="a bug of a judge"):
        host.start(lambda files, rng, now: Echo("consumer-1", files, rng, now))
