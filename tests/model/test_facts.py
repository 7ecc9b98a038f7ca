"""The schema of the trace follows from the facts, and rows from the schema."""

from __future__ import annotations

from dataclasses import fields

import pytest

from kafkasim.model import facts


def test_every_field_of_every_fact_is_a_column() -> None:
    names = {f.name for fact in facts.FACTS.values() for f in fields(fact)}
    assert set(facts.COLUMNS) == {"seq", "t_us", "node", "kind", *names}


def test_a_column_has_one_of_the_five_types() -> None:
    allowed = {"int64", "string", "bool", "list<int64>", "list<string>"}
    assert {name: t for name, t in facts.COLUMNS.items() if t not in allowed} == {}


@pytest.mark.parametrize("kind", sorted(facts.FACTS))
def test_a_row_has_the_fields_in_order(kind: str) -> None:
    fact = facts.FACTS[kind]
    values = tuple(range(len(fields(fact))))
    assert facts.ROW[fact](fact(*values)) == values


def test_facts_are_documented() -> None:
    assert [n for n, fact in facts.FACTS.items() if (fact.__doc__ or n).startswith(n)] == []


def test_facts_do_not_change_once_written() -> None:
    with pytest.raises(AttributeError):
        facts.HostStarted(0).incarnation = 1  # type: ignore[misc]
