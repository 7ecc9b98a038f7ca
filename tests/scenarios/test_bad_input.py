"""What is no table, no list or no number is refused in one line that names the file and the key."""

from __future__ import annotations

import copy
from pathlib import Path
from typing import Any

import pytest

from kafkasim.model.config import BrokerConfig, ConfigError
from kafkasim.scenarios.cli import invoke
from kafkasim.scenarios.language import library
from kafkasim.scenarios.language.spec import ScenarioError, override, parse
from kafkasim.scenarios.running.runner import run

FULL: dict[str, Any] = {
    "name": "full",
    "claim": "Every table and list of the language is here.",
    "duration": "10s",
    "cluster": {
        "racks": ["a"],
        "config": {"num.io.threads": 4},
        "features": {"eligible.leader.replicas.version": 1},
        "nodes": {"broker-1": {"config": {"num.io.threads": 4}}},
        "variants": ["M01"],
    },
    "topics": [{"name": "t", "assignment": [[1]], "config": {"min.insync.replicas": 1}}],
    "workload": [
        {"kind": "producer", "config": {"acks": "all"}},
        {"kind": "consumer-group", "topics": ["t"], "config": {"max.poll.records": 5}},
    ],
    "faults": [
        {"kind": "gc-pause", "nodes": ["broker-1"], "for": "1s",
         "when": {"fact": "Phase", "fields": {"phase": "safety"}}},
        {"kind": "partition", "node": "broker-1", "peers": ["broker-2"], "at": "1s",
         "until": {"fact": "Phase"}},
        {"kind": "nemesis", "kinds": ["gc-pause"], "gap": "1s"},
    ],
    "operations": [
        {"kind": "reassign", "at": "1s", "topic": "t", "replicas": [2]},
        {"kind": "alter-config", "at": "1s", "topic": "t", "config": {"flush.ms": 1},
         "remove": ["flush.ms"]},
        {"kind": "update-features", "at": "1s",
         "features": {"eligible.leader.replicas.version": 1}},
    ],
    "expect": {"permits": ["lost-write"], "must-see": ["fenced"], "in-time": ["fenced"],
               "never": ["fenced"], "fleet-must-see": ["fenced"]},
    "twin": {"claim": "c", "set": {"duration": "1s"}, "variants": ["M01"], "fails": ["ACKED"]},
}  # fmt: skip


RIGHT = [
    ("twin.set", {"x": 3}),  # judged when the twin is run
    ("operations.1.config", {"x": 3}),  # the cluster judges it
    ("operations.2.features", {"x": 3}),
    ("topics.0.assignment", [[3]]),
    ("topics.0.assignment.0", [3]),
    ("operations.0.replicas", [3]),
]
"""What of the wrong values is right at some places."""


def containers(data: Any, path: str = "") -> list[tuple[str, Any]]:
    """Return every table and list of nested data, by path."""
    found = []
    for key, value in data.items() if isinstance(data, dict) else enumerate(data):
        inner = f"{path}.{key}" if path else str(key)
        if isinstance(value, dict | list):
            found += [(inner, value), *containers(value, inner)]
    return found


def replaced(path: str, value: Any) -> dict[str, Any]:
    """Return FULL with one table or list replaced."""
    data = copy.deepcopy(FULL)
    *parents, last = [int(part) if part.isdigit() else part for part in path.split(".")]
    place: Any = data
    for part in parents:
        place = place[part]
    place[last] = value
    return data


def test_the_whole_example_is_right() -> None:
    assert parse(FULL, "full.toml").name == "full"


@pytest.mark.parametrize("path", [path for path, _ in containers(FULL)])
@pytest.mark.parametrize("wrong", [3, "x", True, 1.5, {"x": 3}, [3], [[3]], [{}]])
def test_what_is_no_such_table_or_list_is_refused(path: str, wrong: Any) -> None:
    if (path, wrong) in RIGHT:
        assert parse(replaced(path, wrong), "full.toml").name == "full"
        return
    with pytest.raises(ScenarioError) as refused:
        parse(replaced(path, wrong), "full.toml")
    line = str(refused.value)
    assert line.startswith(f"full.toml: {path.split('.')[0]}"), line
    assert "\n" not in line


@pytest.mark.parametrize(
    ("text", "line"),
    [
        ("cluster = 3", "cluster: 3 is not valid; give a table"),
        ("topics = 3", "topics: 3 is not valid; give a list"),
        ("topics = [3]", "topics.0: 3 is not valid; give a table"),
        ("workload = [3]", "workload.0: 3 is not valid; give a table"),
        ("faults = { x = 3 }", "faults: {'x': 3} is not valid; give a list"),
        ("expect = []", "expect: [] is not valid; give a table"),
        ("[cluster]\nconfig = 3", "cluster.config: 3 is not valid; give a table"),
        ("[cluster]\nconfig-file = 3", "cluster.config-file: 3 is not a path"),
        ("[cluster]\nnodes = [1]", "cluster.nodes: [1] is not valid; give a table"),
        ("x = 9223372036854775808", "x: the number does not fit 64 bits"),
        ("x = inf", "x: inf is not a finite number"),
        ("x = 2024-01-01", "x: 2024-01-01 is a date; give text or a number"),
        (f"x = {'9' * 5000}", "not TOML: Exceeds the limit"),
        (f"x = {'[' * 5000}", "not TOML: brackets are nested too deep"),
        (f"x = {'[' * 40}{']' * 40}", ": tables and lists may be nested 32 deep at most"),
    ],
)
def test_the_command_line_says_what_is_wrong(
    text: str, line: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    path = tmp_path / "bad.toml"
    path.write_text(f'name = "bad"\nclaim = "c"\nduration = "1s"\n{text}\n')
    assert invoke(["run", str(path)]) == 2
    told = capsys.readouterr().err
    assert told.startswith(f"kafkasim: error: {path}: "), told
    assert line in told
    assert told.count("\n") == 1


@pytest.mark.parametrize(
    ("key", "line"),
    [
        ("cluster.config", "cluster: config is not a table"),
        ("cluster.config.a", "x.toml: config.a: config is not a table"),
        ("topics.0.name", "x.toml: topics.0.name: topics.0 is not a table"),
        ("topics.².name", "x.toml: topics.².name: topics has entries 0 to 0, not '²'"),
        ("faults.0", "x.toml: faults.0: faults has no entries, not '0'"),
        ("name.x", "x.toml: name.x: name is not a table"),
    ],
)
def test_an_override_goes_through_tables_and_lists_only(key: str, line: str) -> None:
    data = {"name": "x", "cluster": {"config": 3}, "topics": [3], "faults": []}
    if key == "cluster.config":  # the key itself may be replaced, by what the check then judges
        assert override(data, key, {}, "x.toml")["cluster"] == {"config": {}}
        return
    with pytest.raises(ScenarioError) as refused:
        override(data, key, 1, "x.toml")
    assert str(refused.value) == line


@pytest.mark.parametrize(
    ("key", "value"),
    [
        ("duration", "9" * 400 + "s"),
        ("duration", "87601h"),
        ("workload.0.rate", "9" * 400 + "/s"),
        ("workload.0.rate", "0." + "0" * 400 + "1/s"),
        ("workload.0.rate", "1000001/s"),
        ("workload.0.value-size", 2**31),
        ("workload.0.value-size", "2GiB"),
        ("faults.0.ppm", 2**63),
        ("operations.0.replicas", [2**63]),
        ("twin.seeds", 2**31 - 1),  # mutant 184856 ran them all
    ],
)
def test_no_number_leaves_its_range(key: str, value: Any) -> None:
    with pytest.raises(ScenarioError, match=f"^full.toml: {key.split('.')[0]}"):
        parse(override(FULL, key, value, "full.toml"), "full.toml")


@pytest.mark.parametrize("raw", [1.5, float("inf"), float("nan"), "1_000", "٣", "1.5", 2**63, "x",
                                 "9" * 5000, True, None, [3]])  # fmt: skip
def test_a_property_that_is_no_integer_is_refused(raw: Any) -> None:
    with pytest.raises(ConfigError, match=r"^num\.io\.threads: "):
        BrokerConfig.from_properties({"num.io.threads": raw})


@pytest.mark.parametrize("raw", ["4", " 4 ", 4, 4.0, "+4"])
def test_an_integer_may_be_written_as_kafka_reads_it(raw: Any) -> None:
    assert BrokerConfig.from_properties({"num.io.threads": raw}).num_io_threads == 4


@pytest.mark.parametrize("content", [b"\xff=1", b"a\x00=1\n"])
def test_a_properties_file_of_other_bytes_is_refused(tmp_path: Path, content: bytes) -> None:
    (tmp_path / "server.properties").write_bytes(content)
    path = tmp_path / "mine.toml"
    path.write_text(
        'name = "x"\nclaim = "c"\nduration = "1s"\ncluster = { config-file = "server.properties" }'
    )
    with pytest.raises(ScenarioError, match=r"server\.properties"):
        library.scenario(str(path))


@pytest.mark.parametrize("key", ["cluster", "twin"])
def test_an_unknown_variant_of_a_scenario_is_named_with_its_file(
    key: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    path = tmp_path / "bad.toml"
    twin = 'claim = "c"\nfails = ["ACKED"]\n' if key == "twin" else ""
    path.write_text(f'name = "bad"\nclaim = "c"\nduration = "1s"\n[{key}]\nvariants = [""]\n{twin}')
    assert invoke(["run", str(path), *(["--twin"] if twin else [])]) == 2
    told = capsys.readouterr().err
    assert told.startswith(f"kafkasim: error: {path}: no variant ''")
    assert told.count("\n") == 1


@pytest.mark.parametrize("key", ["pattern", "subscription-pattern"])
def test_a_group_subscribes_to_topics_or_to_a_pattern(key: str) -> None:
    scenario = override(FULL, f"workload.1.{key}", "t.*", "both")
    allowed = f"workload.1.{key}: does not go with topics; allowed: either of them"
    with pytest.raises(ScenarioError, match=allowed):
        parse(scenario, "both")


@pytest.mark.parametrize("mode", ["kraft", "zookeeper"])
def test_the_longest_times_that_kafka_takes_run(mode: str, tmp_path: Path) -> None:
    """Mutant 132518: a trace has times in µs, of which Kafka's longest has too many for int64."""
    forever = {"replica.lag.time.max.ms": 2**63 - 1, "request.timeout.ms": 2**31 - 1}
    cluster = {"mode": mode, "brokers": 1, "config": forever}
    data = {"name": "x", "claim": "c", "duration": "1s", "cluster": cluster}
    assert run(parse(data, "x"), 0, tmp_path).verdict == "pass"


@pytest.mark.parametrize(
    ("fault", "line"),
    [
        ('node = "broker-1"\nkind = "crash"\nat = "9s"', "at: 9s is not within the run; allowed:"),
        (
            'node = "@node"\nkind = "crash"\nwhen = { fact = "LogLoaded", after = "9s" }',
            "when.after: 9s is not within the run; allowed: less than duration, ",
        ),
        (
            'node = "broker-1"\nkind = "partition"\npeers = ["broker-1"]\nat = "1s"',
            "peers: broker-1 is on both sides of the link; allowed: nodes that are not in node",
        ),
        (
            'node = "producer-1"\nkind = "slow-disk"\nat = "1s"',
            "node: producer-1 has nothing on a disk; allowed: broker-1, broker-2, broker-3,",
        ),
        (
            'nodes = ["any-consumer"]\nkind = "disk-full"\nat = "1s"',
            "nodes: any-consumer has nothing on a disk; allowed: broker-1,",
        ),
    ],
)
def test_a_fault_that_never_strikes_is_refused(
    fault: str, line: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    path = tmp_path / "idle.toml"
    workload = "\n".join(f'[[workload]]\nkind = "{k}"' for k in ("producer", "consumer-group"))
    head = 'name = "idle"\nclaim = "c"\nduration = "9s"\n[[topics]]\nname = "t"\n'
    path.write_text(f"{head}{workload}\n[[faults]]\n{fault}\n")
    assert invoke(["run", str(path)]) == 2
    told = capsys.readouterr().err
    assert told.startswith(f"kafkasim: error: {path}: faults.0.{line}"), told
    assert told.count("\n") == 1


def test_an_operation_after_the_run_is_refused(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    path = tmp_path / "late.toml"
    head = 'name = "late"\nclaim = "c"\nduration = "9s"\n'
    path.write_text(f'{head}[[operations]]\nkind = "restart"\nnode = "broker-1"\nat = "2m"\n')
    assert invoke(["run", str(path)]) == 2
    assert capsys.readouterr().err == (
        f"kafkasim: error: {path}: operations.0.at: 120s is not within the run; allowed: less than"
        " duration, 9s, when faults and operations end\n"
    )


@pytest.mark.parametrize(
    ("text", "line"),
    [
        ('[topics]\nname = "t"', "give a list: [[topics]] begins each of its tables"),
        ('[topics]\nname = "t"\n[[topics]]\nname = "u"', "; write [[topics]], not [topics]"),
        ('[[faults]]\nkind = "stop"\n[faults]\n', "; write [[faults]], not [faults]"),
    ],
)
def test_a_table_in_place_of_a_list_gets_a_hint(
    text: str, line: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    path = tmp_path / "single.toml"
    path.write_text(f'name = "a"\nclaim = "c"\nduration = "1s"\n{text}\n')
    assert invoke(["run", str(path)]) == 2
    told = capsys.readouterr().err
    assert told.endswith(f"{line}\n"), told
