"""Kafka's own command-line tools, as people type them, and what each must print."""

from __future__ import annotations

import re
import subprocess
from pathlib import Path
from typing import Literal, NamedTuple

TOOL_WITHIN_S = 60


class Tool(NamedTuple):
    """A command of a tool. ``says`` is a pattern that its output must have.

    ``reads`` is its standard input. ``DIR`` in arguments is the directory of the suite.
    """

    name: str
    main: str
    arguments: str
    says: str
    reads: str = ""


_TOOLS = "org.apache.kafka.tools."
TOPICS, CONFIGS = _TOOLS + "TopicCommand", "kafka.admin.ConfigCommand"
GROUPS = _TOOLS + "consumer.group.ConsumerGroupCommand"
SHARES = _TOOLS + "consumer.group.ShareGroupCommand"
TRANSACTIONS = _TOOLS + "TransactionsCommand"
REASSIGN = _TOOLS + "reassign.ReassignPartitionsCommand"
QUORUM = _TOOLS + "MetadataQuorumCommand"

TABLE = (
    Tool("topics-create", TOPICS, "--create --topic orders --partitions 3", "Created topic orders"),
    Tool("topics-alter", TOPICS, "--alter --topic orders --partitions 4", ""),
    Tool("topics-describe", TOPICS, "--describe --topic orders", r"(?s)PartitionCount: 4\s.*Isr: "),
    Tool("topics-list", TOPICS, "--list", r"(?m)^orders$"),
    Tool(
        "configs-alter", CONFIGS,
        "--alter --entity-type topics --entity-name orders --add-config retention.ms=3600000",
        "Completed updating config for topic orders",
    ),
    Tool(
        "configs-describe", CONFIGS, "--describe --entity-type topics --entity-name orders",
        r"retention.ms=3600000.*DYNAMIC_TOPIC_CONFIG",
    ),
    Tool(
        "configs-describe-all", CONFIGS,
        "--describe --all --entity-type brokers --entity-name 1",
        r"num.network.threads=3 .*DEFAULT_CONFIG",
    ),
    Tool(
        "quotas-alter", CONFIGS,
        "--alter --entity-type clients --entity-name slow --add-config producer_byte_rate=1000000",
        "Completed updating config for client slow",
    ),
    Tool(
        "quotas-describe", CONFIGS, "--describe --entity-type clients --entity-name slow",
        "producer_byte_rate=1000000",
    ),
    Tool(
        "console-producer", _TOOLS + "ConsoleProducer",
        "--topic orders --property parse.key=true --property key.separator=:", "",
        reads="a:1\nb:2\nc:3\n",
    ),
    Tool(
        "verifiable-producer", _TOOLS + "VerifiableProducer",
        "--topic orders --max-messages 200 --acks -1", r'"acked":200|"name":"tool_data".*200',
    ),
    Tool(
        "producer-perf-test", _TOOLS + "ProducerPerformance",
        "--topic orders --num-records 2000 --record-size 100 --throughput -1"
        " --producer-props bootstrap.servers=SERVERS", "2000 records sent",
    ),
    Tool("get-offsets", _TOOLS + "GetOffsetShell", "--topic orders", r"orders:0:\d+"),
    Tool(
        "console-consumer", _TOOLS + "consumer.ConsoleConsumer",
        "--topic orders --group billing --from-beginning --max-messages 2203",
        "Processed a total of 2203 messages",
    ),
    Tool(
        "console-consumer-848", _TOOLS + "consumer.ConsoleConsumer",
        "--topic orders --group billing-848 --from-beginning --max-messages 2203"
        " --consumer-property group.protocol=consumer", "Processed a total of 2203 messages",
    ),
    Tool(
        "verifiable-consumer", _TOOLS + "VerifiableConsumer",
        "--topic orders --group-id verified --max-messages 500 --reset-policy earliest",
        "shutdown_complete",
    ),
    Tool(
        "consumer-perf-test", _TOOLS + "ConsumerPerformance",
        "--topic orders --messages 2000 --group perf", r"MB\.sec",
    ),
    Tool("consumer-groups-list", GROUPS, "--list", r"(?m)^billing$"),
    Tool("consumer-groups-describe", GROUPS, "--describe --group billing", r"billing +orders +0"),
    Tool(
        "consumer-groups-state", GROUPS, "--describe --group billing-848 --state", "uniform|Empty"
    ),
    Tool(
        "consumer-groups-reset", GROUPS,
        "--reset-offsets --group billing --topic orders --to-earliest --execute",
        r"billing +orders +0 +0",
    ),
    Tool("consumer-groups-delete", GROUPS, "--delete --group billing", "successful"),
    Tool(
        "configs-share-group", CONFIGS,
        "--alter --entity-type groups --entity-name work"
        " --add-config share.auto.offset.reset=earliest", "Completed updating",
    ),
    Tool(
        "console-share-consumer", _TOOLS + "consumer.ConsoleShareConsumer",
        "--topic orders --group work --max-messages 2203", "Processed a total of 2203 messages",
    ),
    Tool("share-groups-list", SHARES, "--list", r"(?m)^work$"),
    Tool("share-groups-describe", SHARES, "--describe --group work", r"work +orders +0"),
    Tool(
        "console-consumer-offsets", _TOOLS + "consumer.ConsoleConsumer",
        "--topic __consumer_offsets --from-beginning --timeout-ms 8000 --formatter"
        " org.apache.kafka.tools.consumer.OffsetsMessageFormatter",
        '"group":"billing","topic":"orders","partition":0.*"offset":[0-9]+',
    ),
    Tool(
        "console-consumer-groups", _TOOLS + "consumer.ConsoleConsumer",
        "--topic __consumer_offsets --from-beginning --timeout-ms 8000 --formatter"
        " org.apache.kafka.tools.consumer.GroupMetadataMessageFormatter",
        '"group":"billing".*"protocolType":"consumer","generation":1,"protocol":"range"',
    ),
    Tool("transactions-list", TRANSACTIONS, "list", "TransactionalId"),
    Tool(
        "transactions-describe-producers", TRANSACTIONS,
        "describe-producers --topic orders --partition 0", "ProducerId",
    ),
    Tool(
        "reassign-generate", REASSIGN,
        "--generate --topics-to-move-json-file DIR/topics.json --broker-list 1,2,3",
        "Proposed partition reassignment",
    ),
    Tool(
        "reassign-execute", REASSIGN, "--execute --reassignment-json-file DIR/moves.json",
        "Successfully started partition reassignment",
    ),
    Tool(
        "reassign-verify", REASSIGN, "--verify --reassignment-json-file DIR/moves.json",
        "orders-0 is (complete|still in progress)",
    ),
    Tool(
        "leader-election", _TOOLS + "LeaderElectionCommand",
        "--election-type preferred --all-topic-partitions",
        "Successfully completed|Valid replica already elected|^$",
    ),
    Tool("metadata-quorum-status", QUORUM, "describe --status", r"LeaderId: +\d+"),
    Tool("metadata-quorum-replication", QUORUM, "describe --replication", "Observer"),
    Tool(
        "delete-records", _TOOLS + "DeleteRecordsCommand",
        "--offset-json-file DIR/deletions.json", r"low_watermark: 1",
    ),
    Tool("log-dirs", _TOOLS + "LogDirsCommand", "--describe --topic-list orders", '"size":'),
    Tool(
        "features-validate", _TOOLS + "FeatureCommand",
        "downgrade --feature transaction.version=1 --dry-run", "can be downgraded to 1",
    ),
    Tool("features", _TOOLS + "FeatureCommand", "describe", "metadata.version"),
    Tool(
        "cluster-id", _TOOLS + "ClusterTool", "cluster-id --bootstrap-server SERVERS", "Cluster ID"
    ),
    Tool("broker-api-versions", _TOOLS + "BrokerApiVersionsCommand", "", r"Produce\(0\)"),
    Tool("topics-delete", TOPICS, "--delete --topic orders", ""),
)  # fmt: skip

FILES = {
    "topics.json": '{"topics": [{"topic": "orders"}], "version": 1}',
    "moves.json": '{"version": 1, "partitions":'
    ' [{"topic": "orders", "partition": 0, "replicas": [2, 1], "log_dirs": ["any", "any"]}]}',
    "deletions.json": '{"partitions":'
    ' [{"topic": "orders", "partition": 0, "offset": 1}], "version": 1}',
}

WITHOUT_SERVERS = (_TOOLS + "ProducerPerformance", _TOOLS + "ClusterTool")
"""The tools that name the servers elsewhere."""


def run_tools(
    jars: Path, servers: str, directory: Path, chosen: tuple[str, ...] = ()
) -> dict[str, Literal["pass", "fail", "skip"]]:
    """Run the tools of the table in turn; return the results by their names."""
    for name, text in FILES.items():
        (directory / name).write_text(text)
    found: dict[str, Literal["pass", "fail", "skip"]] = {}
    with (directory / "output.txt").open("w") as output:
        for tool in TABLE:
            if chosen and tool.name not in chosen:
                continue
            said, code = _ran(tool, jars, servers, directory)
            good = code == 0 and re.search(tool.says, said) is not None
            found[tool.name] = "pass" if good else "fail"
            output.write(f"== {tool.name}: exit code {code}, {found[tool.name]}\n{said}\n")
            output.flush()
    return found


def _ran(tool: Tool, jars: Path, servers: str, directory: Path) -> tuple[str, int]:
    arguments = tool.arguments.replace("DIR", str(directory)).replace("SERVERS", servers).split()
    if tool.main not in WITHOUT_SERVERS:
        arguments = ["--bootstrap-server", servers, *arguments]
    command = ["java", "-Xmx256m", "-XX:+UseSerialGC", "-XX:TieredStopAtLevel=1"]
    try:
        done = subprocess.run(
            [*command, "-cp", f"{jars}/*", tool.main, *arguments], input=tool.reads,
            capture_output=True, text=True, timeout=TOOL_WITHIN_S,
        )  # fmt: skip
    except subprocess.TimeoutExpired as late:
        return f"not within {TOOL_WITHIN_S} s: {late.stdout!r}", -1
    return done.stdout + done.stderr, done.returncode
