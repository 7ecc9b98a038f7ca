"""The table of what releases decide otherwise names each rule that they override, and no other."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

from kafkasim.model import records
from kafkasim.scenarios.language.vocabulary import VERSIONS
from kafkasim.scenarios.variants.releases import RULES

PAGE = Path(records.__file__).parent / "RELEASES.md"
LINE = re.compile(r"\| `(\w+\.\w+)` \| ([\d., ]+) \| \S.* \|")
TABLE = [LINE.fullmatch(line) for line in PAGE.read_text().splitlines() if line.startswith("| `")]


def overridden(release: str) -> dict[str, None]:
    """Return the methods of rules classes that a release decides otherwise."""
    found = {}
    for own in RULES[release].values():
        order = own.__mro__
        base = next(each for each in order if each.__module__.startswith("kafkasim.model."))
        for part in order[: order.index(base)]:
            found |= {f"{base.__name__}.{name}": None for name in vars(part) if name[:2] != "__"}
    return found


def test_each_line_names_rule_releases_and_what_they_do() -> None:
    assert None not in TABLE
    assert len(TABLE) >= 40


@pytest.mark.parametrize("release", RULES)
def test_the_table_has_the_rules_that_a_release_overrides(release: str) -> None:
    assert release in VERSIONS
    number = release.removesuffix("-zk")
    told = [line[1] for line in TABLE if line is not None and number in line[2].split(", ")]
    assert sorted(told) == sorted(overridden(release))
