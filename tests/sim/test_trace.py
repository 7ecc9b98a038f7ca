"""The trace: order, subscribers, digest, and the same content read back from Parquet."""

import hashlib
import os
import subprocess
import sys
from pathlib import Path

import pyarrow.parquet as pq
import pytest

from kafkasim.model.facts import (
    COLUMNS,
    ROW,
    SCHEMA_VERSION,
    Acked,
    FinalOffset,
    HostResumed,
    HostStarted,
    Polled,
    SendFailed,
)
from kafkasim.sim.trace import store
from kafkasim.sim.trace.recording import Trace
from kafkasim.sim.trace.store import ManifestError, config_digest, read_manifest, write_manifest

ROOT = Path(__file__).parents[2]

ACKED = Acked("orders-id", 0, 7, (1, 2), -1, 1000, 0, 7, 5000, 1)
FACTS = [
    (10, "broker-1", HostStarted(0)),
    (20, "producer-1", ACKED),
    (20, "consumer-1", Polled("billing", "m-1", "orders-id", 0, 9, -1, (7, 8), (1, 2))),
    (30, "broker-1", HostResumed()),
    (31, "producer-1", SendFailed("orders-id", 0, (), "REQUEST_TIMED_OUT", True, 1, 2)),
    (40, "broker-1", HostStarted(1)),
]


def record_all(trace):
    for t_us, node, fact in FACTS:
        trace.record(t_us, node, fact)


def read(directory):
    return pq.read_table(directory / store.TRACE_FILE).to_pylist()


def as_rows():
    """What the table must hold, made without the writer."""
    rows = []
    for seq, (t_us, node, fact) in enumerate(FACTS):
        row = dict.fromkeys(COLUMNS)
        row |= {"seq": seq, "t_us": t_us, "node": node, "kind": type(fact).__name__}
        for name in type(fact).__dataclass_fields__:
            found = getattr(fact, name)
            row[name] = list(found) if isinstance(found, tuple) else found
        rows.append(row)
    return rows


@pytest.mark.parametrize("batch_rows", [1, 4, 100])
def test_table_holds_every_fact_in_order(tmp_path, batch_rows):
    with Trace(tmp_path, batch_rows=batch_rows) as trace:
        record_all(trace)
    assert read(tmp_path) == as_rows()


def test_table_has_the_schema_of_the_facts_and_its_version(tmp_path):
    with Trace(tmp_path) as trace:
        record_all(trace)
    file = pq.ParquetFile(tmp_path / store.TRACE_FILE)
    assert file.schema_arrow.names == list(COLUMNS)
    assert file.metadata.metadata[b"kafkasim.schema_version"] == SCHEMA_VERSION.encode()


def test_empty_trace_is_a_table_without_rows(tmp_path):
    Trace(tmp_path).close()
    assert pq.read_table(tmp_path / store.TRACE_FILE).num_rows == 0


def test_digest_is_sha256_over_the_repr_of_the_rows():
    trace = Trace()
    record_all(trace)
    rows = [(n, t, node, type(f).__name__, ROW[type(f)](f)) for n, (t, node, f) in enumerate(FACTS)]
    text = "".join(f"{row!r}\n" for row in rows)
    assert trace.digest == hashlib.sha256(text.encode()).hexdigest()


def test_digest_does_not_depend_on_batches_nor_on_the_directory(tmp_path):
    small, large = Trace(batch_rows=2), Trace(tmp_path)
    record_all(small)
    record_all(large)
    large.close()
    assert small.digest == large.digest


def test_digest_can_be_taken_in_between():
    trace, other = Trace(), Trace()
    for t_us, node, fact in FACTS:
        trace.record(t_us, node, fact)
        assert len(trace.digest) == 64
    record_all(other)
    assert trace.digest == other.digest


def test_repeated_run_writes_the_same_bytes(tmp_path):
    contents = []
    for name in ("a", "b"):
        (tmp_path / name).mkdir()
        with Trace(tmp_path / name, batch_rows=4) as trace:
            record_all(trace)
        contents.append((tmp_path / name / store.TRACE_FILE).read_bytes())
    assert contents[0] == contents[1]


def test_subscribers_hear_their_kind_in_order_of_subscription():
    trace, heard = Trace(), []
    trace.subscribe(HostStarted, lambda *args: heard.append(("first", *args)))
    trace.subscribe(HostStarted, lambda *args: heard.append(("second", *args)))
    record_all(trace)
    first, again = HostStarted(0), HostStarted(1)
    assert heard == [
        ("first", 0, 10, "broker-1", first),
        ("second", 0, 10, "broker-1", first),
        ("first", 5, 40, "broker-1", again),
        ("second", 5, 40, "broker-1", again),
    ]


def test_subscriber_that_records_comes_behind_what_it_heard(tmp_path):
    with Trace(tmp_path, batch_rows=1) as trace:
        trace.subscribe(HostStarted, lambda *_: trace.record(11, "world", HostResumed()))
        trace.record(10, "broker-1", HostStarted(0))
        trace.record(12, "broker-1", ACKED)
    assert [(r["seq"], r["kind"]) for r in read(tmp_path)] == [
        (0, "HostStarted"),
        (1, "HostResumed"),
        (2, "Acked"),
    ]


def test_unsubscribed_callback_hears_nothing():
    trace, heard = Trace(), []

    def callback(*args):
        heard.append(args)

    trace.subscribe(HostStarted, callback)
    trace.unsubscribe(HostStarted, callback)
    record_all(trace)
    assert heard == []


def test_only_facts_can_be_subscribed_and_recorded():
    trace = Trace()
    with pytest.raises(KeyError):
        trace.subscribe(int, print)
    with pytest.raises(KeyError):
        trace.record(0, "broker-1", 7)


@pytest.mark.parametrize(
    ("fact", "named"),
    [
        (HostStarted(True), "HostStarted.incarnation must be int64, is True"),
        (HostStarted("0"), "HostStarted.incarnation must be int64, is '0'"),
        (FinalOffset("g", "orders", 0, None), "FinalOffset.offset must be int64, is None"),
        (Polled("g", "m", "id", 0, 1, 1, [7], (1,)), "Polled.offsets must be list<int64>, is .7."),
        (Polled("g", "m", "id", 0, 1, 1, (7,), ("1",)), "Polled.record_ids must be list<int64>"),
    ],
)
def test_value_of_another_type_is_named(fact, named):
    trace = Trace(check_types=True)
    trace.record(0, "broker-1", fact)
    with pytest.raises(AssertionError, match=named):
        trace.close()


def test_unchecked_value_of_another_type_is_named_by_the_writer(tmp_path):
    trace = Trace(tmp_path, check_types=False)
    trace.record(0, "broker-1", HostStarted("first"))
    with pytest.raises(TypeError, match=r"HostStarted.incarnation must be int64"):
        trace.close()


# ------------------------------------------------------------------------------------- manifest

MANIFEST = dict.fromkeys(store.MANIFEST_KEYS, "x") | {
    "seed": 7, "rows": 3, "variants": [], "schema_version": SCHEMA_VERSION,
}  # fmt: skip


def test_manifest_is_read_back(tmp_path):
    write_manifest(tmp_path, MANIFEST)
    assert read_manifest(str(tmp_path)) == MANIFEST
    assert os.listdir(tmp_path) == [store.MANIFEST_FILE]


def test_manifest_without_a_key_is_not_written(tmp_path):
    with pytest.raises(ValueError, match="lacks scenario, seed"):
        write_manifest(
            tmp_path, {k: v for k, v in MANIFEST.items() if k not in ("scenario", "seed")}
        )
    assert os.listdir(tmp_path) == []


@pytest.mark.parametrize(
    ("content", "reason"),
    [
        (None, "the run never finished"),
        ("{", "is no JSON"),
        ("[]", "is no JSON object"),
        ('{"seed": 7}', "lacks scenario"),
    ],
)
def test_unusable_manifest_is_one_error_that_names_the_file(tmp_path, content, reason):
    path = tmp_path / store.MANIFEST_FILE
    if content is not None:
        path.write_text(content)
    with pytest.raises(ManifestError, match=reason) as caught:
        read_manifest(tmp_path)
    assert str(caught.value).startswith(f"{path}: ")
    assert "\n" not in str(caught.value)


def test_manifest_of_another_schema_is_refused(tmp_path):
    write_manifest(tmp_path, MANIFEST | {"schema_version": "old"})
    with pytest.raises(ManifestError, match="has schema version old, this code "):
        read_manifest(tmp_path)


def test_errors_rebuild_from_their_arguments():
    error = ManifestError("dir/manifest.json", "is no JSON")
    assert str(type(error)(*error.args)) == str(error)


def test_timing_is_no_part_of_the_manifest(tmp_path):
    store.write_timing(tmp_path, {"wall_s": 1.5})
    assert (tmp_path / store.TIMING_FILE).read_text() == '{\n  "wall_s": 1.5\n}\n'


def test_config_digest_ignores_the_order_of_keys():
    assert config_digest({"a": 1, "b": [2]}) == config_digest({"b": [2], "a": 1})
    assert config_digest({"a": 1}) != config_digest({"a": 2})


def test_sources_digest_changes_with_names_and_contents(tmp_path):
    def digest():
        return store.sources_digest(tmp_path, ("model",))

    seen = [digest()]
    (tmp_path / "model").mkdir()
    for name, content in [("a.py", "1"), ("a.py", "2"), ("b.toml", ""), ("cache.pyc", "x")]:
        (tmp_path / "model" / name).write_text(content)
        seen.append(digest())
    assert [seen.index(d) for d in seen] == [0, 1, 2, 3, 3]


def test_code_version_is_cached_and_hexadecimal():
    assert int(store.code_version(), 16) >= 0
    assert store.code_version() is store.code_version()


HASHED = """
import sys
sys.path.insert(0, sys.argv[1])
from kafkasim.model.facts import TopicCreated
from kafkasim.sim.trace.recording import Trace
trace = Trace()
trace.record(1, "controller-1", TopicCreated(1, "orders-id", "orders", 3, 3, 2))
print(trace.digest)
"""


def test_digest_is_the_same_under_another_hash_seed():
    digests = []
    for seed in ("1", "2"):
        command = [sys.executable, "-c", HASHED, str(ROOT)]
        environment = {**os.environ, "PYTHONHASHSEED": seed}
        digests.append(subprocess.run(command, stdout=-1, env=environment, check=True).stdout)
    assert digests[0] == digests[1]
