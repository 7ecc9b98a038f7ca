"""Whoever reads only this repository can follow every citation.

``KAFKA.md, 1.4`` names a section of model/KAFKA.md, ``KAFKA.md, 0.1 c`` a lettered point in it. A
historical fault (``B04``) is described in section 8 of that page or is a variant. Kafka is cited by
class and method, KIP or JIRA, never by a line number, which the next commit moves.
"""

from __future__ import annotations

import functools
import re
from pathlib import Path

from kafkasim.scenarios.variants.registry import VARIANTS

ROOT = Path(__file__).parents[1]
PAGE = ROOT / "model" / "KAFKA.md"
FILES = sorted(
    path
    for top in ("model", "sim", "scenarios", "analysis", "tests")
    for path in (ROOT / top).rglob("*")
    if path.suffix in (".py", ".md", ".toml", ".txt") and path.name != "test_citations.py"
)
SECTION = r"\d+(?:\.\d+)?(?: [a-e]\b)?"
CITATION = re.compile(rf"KAFKA\.md, ({SECTION}(?:(?:,| and| to) {SECTION})*)")
LINE_NUMBER = re.compile(
    r"\b[A-Z][A-Za-z]{2,}\.(?:java|scala):\d+|\b(?:RM|RCM|UL|AFT|PCB|CCM|BHM):\d{2,}"
)
OLD_FORM = re.compile(r"\bfacts?,? (?:sections? )?\d\.|of the facts,|fact sheet|DESIGN\.md")
BUG = re.compile(r"\bB(?!00)\d\d\b")


@functools.cache
def lines() -> list[tuple[str, str]]:
    return [
        (f"{path.relative_to(ROOT)}:{number}", line)
        for path in FILES
        for number, line in enumerate(path.read_text().splitlines(), 1)
    ]


def sections() -> set[str]:
    """Return the numbers of the page's sections, and their lettered points (``0.1 c``)."""
    found, number = set(), ""
    for line in PAGE.read_text().splitlines():
        if heading := re.match(r"#+ (\d+(?:\.\d+)?)\.? ", line):
            number = heading[1]
            found.add(number)
        elif point := re.match(r" +- \(([a-e])\) ", line):
            found.add(f"{number} {point[1]}")
    return found


def test_every_cited_section_exists() -> None:
    known = sections()
    wrong = [
        f"{place}: {cited}"
        for place, line in lines()
        for citation in CITATION.findall(line)
        for cited in re.findall(SECTION, citation)
        if cited not in known
    ]
    assert not wrong, "\n".join(["", *wrong])


def test_the_page_has_the_sections_that_its_text_refers_to() -> None:
    known = sections()
    assert {"0.1", "0.1 c", "1.4", "2.3", "3.4", "4.4", "8.7", "9.4"} <= known


def test_every_bug_is_a_variant_or_explained() -> None:
    explained = set(re.findall(r"\*\*(B\d\d+)\b", PAGE.read_text()))
    known = explained | {name[:3] for name in VARIANTS}
    wrong = [
        f"{place}: {bug}"
        for place, line in lines()
        for bug in BUG.findall(line)
        if bug not in known
    ]
    assert not wrong, "\n".join(["", *wrong])


def test_kafka_is_not_cited_by_line_number() -> None:
    wrong = [f"{place}: {line}" for place, line in lines() if LINE_NUMBER.search(line)]
    assert not wrong, "\n".join(["", *wrong])


def test_no_citation_needs_a_page_outside_of_the_repository() -> None:
    wrong = [f"{place}: {line.strip()}" for place, line in lines() if OLD_FORM.search(line)]
    assert not wrong, "\n".join(["", *wrong])
