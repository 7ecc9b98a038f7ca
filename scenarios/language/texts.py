"""The texts of a producer's values and headers, in which ``{number}`` and the like are filled in.

The other braces of a text stay as they are, so JSON is written as it is:
``{"id": {number}, "by": {"host": "{producer}"}}``. A text whose other braces are all doubled, as
Python's format strings have them, has them once.
"""

from __future__ import annotations

import re
from string import Formatter

PLACES = ("key", "number", "producer")
"""What a text may name in braces: the record's key and number, and the host."""

SAMPLE = {"key": "", "number": 0, "producer": ""}

_PLACE = re.compile(r"\{(?:key|number|producer)(?::[^{}]*)?\}")
_NAME = re.compile(r"\{(\w+)\}")


def template(text: str) -> str:
    """Return a text as a format string of :data:`PLACES`.

    Raises:
        ValueError: a word in braces is no place, or the format behind a place's colon is none.
    """
    try:
        doubled = all(name in (None, *PLACES) for _, name, _, _ in Formatter().parse(text))
    except ValueError:
        doubled = False
    if not doubled:
        for match in _NAME.finditer(text):
            if match[1] not in PLACES:
                raise ValueError(f"{match[0]} is unknown; allowed: {', '.join(PLACES)} in braces")
        end, parts = 0, []
        for match in _PLACE.finditer(text):
            parts += [_doubled(text[end : match.start()]), match[0]]
            end = match.end()
        text = "".join([*parts, _doubled(text[end:])])
    try:
        text.format(**SAMPLE)
    except (ValueError, LookupError, AttributeError) as error:
        raise ValueError(f"{error}; allowed in braces: {', '.join(PLACES)}") from None
    return text


def _doubled(text: str) -> str:
    return text.replace("{", "{{").replace("}", "}}")
