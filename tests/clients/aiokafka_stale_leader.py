"""A bug of aiokafka 0.14: a consumer asks a broker that leads no longer for offsets, for ever.

A paused consumer does not fetch, so it does not learn that its partition's leader moved.
seek_to_end then asks the old leader with ListOffsets, which answers NOT_LEADER_OR_FOLLOWER. The
consumer asks the same broker again after retry_backoff_ms. It does not ask for metadata (the
error's branch of Fetcher._update_fetch_positions), and is stuck until metadata_max_age_ms, five
minutes by default. Java's consumer asks for metadata after this error (KAFKA-9535 was a case in
which it did not).

Run by ``make clients`` with the clients' Python. Exit code 0: the bug is there; 1: it is not.
"""

import asyncio
import json
import os
import sys
import tempfile
import urllib.request
from pathlib import Path

from aiokafka import AIOKafkaConsumer, TopicPartition
from aiokafka.admin import AIOKafkaAdminClient, NewTopic

SERVERS = sys.argv[1]
STUCK_S = 10


def ask(method, path, body=None):
    """Ask the control port of kafkasim serve, as any language can."""
    port = SERVERS.partition(",")[0].rpartition(":")[2]
    place = Path(tempfile.gettempdir()) / f"kafkasim-{os.getuid()}" / f"serve-{port}.json"
    known = json.loads(place.read_text())
    request = urllib.request.Request(
        known["url"] + path, None if body is None else json.dumps(body).encode(),
        {"Authorization": f"Bearer {known['token']}"}, method=method,
    )  # fmt: skip
    with urllib.request.urlopen(request, timeout=60) as answer:
        return json.load(answer)


async def leader_moves():
    """Pause the leader until another one is elected, and wait until the old one follows it."""
    partition = ask("GET", "/status")["partitions"]["moving-0"]
    ask(
        "POST", "/fault", {"kind": "gc-pause", "node": f"broker-{partition['leader']}", "for": "6s"}
    )
    while ask("GET", "/status")["partitions"]["moving-0"]["leader"] in (partition["leader"], -1):
        await asyncio.sleep(0.2)
    ask(
        "POST", "/wait", {"path": ["partitions", "moving-0", "isr"], "at-least": 3, "within": "60s"}
    )


async def main():
    """Show the bug; return the exit code."""
    admin = AIOKafkaAdminClient(bootstrap_servers=SERVERS)
    await admin.start()
    await admin.create_topics([NewTopic("moving", 1, 3)])
    await admin.close()
    tp = TopicPartition("moving", 0)
    async with AIOKafkaConsumer(bootstrap_servers=SERVERS, client_id="stuck") as consumer:
        consumer.assign([tp])
        await consumer.position(tp)
        consumer.pause(tp)
        await asyncio.sleep(1)  # its last fetch ends
        await leader_moves()
        before = ask("GET", "/asked")["outside/stuck"]
        await consumer.seek_to_end(tp)
        try:
            await asyncio.wait_for(consumer.position(tp), STUCK_S)
            print("the position is known: the bug is not there")
            return 1
        except TimeoutError:
            after = ask("GET", "/asked")["outside/stuck"]
        told = {api: after[api] - before[api] for api in ("ListOffsets", "Metadata")}
        print(f"stuck for {STUCK_S} s, in which it sent {told}")
        await consumer._client.force_metadata_update()
        await asyncio.wait_for(consumer.position(tp), STUCK_S)
        print("with new metadata it goes on")
        return 0 if told["ListOffsets"] > 10 and not told["Metadata"] else 1


sys.exit(asyncio.run(main()))
