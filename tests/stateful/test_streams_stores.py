"""Stores and their caches hold what a dictionary would, whatever is evicted or flushed between.

A windowed store also forgets what is older than its retention, by the largest timestamp written.
"""

from __future__ import annotations

from hypothesis import given, settings
from hypothesis import strategies as st

from kafkasim.model.streams.processors.rules import OperatorRules
from kafkasim.model.streams.records import RecordContext, ValueAndTimestamp, Windowed
from kafkasim.model.streams.stores import ThreadCache, make_store
from kafkasim.model.streams.topology import StoreKind, StoreSpec

RETENTION_MS = 100_000  # segments are a minute long, their least length
KEYS = st.sampled_from("abc")
VALUES = st.one_of(st.none(), st.integers(0, 9))
TIMES = st.integers(0, 400).map(lambda step: step * 1000)
CACHES = st.sampled_from((None, 60, 300, 100_000))  # bytes: none, one entry, some, all


class Log:
    """The context of a store; the last value that it logged of each key."""

    rules = OperatorRules()
    record_context: RecordContext | None = None

    def __init__(self) -> None:
        self.last: dict[object, object] = {}
        self.refused = 0

    def set_record_context(self, context: RecordContext | None) -> None:
        """Take another record for the one that is processed."""
        self.record_context = context

    def log(self, store: str, key: object, value: object, timestamp: int | None) -> None:
        """Keep what is logged."""
        self.last[key] = value

    def expired(self) -> None:
        """Count a write that is too old."""
        self.refused += 1


@settings(max_examples=60)
@given(CACHES, st.lists(st.one_of(st.tuples(KEYS, VALUES), st.just("flush"))))
def test_a_key_value_store_is_a_dictionary(
    cache: int | None, steps: list[tuple[str, int | None] | str]
) -> None:
    log = Log()
    spec = StoreSpec("s", StoreKind.KEY_VALUE, cached=True)
    inner, store = make_store(spec, log, ThreadCache(cache) if cache else None)
    known: dict[str, ValueAndTimestamp] = {}
    for number, step in enumerate(steps):
        if not isinstance(step, tuple):
            if cache:
                store.flush()
            continue
        key, value = step
        entry = None if value is None else ValueAndTimestamp(value, number)
        store.put(key, entry)
        known.pop(key, None)
        if entry is not None:
            known[key] = entry
        assert [store.get(each) for each in "abc"] == [known.get(each) for each in "abc"]
    assert store.all() == sorted(known.items())
    if cache:
        store.flush()
    assert inner.entries == known
    logged = {key: value for key, value in log.last.items() if value is not None}
    assert logged == {key: entry.value for key, entry in known.items()}


@settings(max_examples=60)
@given(CACHES, st.lists(st.tuples(KEYS, VALUES, TIMES)), TIMES, TIMES)
def test_a_window_store_is_a_dictionary_that_forgets(
    cache: int | None, writes: list[tuple[str, int | None, int]], first: int, last: int
) -> None:
    spec = StoreSpec("s", StoreKind.WINDOW, RETENTION_MS, 1000, cached=True)
    _, store = make_store(spec, Log(), ThreadCache(cache) if cache else None)
    known: dict[tuple[str, int], ValueAndTimestamp | None] = {}
    observed = -1
    for key, value, start in writes:
        store.put(key, None if value is None else ValueAndTimestamp(value, start), start)
        observed = max(observed, start)
        known[key, start] = None if value is None else ValueAndTimestamp(value, start)
    if cache:
        store.flush()
        store.clear_cache()  # what is cached is seen for longer
    oldest = observed - RETENTION_MS + 1
    for key in "abc":
        expected = [
            (start, entry)
            for (of, start), entry in sorted(known.items())
            if of == key and max(first, oldest) <= start <= last and entry is not None
        ]
        assert store.fetch(key, first, last) == expected


@settings(max_examples=60)
@given(CACHES, st.lists(st.tuples(KEYS, VALUES, TIMES, TIMES)))
def test_a_session_store_is_a_dictionary_that_forgets(
    cache: int | None, writes: list[tuple[str, int | None, int, int]]
) -> None:
    spec = StoreSpec("s", StoreKind.SESSION, RETENTION_MS, cached=True)
    _, store = make_store(spec, Log(), ThreadCache(cache) if cache else None)
    known: dict[Windowed, int] = {}
    observed = -1
    for key, value, one, other in writes:
        session = Windowed(key, min(one, other), max(one, other), session=True)
        observed = max(observed, session.end)  # a deletion counts, too
        if value is None:
            store.remove(session)
            known.pop(session, None)
        else:
            store.put(session, value)
            known[session] = value
    if cache:
        store.flush()
        store.clear_cache()
    kept = {session: value for session, value in known.items()
            if session.end > observed - RETENTION_MS}  # fmt: skip
    found = [pair for key in "abc" for pair in store.find_sessions(key, 0, 1 << 40)]
    by_end = sorted(kept.items(), key=lambda each: (each[0].key, each[0].end, each[0].start))
    assert found == by_end
