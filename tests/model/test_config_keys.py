"""Every key of a configuration is read somewhere, or says why it is accepted without effect."""

from __future__ import annotations

import ast
import sys
from dataclasses import dataclass, fields
from pathlib import Path

import pytest

import kafkasim
from kafkasim.model.config import (
    BrokerConfig,
    ClientConfig,
    Config,
    ConfigError,
    ConsumerConfig,
    LegacyConsumerConfig,
    ProducerConfig,
    TopicConfig,
    setting,
)
from kafkasim.model.config.clients import ShareConsumerConfig
from kafkasim.model.config.share_groups import ShareGroupSettings
from kafkasim.model.config.streams import StreamsConfig
from kafkasim.model.connect.config import MirrorConfig
from kafkasim.model.connect.workers.config import WorkerConfig, WorkerSettings
from kafkasim.model.zookeeper.config import ZooKeeperConfig

KINDS = (
    TopicConfig,
    BrokerConfig,
    ClientConfig,
    ProducerConfig,
    ConsumerConfig,
    ShareConsumerConfig,
    ShareGroupSettings,
    LegacyConsumerConfig,
    StreamsConfig,
    MirrorConfig,
    WorkerSettings,
    WorkerConfig,
    ZooKeeperConfig,
)
ROOTS = ("model", "sim", "scenarios/running")
"""Where a setting can take effect; printing or checking one is none."""


def names_read(source: str) -> set[str]:
    """Return the attributes that a module reads, but for those read in a ``validate`` method."""
    tree = ast.parse(source)
    for node in ast.walk(tree):
        if isinstance(node, ast.FunctionDef) and node.name == "validate":
            node.body = []
    return {
        node.attr
        for node in ast.walk(tree)
        if isinstance(node, ast.Attribute) and isinstance(node.ctx, ast.Load)
    }


def unread(kind: type[Config], read: set[str]) -> list[str]:
    """Return the keys without a reason that nothing reads, and those with one that are read."""
    return [
        field.name
        for field in fields(kind)
        if (field.name in read) == bool(field.metadata["no_effect"])
    ]


@pytest.fixture(scope="module")
def read() -> set[str]:
    top = Path(next(iter(kafkasim.__path__)))
    files = [path for root in ROOTS for path in sorted((top / root).rglob("*.py"))]
    assert len(files) > 200
    return {name for path in files for name in names_read(path.read_text(encoding="utf-8"))}


@pytest.mark.parametrize("kind", KINDS)
def test_each_key_is_read_or_says_why_not(kind: type[Config], read: set[str]) -> None:
    assert unread(kind, read) == []


def test_every_kind_of_configuration_is_walked() -> None:
    known: dict[type[Config], None] = {}
    todo = [Config]
    while todo:
        kinds = [each for each in todo.pop().__subclasses__() if _is_of_the_model(each)]
        known |= dict.fromkeys(kinds)
        todo += kinds
    assert sorted(each.__name__ for each in known) == sorted(each.__name__ for each in KINDS)


def _is_of_the_model(kind: type[Config]) -> bool:
    """Return whether a class is the model's, and not one that a decorator or a test replaced."""
    return getattr(sys.modules[kind.__module__], kind.__name__, None) is kind and (
        kind.__module__.startswith("kafkasim.model.")
    )


@pytest.mark.parametrize("kind", KINDS)
def test_a_key_without_effect_is_refused_unless_it_is_the_default(kind: type[Config]) -> None:
    keys = [each for each in fields(kind) if each.metadata["no_effect"]]
    needed = {"group.id": "g"} if kind is ShareConsumerConfig else {}
    for each in keys:
        key = each.name.replace("_", ".")
        assert kind.from_properties({**needed, key: each.default}) == kind.from_properties(needed)
        with pytest.raises(ConfigError, match=r"would have no effect: |is not one of"):
            kind.from_properties({**needed, key: _other(each.default)})


def _other(value: object) -> object:
    """Return another value than this one, of its type."""
    if isinstance(value, bool):
        return not value
    return value + 1 if isinstance(value, int) else f"other-{value}"


def test_a_key_that_nothing_reads_is_found(read: set[str]) -> None:
    @dataclass(frozen=True)
    class Broken(Config):
        never_read_by_anything_ms: int = setting(1)
        num_io_threads: int = setting(1, no_effect="but it is read")
        accepted_without_effect_ms: int = setting(1, no_effect="it costs no time")

    assert unread(Broken, read) == ["never_read_by_anything_ms", "num_io_threads"]
    assert names_read("def validate(c):\n    c.a_ms\ndef run(c):\n    c.b_ms\n    c.c_ms = 1") == {
        "b_ms"
    }
