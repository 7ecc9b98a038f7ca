"""The reference of the language names every key and kind, and its example is a scenario."""

from __future__ import annotations

import re
import tomllib
from pathlib import Path

import pytest

from kafkasim.scenarios.language import tables
from kafkasim.scenarios.language.checks.messages import PURPOSES
from kafkasim.scenarios.language.spec import parse
from kafkasim.scenarios.language.vocabulary import VERBS, VERSIONS
from kafkasim.sim.faults.kinds import KINDS

README = Path(tables.__file__).parent / "README.md"
TEXT = README.read_text(encoding="utf-8")
NAMED = {name for code in re.findall(r"`([^`\n]+)`", TEXT) for name in re.split(r"[\s=:]", code)}
TABLES = [
    each
    for each in vars(tables).values()
    if isinstance(each, type) and issubclass(each, tables.Table)
]


def test_the_example_is_a_scenario() -> None:
    (example,) = re.findall(r"```toml\n(.*?)```", TEXT, re.DOTALL)
    assert parse(tomllib.loads(example), "README.md").name == "twelve-second-pause"


@pytest.mark.parametrize("table", TABLES, ids=lambda table: table.__name__)
def test_every_key_of_a_table_is_named(table: type[tables.Table]) -> None:
    keys = {field.alias or name for name, field in table.model_fields.items()}
    sections = {"cluster", "topics", "workload", "faults", "operations", "expect", "twin", "nodes"}
    sections |= {"clusters", "links", "mirrors", "streams"}
    assert keys - NAMED - sections == set()


@pytest.mark.parametrize(
    "kinds", [KINDS, VERBS, VERSIONS], ids=["faults", "operations", "releases"]
)
def test_every_kind_is_named(kinds: list[str]) -> None:
    assert set(kinds) - NAMED == set()


def test_every_purpose_is_named() -> None:
    assert set(PURPOSES) - NAMED == set()
