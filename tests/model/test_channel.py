"""The client side of a connection: opening, answers, timeouts, backoff."""

from __future__ import annotations

import random
from typing import Any

import pytest

from kafkasim.model.channel import Channel, Failed
from kafkasim.model.effects import Close, Closed, Open, Opened, OpenFailed, Process, Response, Send
from kafkasim.model.storage.files import MemoryFiles

ADDRESS = "broker-2"


class Peer:
    """A process with one channel, and a log of what its callbacks were told."""

    def __init__(self, patient: bool = False, queued: bool = False) -> None:
        self.process = Process("p", MemoryFiles(), random.Random(1), 0)
        self.channel = Channel(self.process, ADDRESS, "test", "main", 1000, patient, queued)
        self.log: list[tuple[Any, int]] = []

    def send(self, message: str, now: int) -> None:
        self.channel.send(message, now, lambda answer, at: self.log.append((answer, at)))

    def effects(self) -> list[Any]:
        effects = list(self.process.out)
        self.process.out.clear()
        return effects

    def fire(self, now: int) -> None:
        while (due := self.process.timers.pop_due(now)) is not None:
            self.process.timers.fire(due[0], due[1], now)


@pytest.fixture
def peer() -> Peer:
    return Peer()


def test_the_first_send_opens_and_what_waited_is_sent_in_order(peer: Peer) -> None:
    peer.send("a", 0)
    peer.send("b", 1)
    assert peer.effects() == [Open(1, ADDRESS, "test", "main")]
    peer.process.handle(Opened(1), 5)
    peer.send("c", 6)
    assert peer.effects() == [Send(1, 1, "a"), Send(1, 2, "b"), Send(1, 3, "c")]


def test_an_answer_goes_to_its_request_once(peer: Peer) -> None:
    peer.send("a", 0)
    peer.process.handle(Opened(1), 5)
    peer.process.handle(Response(1, 1, "A"), 9)
    peer.process.handle(Response(1, 1, "again"), 10)
    assert peer.log == [("A", 9)]


def test_the_timer_of_an_answered_request_finds_nothing_to_do(peer: Peer) -> None:
    peer.send("a", 0)
    peer.process.handle(Opened(1), 5)
    peer.process.handle(Response(1, 1, "A"), 9)
    peer.effects()
    peer.fire(1_000_000)
    assert (peer.effects(), peer.process.timers.next_deadline()) == ([], None)


def test_an_idle_timer_does_not_shorten_the_next_request(peer: Peer) -> None:
    peer.send("a", 0)
    peer.process.handle(Opened(1), 5)
    peer.process.handle(Response(1, 1, "A"), 9)
    peer.send("b", 600_000)
    peer.fire(1_000_000)
    assert peer.log == [("A", 9)]
    peer.fire(1_600_000)
    assert peer.log[1:] == [(Failed("timeout"), 1_600_000)]


def test_a_lost_connection_fails_all_in_flight(peer: Peer) -> None:
    peer.send("a", 0)
    peer.send("b", 0)
    peer.process.handle(Opened(1), 5)
    peer.process.handle(Closed(1, "reset"), 7)
    assert peer.log == [(Failed("reset"), 7), (Failed("reset"), 7)]


def test_a_request_without_an_answer_closes_the_connection(peer: Peer) -> None:
    peer.send("a", 0)
    peer.process.handle(Opened(1), 5)
    peer.effects()
    peer.fire(999_999)
    assert peer.log == []
    peer.fire(1_000_000)
    assert (peer.effects(), peer.log) == ([Close(1)], [(Failed("timeout"), 1_000_000)])
    peer.process.handle(Response(1, 1, "late"), 1_000_001)
    assert len(peer.log) == 1


def test_a_send_during_the_backoff_fails_but_not_from_inside(peer: Peer) -> None:
    peer.send("a", 0)
    peer.process.handle(OpenFailed(1, "refused"), 10)
    assert peer.log == [(Failed("refused"), 10)]
    assert not peer.channel.ready(11)
    peer.send("b", 11)
    assert len(peer.log) == 1
    peer.fire(11)
    assert peer.log[1:] == [(Failed("backoff"), 11)]
    assert peer.channel.ready(10 + 60_000)


def test_a_patient_channel_waits_for_the_backoff() -> None:
    peer = Peer(patient=True)
    peer.send("a", 0)
    peer.process.handle(OpenFailed(1, "refused"), 10)
    peer.effects()
    peer.send("b", 11)
    assert peer.effects() == []
    peer.fire(10 + 60_000)
    assert peer.effects() == [Open(2, ADDRESS, "test", "main")]


def test_a_queued_request_fails_alone_while_the_connection_is_opened() -> None:
    peer = Peer(queued=True)  # InterBrokerSendThread.failExpiredRequests
    peer.send("a", 0)
    peer.send("b", 400_000)
    peer.fire(1_000_000)
    assert (peer.log, len(peer.effects())) == ([(Failed("timeout"), 1_000_000)], 1)
    peer.process.handle(Opened(1), 1_200_000)
    peer.send("c", 1_200_000)
    assert peer.effects() == [Send(1, 2, "b"), Send(1, 3, "c")]
    peer.fire(1_400_000)  # "b" was sent, so it ends the connection
    assert peer.effects() == [Close(1)]


def test_a_timeout_shorter_than_the_backoff_does_not_begin_it_anew() -> None:
    peer = Peer(patient=True, queued=True)
    peer.send("a", 0)
    peer.process.handle(OpenFailed(1, "refused"), 1)
    for _ in range(5):
        peer.process.handle(OpenFailed(peer.channel.connection or 1, "refused"), 1)
        peer.send("b", 1)
    begins = peer.channel.not_before
    peer.channel.request_timeout_us = 100_000
    for now in range(1, begins, 200_000):
        peer.send("c", now)
        peer.fire(now + 100_000)
    assert peer.channel.not_before == begins
    peer.fire(begins)
    assert Open(peer.channel.connection or 0, ADDRESS, "test", "main") == peer.effects()[-1]


def test_a_blocking_sender_gives_up_the_connection_with_its_request(peer: Peer) -> None:
    # BrokerBlockingSender.sendRequest closes it.
    peer.send("a", 0)
    peer.fire(1_000_000)
    assert peer.effects() == [Open(1, ADDRESS, "test", "main"), Close(1)]
    assert peer.log == [(Failed("timeout"), 1_000_000)]


def test_closing_fails_what_is_in_flight(peer: Peer) -> None:
    peer.send("a", 0)
    peer.effects()
    peer.channel.close(3)
    peer.channel.close(4)
    assert (peer.effects(), peer.log) == ([Close(1)], [(Failed("closed"), 3)])


def test_the_backoff_doubles_up_to_its_limit(peer: Peer) -> None:
    waits = []
    now = 0
    for connection in range(1, 9):
        peer.send("a", now)
        peer.process.handle(OpenFailed(connection, "refused"), now)
        wait = next(w for w in range(0, 1_300_000, 1000) if peer.channel.ready(now + w))
        waits.append(wait)
        now += wait
    centers = [50, 100, 200, 400, 800, 1000, 1000, 1000]
    limits = [(0.8 * center, min(1.2 * center, 1000) + 1) for center in centers]
    assert [low <= w / 1000 <= high for w, (low, high) in zip(waits, limits)] == [True] * 8


def test_its_owner_hears_of_the_opening_after_the_sends_and_of_the_loss_after_the_failures() -> (
    None
):
    peer = Peer()
    log = peer.log
    channel = Channel(
        peer.process,
        ADDRESS,
        "test",
        "main",
        1000,
        on_open=lambda now: log.append((f"open, {len(peer.process.out)} effects", now)),
        on_drop=lambda now: log.append(("dropped", now)),
    )
    peer.channel = channel
    peer.send("a", 0)
    peer.process.handle(Opened(1), 5)
    peer.process.handle(Closed(1, "reset"), 9)
    assert log == [("open, 2 effects", 5), (Failed("reset"), 9), ("dropped", 9)]


def test_connect_opens_once_and_not_during_the_backoff(peer: Peer) -> None:
    assert peer.channel.connect(0)
    assert peer.channel.connect(1)
    assert peer.effects() == [Open(1, ADDRESS, "test", "main")]
    peer.process.handle(OpenFailed(1, "refused"), 5)
    assert not peer.channel.connect(6)
    assert peer.channel.connect(peer.channel.not_before)


def test_a_request_may_have_a_timeout_of_its_own(peer: Peer) -> None:
    peer.channel.send("a", 0, lambda answer, at: peer.log.append((answer, at)), 3_000_000)
    peer.process.handle(Opened(1), 5)
    peer.fire(1_000_000)
    assert peer.log == []
    peer.fire(3_000_000)
    assert peer.log == [(Failed("timeout"), 3_000_000)]


def test_a_long_timeout_does_not_lengthen_that_of_the_next_request(peer: Peer) -> None:
    """InFlightRequests.hasExpiredRequest asks each request, as after a JoinGroup a SyncGroup."""
    peer.channel.send("join", 0, lambda answer, at: peer.log.append((answer, at)), 300_000_000)
    peer.process.handle(Opened(1), 5)
    peer.process.handle(Response(1, 1, "joined"), 9)
    peer.send("sync", 10)
    peer.fire(1_000_010)
    assert peer.log == [("joined", 9), (Failed("timeout"), 1_000_010)]


def test_the_first_of_two_requests_may_have_the_longer_timeout(peer: Peer) -> None:
    peer.channel.send("join", 0, lambda answer, at: peer.log.append((answer, at)), 300_000_000)
    peer.process.handle(Opened(1), 5)
    peer.send("heartbeat", 10)
    peer.fire(1_000_010)
    assert peer.log == [(Failed("timeout"), 1_000_010)] * 2


def test_a_request_without_response_is_not_waited_for(peer: Peer) -> None:
    peer.channel.connect(0)
    peer.process.handle(Opened(1), 5)
    peer.channel.send_unanswered("a")
    assert peer.effects()[1:] == [Send(1, 1, "a")]
    assert peer.channel.in_flight == {}


def test_an_owner_that_disposes_of_the_channel_hears_nothing(peer: Peer) -> None:
    peer.send("a", 0)
    peer.process.handle(Opened(1), 5)
    peer.effects()
    peer.channel.dispose()
    assert (peer.effects(), peer.log, peer.process.channels) == ([Close(1)], [], {})


def test_the_backoff_follows_its_settings() -> None:
    peer = Peer()
    peer.channel = Channel(
        peer.process, ADDRESS, "test", "main", 1000, reconnect_backoff_ms=(200, 300)
    )
    waits = []
    now = 0
    for connection in (1, 2, 3):
        peer.send("a", now)
        peer.process.handle(OpenFailed(connection, "refused"), now)
        waits.append(peer.channel.not_before - now)
        now = peer.channel.not_before
    for wait, expected in zip(waits, (200_000, 300_000, 300_000)):
        assert 0.8 * expected <= wait <= 1.2 * expected, waits


@pytest.mark.parametrize(("least", "most"), [(200, 200), (300, 200)])
def test_a_backoff_that_cannot_grow_has_no_jitter(least: int, most: int) -> None:
    """ExponentialBackoff: the longest wait is also the first one."""
    peer = Peer()
    peer.channel = Channel(
        peer.process, ADDRESS, "test", "main", 1000, reconnect_backoff_ms=(least, most)
    )
    now = 0
    for connection in (1, 2, 3):
        peer.send("a", now)
        peer.process.handle(OpenFailed(connection, "refused"), now)
        assert peer.channel.not_before - now == 200_000
        now = peer.channel.not_before
