"""A user's application on simulated clients: what it may do, what it sees, what is refused."""

from __future__ import annotations

import json
import tomllib
from pathlib import Path
from textwrap import dedent

import pytest

import kafkasim
from kafkasim.scenarios import cli
from kafkasim.scenarios.language import library
from kafkasim.scenarios.language.spec import ScenarioError

BILLING = Path(__file__).parents[1] / "example_project" / "billing.py"
CRASH = "consumer-crash-rebalance"
SCENARIO = {
    "name": "own-application",
    "claim": "An application runs on the simulated clients.",
    "duration": "6s",
    "cluster": {
        "brokers": 1,
        "controllers": 1,
        "config": {"offsets.topic.replication.factor": 1, "group.initial.rebalance.delay.ms": 0},
    },
    "topics": [{"name": "orders"}, {"name": "receipts"}],
    "workload": [
        {"kind": "producer", "topic": "orders", "rate": "20/s", "stop": "3s"},
        {"kind": "consumer-group", "topics": ["orders"], "config": {"heartbeat.interval.ms": 500}},
    ],
    "expect": {"permits": ["duplicate"]},
}


def run(app: str, seed: int = 1, **settings: object) -> kafkasim.Outcome:
    return kafkasim.run(SCENARIO, seed=seed, settings={"workload.1.app": app, **settings})


@pytest.fixture
def write(tmp_path: Path):
    def written(body: str, name: str = "app") -> str:
        path = tmp_path / f"{name}.py"
        path.write_text(dedent(body))
        return str(path)

    return written


def body_of_main(*lines: str) -> str:
    """Return an application that does some things and then reads its topic."""
    return "\n".join(
        [
            "import asyncio",
            "from aiokafka import AIOKafkaConsumer, AIOKafkaProducer",
            "async def main():",
            *[f"    {line}" for line in lines],
            "    async with AIOKafkaConsumer('orders', auto_offset_reset='earliest') as orders:",
            "        async for order in orders:",
            "            pass",
        ]
    )


def test_an_application_reads_what_the_producer_wrote(write) -> None:
    outcome = run(write(body_of_main("pass")))
    assert outcome.verdict == "pass"
    assert outcome.facts("Processed").num_rows > 0


def test_a_commit_before_the_effect_loses_records_and_a_commit_after_it_does_not() -> None:
    settings = {"workload.1.app": f"{BILLING}:commit_first"}
    assert kafkasim.run(CRASH, settings=settings).anomalies == ["skipped-by-commit"]
    settings = {"workload.1.app": str(BILLING)}
    assert kafkasim.run(CRASH, settings=settings).verdict != "fail"


@pytest.mark.parametrize("seed", [0, 1, 2])
def test_transactions_give_each_order_one_receipt_when_a_member_crashes(seed: int) -> None:
    scenario = tomllib.loads(library.path(CRASH).read_text())
    scenario["topics"].append({"name": "receipts", "partitions": 3, "replication-factor": 3})
    scenario["workload"][1]["app"] = f"{BILLING}:exactly_once"
    outcome = kafkasim.run(scenario, seed=seed)
    assert outcome.verdict != "fail", outcome.explain()
    kinds = ("TransactionBegun", "TransactionSent", "TransactionEnded")
    rows = sorted(
        (row["seq"], kind, row) for kind in kinds for row in outcome.facts(kind).to_pylist()
    )
    receipts, sent = 0, dict.fromkeys(("consumer-1", "consumer-2", "consumer-3"), 0)
    for _, kind, row in rows:  # a process that crashed has sent what no commit counts
        if kind == "TransactionEnded":
            receipts += sent[row["node"]] if row["outcome"] == "committed" else 0
        sent[row["node"]] = sent[row["node"]] + 1 if kind == "TransactionSent" else 0
    final = outcome.facts("FinalOffset").to_pylist()
    offsets = {row["partition"]: row["offset"] for row in final}
    assert receipts == sum(offsets.values()) > 300


def test_an_application_writes_records_with_keys_values_and_headers(write) -> None:
    app = write(
        """
        from aiokafka import AIOKafkaConsumer, AIOKafkaProducer
        from aiokafka.structs import TopicPartition

        async def main():
            async with AIOKafkaProducer(value_serializer=str.encode) as receipts:
                place = await receipts.send_and_wait(
                    "receipts", "paid", key=b"k", headers=[("kind", b"receipt")])
                assert (place.topic, place.partition, place.offset) == ("receipts", 0, 0), place
                await receipts.send("receipts", None, partition=0)
            reader = AIOKafkaConsumer(auto_offset_reset="earliest", value_deserializer=bytes.decode)
            await reader.start()
            reader.assign([TopicPartition("receipts", 0)])
            first, second = await reader.getone(), await reader.getone()
            assert (first.value, first.key, first.headers) == (
                "paid", b"k", (("kind", b"receipt"),)), first
            assert (second.value, second.key, second.offset) == (None, None, 1), second
            reader.seek(TopicPartition("receipts", 0), 0)
            assert (await reader.getone()).offset == 0
            await reader.commit({TopicPartition("receipts", 0): 1})
            assert await reader.committed(TopicPartition("receipts", 0)) == 1
            assert await reader.position(TopicPartition("receipts", 0)) == 1
            await reader.stop()
            async with AIOKafkaConsumer("orders", auto_offset_reset="earliest") as orders:
                async for order in orders:
                    assert order.value.decode().isdigit()
        """
    )
    assert run(app).verdict == "expected"  # duplicate: the seek


def test_an_application_forgets_waits_or_is_called_back(write) -> None:
    app = write(
        """
        import asyncio
        from aiokafka import AIOKafkaProducer
        from aiokafka.errors import KafkaError, MessageSizeTooLargeError

        async def main():
            heard = []
            async with AIOKafkaProducer(enable_idempotence=False, acks=1) as receipts:
                for number in range(3):
                    await receipts.send("receipts", b"forgotten")
                assert (await receipts.send_and_wait("receipts", b"waited for")).offset == 3
                for value in (b"short", b"l" * 500):
                    answer = await receipts.send("receipts", value)
                    assert not answer.done()
                    answer.add_done_callback(heard.append)
                    await asyncio.sleep(1)
            stored, refused = heard
            assert stored.result().offset == 4
            assert isinstance(refused.exception(), KafkaError)
            assert type(refused.exception()) is MessageSizeTooLargeError
            assert (refused.exception().errno, refused.exception().retriable) == (10, False)
            assert refused.exception().code == "MESSAGE_TOO_LARGE", refused
            await asyncio.sleep(100)
        """
    )
    outcome = run(app, **{"topics.1.config": {"max.message.bytes": 300}})
    assert outcome.facts("ApplicationFailed").num_rows == 0, outcome.explain()


def test_time_and_chance_are_those_of_the_run(write) -> None:
    app = write(
        """
        import datetime, os, random, secrets, time, uuid
        from random import choice
        from aiokafka import AIOKafkaConsumer, AIOKafkaProducer

        async def main():
            before = time.monotonic()
            told = [time.time(), datetime.datetime.now().isoformat(), str(datetime.date.today()),
                    random.random(), choice(range(1000)), str(uuid.uuid4()), secrets.token_hex(4),
                    os.urandom(4).hex(), random.Random().random(), random.Random(7).random()]
            assert time.monotonic() == before
            raise RuntimeError(str(told))
        """
    )
    told = [json.dumps(run(app, seed).facts("ApplicationFailed").to_pylist()) for seed in (1, 1, 2)]
    assert told[0] == told[1]
    assert told[0] != told[2]
    assert str(__import__("random").Random(7).random()) in told[2]


@pytest.mark.parametrize(
    ("line", "named"),
    [
        ("import time; time.sleep(1)", "time.sleep() (app.py:4)"),
        ("open('x')", "open() (app.py:4)"),
        ("import os; os.listdir()", "os.listdir() (app.py:4)"),
        ("import socket", "the module socket (app.py:4)"),
        ("import urllib.request", "the module urllib.request (app.py:4)"),
        ("import threading", "the module threading (app.py:4)"),
        ("await asyncio.to_thread(print)", "a thread"),
        ("AIOKafkaConsumer(max_pol_records=1)", "max_pol_records"),
        ("AIOKafkaConsumer(group_id='others')", "group_id 'others'"),
        ("AIOKafkaProducer(acks=7)", "acks"),
        ("await AIOKafkaProducer().send('orders', b'')", "await producer.start()"),
    ],
)
def test_what_leaves_the_simulation_or_is_wrong_is_named(write, line: str, named: str) -> None:
    outcome = run(write(body_of_main(line)))
    assert "application-failed" in outcome.anomalies
    failed = outcome.facts("ApplicationFailed").to_pylist()[0]
    assert named in failed["reason"] or "loop.run_in_executor" in failed["reason"], failed
    assert failed["traceback"][-1] == "app:4 in main"


def test_a_listener_hears_of_rebalances_and_may_commit(write) -> None:
    app = write(
        """
        from aiokafka import AIOKafkaConsumer, ConsumerRebalanceListener

        class Listener(ConsumerRebalanceListener):
            def __init__(self, consumer):
                self.consumer = consumer
                self.heard = []

            async def on_partitions_revoked(self, revoked):
                await self.consumer.commit()
                self.heard.append(("revoked", sorted(revoked)))

            def on_partitions_assigned(self, assigned):
                self.heard.append(("assigned", sorted(assigned)))

        async def main():
            consumer = AIOKafkaConsumer(auto_offset_reset="earliest", enable_auto_commit=False)
            listener = Listener(consumer)
            consumer.subscribe(["orders"], listener=listener)
            await consumer.start()
            while len(listener.heard) < 2:
                await consumer.getmany(timeout_ms=500)
            assert [kind for kind, _ in listener.heard[:2]] == ["assigned", "revoked"]
            raise RuntimeError("heard of both")
        """
    )
    settings = {"workload.1.count": 1}
    workload = [*SCENARIO["workload"], {"kind": "consumer-group", "topics": ["orders"],
                                        "start": "2s"}]  # fmt: skip
    outcome = kafkasim.run(
        {**SCENARIO, "workload": workload}, settings={"workload.1.app": app, **settings}
    )
    assert outcome.facts("ApplicationFailed").to_pylist()[0]["reason"] == "heard of both"
    assert outcome.facts("CommitResult").column("error").to_pylist() == ["NONE"]


def test_a_stop_commits_no_record_that_the_application_has_not_got(write) -> None:
    app = write(
        """
        import asyncio
        from aiokafka import AIOKafkaConsumer, TopicPartition

        async def main():
            first = AIOKafkaConsumer("orders", auto_offset_reset="earliest")
            await first.start()
            await asyncio.sleep(3)
            got = await first.getone()
            assert got.offset == 0
            await first.stop()
            async with AIOKafkaConsumer("orders", auto_offset_reset="earliest") as second:
                assert (await second.getone()).offset == 1
                async for _ in second:
                    pass
        """
    )
    assert run(app).verdict == "expected"  # duplicate: poll() had returned more than was got


def test_modules_beside_the_file_are_part_of_the_application(write) -> None:
    write("import time\nBEGUN = time.time()\n", "beside")
    app = write("import beside\n" + body_of_main("assert beside.BEGUN < 2e9, beside.BEGUN"))
    assert run(app).verdict == "pass"


@pytest.mark.parametrize(
    ("body", "function", "said"),
    [
        ("async def other(): pass", "main", "no `async def main`; it has other"),
        ("def main(): pass", "main", "it has `def main`; an application is an `async def`"),
        ("async def main(:", "main", "app.py:1: not Python"),
        ("async def main(a, b=1, *, c, d=2): pass", "main", "without arguments, but needs a, c"),
    ],
)
def test_a_file_that_is_no_application_is_refused(write, body, function, said) -> None:
    with pytest.raises(ScenarioError, match=r"app\.py") as refused:
        run(f"{write(body)}:{function}")
    assert said in str(refused.value)


def test_a_missing_file_and_a_scenario_without_clients_are_bad_input(tmp_path, capsys) -> None:
    assert cli.invoke(["run", CRASH, "--app", "nowhere.py"]) == 2
    assert "nowhere.py: cannot be read" in capsys.readouterr().err
    empty = tmp_path / "empty.toml"
    empty.write_text('name = "empty"\nclaim = "None."\nduration = "1s"\n[cluster]\n')
    assert cli.invoke(["run", str(empty), "--app", str(BILLING)]) == 2
    assert "no workload of kind consumer-group or producer" in capsys.readouterr().err


def test_the_file_that_an_application_takes_the_place_of_may_be_gone(write, tmp_path) -> None:
    group = 'kind = "consumer-group"'
    text = library.path(CRASH).read_text().replace(group, f'{group}\napp = "gone.py"')
    assert "gone.py" in text
    file = tmp_path / "crash.toml"
    file.write_text(text)
    assert cli.invoke(["run", str(file)]) == 2
    assert cli.invoke(["run", str(file), "--app", write(body_of_main("pass"))]) == 0


def test_a_stored_run_replays_as_long_as_the_file_is_the_same(write, tmp_path, capsys) -> None:
    app, out = write(body_of_main("pass")), str(tmp_path / "out")
    assert cli.invoke(["run", CRASH, "--app", app, "--out", out, "--seed", "3"]) == 0
    assert cli.invoke(["replay", out]) == 0
    write(body_of_main("await asyncio.sleep(1)"))
    assert cli.invoke(["replay", out]) == 2
    assert "was changed since the run" in capsys.readouterr().err


def test_a_group_that_jumps_past_records_is_named_although_the_run_passes(write, capsys) -> None:
    app = """
    import asyncio
    from aiokafka import AIOKafkaConsumer
    async def main():
        latest = {"auto_offset_reset": "latest", "enable_auto_commit": False}
        async with AIOKafkaConsumer("orders", **latest) as orders:
            async for order in orders:
                pass
    """
    assert cli.invoke(["run", CRASH, "--app", write(app)]) == 0
    verdict, begun, note, *_ = capsys.readouterr().out.splitlines()
    assert verdict.startswith("pass ")
    assert begun.startswith(
        "  note: at +1.110s group billing began to read orders-2 at its end, 11;"
    )
    assert note.startswith("  note: reset-past-records: at +13.111s the position of group billing")


@pytest.mark.parametrize(
    ("config", "end"),
    [
        ({}, ": auto.create.topics.enable has created it, and it is empty"),
        ({"auto.create.topics.enable": False}, ": it does not exist"),
    ],
)
def test_a_misspelt_topic_is_named(write, config: dict[str, object], end: str) -> None:
    app = write(
        """
        from aiokafka import AIOKafkaConsumer
        async def main():
            async with AIOKafkaConsumer("ordrs") as orders:
                async for order in orders:
                    pass
        """
    )
    settings = {f"cluster.config.{name}": value for name, value in config.items()}
    outcome = run(app, **settings, **{"expect.within": "20s"})
    told = "group group subscribes to topic ordrs, which is not in the scenario"
    assert outcome.anomalies == ["no-progress"]
    assert outcome.result.remarks == [f"{told}{end}"]


def test_a_stall_names_the_error_that_an_application_catches(write) -> None:
    app = write(
        """
        import asyncio
        from aiokafka import AIOKafkaProducer
        async def main():
            while True:
                try:
                    settings = {"transactional_id": "a", "transaction_timeout_ms": 1_000_000}
                    async with AIOKafkaProducer(**settings):
                        pass
                except Exception:
                    await asyncio.sleep(1)
        """
    )
    log = "cluster.config.transaction.state.log"
    settings = {f"{log}.replication.factor": 1, f"{log}.min.isr": 1, "expect.within": "20s"}
    outcome = run(app, **settings)
    assert outcome.anomalies == ["no-progress"]
    (told,) = outcome.result.remarks
    assert told == (
        "the last error that the application of consumer-1 got: [Error 50]"
        " InvalidTransactionTimeout: INVALID_TRANSACTION_TIMEOUT: InitProducerId:"
        " transaction.timeout.ms is above the broker's transaction.max.timeout.ms"
    )


def test_a_stall_names_an_application_that_has_returned(write) -> None:
    app = write(
        """
        from aiokafka import AIOKafkaConsumer
        async def main():
            orders = AIOKafkaConsumer("orders")
            await orders.start()
            await orders.getmany(timeout_ms=100)
        """
    )
    outcome = run(app, **{"expect.within": "20s"})
    assert outcome.anomalies == ["no-progress"]
    (told,) = outcome.result.remarks
    assert told == (
        "the application of consumer-1 has returned, which ends its process: it reads no more, and"
        " clients that it did not stop have not left their groups"
    )


def test_the_name_of_an_exception_is_told_once(write) -> None:
    app = write(
        """
        from aiokafka.errors import IllegalStateError
        async def main():
            raise IllegalStateError
        """
    )
    (found,) = run(app).result.findings
    assert found.text == "consumer-1: IllegalStateError, at app:4 in main"


def test_a_topic_that_only_an_application_writes_is_named(write) -> None:
    app = write(
        body_of_main(
            "async with AIOKafkaProducer() as receipts:",
            "    await receipts.send_and_wait('reciepts', b'1')",
        )
    )
    outcome = run(app, **{"cluster.config.default.replication.factor": 1})
    assert outcome.verdict == "pass"
    told, _ = outcome.result.remarks
    assert told.startswith("an application writes to topic reciepts, which is not in the scenario:")


def test_an_application_that_does_not_say_what_it_has_processed_is_named(write) -> None:
    read = body_of_main("pass")
    (told,) = run(write(read)).result.remarks
    assert told.startswith("the application of group group never calls kafkasim.processed(), so")
    says = read.replace("import asyncio", "from kafkasim import processed")
    assert run(write(says.replace("    pass", "    processed(order)"))).result.remarks == []


def test_an_application_prints_to_stderr_behind_its_hosts_name(write, capsys) -> None:
    run(write(body_of_main("print('paid', 3, sep=' x ')")))
    assert capsys.readouterr() == ("", "consumer-1: paid x 3\n")


def test_explain_takes_an_application(capsys) -> None:
    assert cli.invoke(["explain", CRASH, "--app", f"{BILLING}:commit_first"]) == 0
    first, *steps = capsys.readouterr().out.splitlines()
    assert first.startswith("skipped-by-commit in orders-")
    assert "=>" in "".join(steps)


def test_a_record_that_cannot_be_serialized_is_a_send_that_failed(write) -> None:
    app = write(
        body_of_main(
            "async with AIOKafkaProducer() as receipts:",
            "    try:",
            "        await receipts.send('receipts', 'no bytes')",
            "    except TypeError:",
            "        pass",
        )
    )
    (failed,) = run(app).facts("SendFailed").to_pylist()
    assert (failed["error"], failed["partition"]) == ("SERIALIZATION", -1)


def test_a_group_of_exceptions_is_told_with_its_causes_and_their_places(write) -> None:
    app = write(
        """
        import asyncio

        async def bad():
            raise ValueError("the true cause")

        async def main():
            async with asyncio.TaskGroup() as tasks:
                tasks.create_task(bad())
        """
    )
    (failed,) = run(app).facts("ApplicationFailed").to_pylist()
    assert failed["reason"] == (
        "unhandled errors in a TaskGroup: ValueError: the true cause, at app:5 in bad"
    )


def test_what_an_application_seeks_back_to_is_its_own_choice(write) -> None:
    app = write(
        """
        from aiokafka import AIOKafkaConsumer, TopicPartition
        from kafkasim import processed

        async def main():
            async with AIOKafkaConsumer("orders", auto_offset_reset="earliest") as orders:
                count = 0
                async for order in orders:
                    count += 1
                    if count == 10:
                        orders.seek(TopicPartition(order.topic, order.partition), order.offset)
                        continue
                    processed(order)
        """
    )
    outcome = run(app, **{"expect.permits": []})
    assert outcome.verdict == "expected", outcome.explain()
    assert {found.expected_by for found in outcome.result.findings} == {"own-seek"}


def test_pydantic_reads_the_stand_in_of_datetime(write) -> None:
    app = write(
        """
        import datetime
        from pydantic import BaseModel

        class Event(BaseModel):
            at: datetime.datetime
            on: datetime.date

        async def main():
            raise RuntimeError(repr(Event(at="2024-05-06T07:08:09Z", on="2024-05-06").at.hour))
        """
    )
    (failed,) = run(app).facts("ApplicationFailed").to_pylist()
    assert (failed["exception"], failed["reason"]) == ("RuntimeError", "7")
