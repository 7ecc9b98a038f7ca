"""What all configurations share: parsing of properties, types and ranges of settings."""

from __future__ import annotations

import difflib
import re
from collections.abc import Iterable, Mapping
from dataclasses import Field, dataclass, field, fields
from typing import Any, ClassVar, Self, get_type_hints

from kafkasim.model.config.kafka_names import KAFKA_NAMES

MAX_SHORT = 2**15 - 1
MAX_INT = 2**31 - 1
MAX_LONG = 2**63 - 1


class ConfigError(ValueError):
    """A setting is unknown or its value is not allowed; ``key`` is Kafka's property name."""

    def __init__(self, key: str, message: str) -> None:
        super().__init__(key, message)
        self.key = key
        self.message = message

    def __str__(self) -> str:
        return f"{self.key}: {self.message}"


def setting(
    default: Any,
    low: float | None = None,
    high: float | None = None,
    allowed: tuple[Any, ...] | None = None,
    no_effect: str = "",
    name: str = "",
) -> Any:
    """Return a field: its default, its range (inclusive) or values, why it may be read nowhere.

    ``name`` is Kafka's, where it has more than dots between its words.

    A setting that is read nowhere is refused unless it is the default. A number without a fraction
    is of ConfigDef's type INT: it ends at 2^31 − 1.
    """
    if high is None and type(default) is int:
        high = MAX_INT
    metadata = {"low": low, "high": high, "allowed": allowed, "no_effect": no_effect, "name": name}
    return field(default=default, metadata=metadata)


def long(default: int, low: int | None = None) -> Any:
    """Return a field of ConfigDef's type LONG."""
    return setting(default, low, MAX_LONG)


def kafka_name(of: Field[Any]) -> str:
    """Return the name that Kafka gives to a setting."""
    return of.metadata.get("name") or of.name.replace("_", ".")


@dataclass(frozen=True)
class Config:
    """Base of all configurations: parses properties, checks types and ranges.

    ``kind`` is that of :data:`.kafka_names.KAFKA_NAMES` which has these settings.
    """

    kind: ClassVar[str] = ""

    @classmethod
    def from_properties(cls, properties: Mapping[str, Any]) -> Self:
        """Return the configuration with these properties, and defaults for all others.

        Keys are Kafka's names; values may be strings, as in a properties file.

        Raises:
            ConfigError: a key is unknown, or its value has a wrong type or is out of range.
        """
        known = {kafka_name(f): f.name for f in fields(cls)}
        hints = _hints(cls)
        values: dict[str, Any] = {}
        for key, raw in properties.items():
            name = known.get(key)
            if name is None:
                raise ConfigError(key, unknown(key, cls.kind, sorted(known)))
            values[name] = _parse(key, raw, hints[name])
        return cls(**values)

    def with_properties(self, properties: Mapping[str, Any], remove: Iterable[str] = ()) -> Self:
        """Return a copy with some properties replaced, and those of ``remove`` at their defaults.

        Raises:
            ConfigError: as in :meth:`from_properties`.
        """
        dropped = list(remove)
        kept = {key: each for key, each in self.properties().items() if key not in dropped}
        return type(self).from_properties({**kept, **properties})

    def properties(self) -> dict[str, Any]:
        """Return all settings under Kafka's names."""
        return {kafka_name(f): getattr(self, f.name) for f in fields(self)}

    def __post_init__(self) -> None:
        for f in fields(self):
            current = getattr(self, f.name)
            key = kafka_name(f)
            low, high = f.metadata.get("low"), f.metadata.get("high")
            allowed = f.metadata.get("allowed")
            if allowed is not None and current not in allowed:
                raise ConfigError(key, f"{current!r} is not one of {', '.join(map(str, allowed))}")
            if low is not None and current < low:
                raise ConfigError(key, f"{current} is below {low}")
            if high is not None and current > high:
                raise ConfigError(key, f"{current} is above {high}")
            reason = f.metadata.get("no_effect")
            if reason and current != f.default:
                raise ConfigError(key, f"{current!r} would have no effect: {reason}")
        self.validate()

    def validate(self) -> None:
        """Check rules between several settings.

        Raises:
            ConfigError: a rule is broken.
        """


_HINTS: dict[type, dict[str, Any]] = {}


def _hints(config: type) -> dict[str, Any]:
    """Return the fields' types, worked out once for each class."""
    known = _HINTS.get(config)
    if known is None:
        known = _HINTS[config] = get_type_hints(config)
    return known


def unknown(key: str, kind: str, known: list[str]) -> str:
    """Return what is wrong with a key that is none of the known ones of a kind of settings.

    A name of Kafka's own is never taken for a misspelt other one.
    """
    kinds = [each for each in KAFKA_NAMES if key in KAFKA_NAMES[each]]
    if kind in kinds:
        return "is a property of Kafka that is not modelled"
    if kinds:
        whose = " and ".join(f"{each}s" for each in kinds)
        return f"unknown key here: in Kafka it is a property of {whose}"
    near = difflib.get_close_matches(key, known, n=3, cutoff=0.5)
    if near:
        return f"unknown key; did you mean {' or '.join(near)}?"
    return f"unknown key; allowed: {', '.join(known)}"


def _parse(key: str, raw: Any, hint: Any) -> Any:
    if hint is bool:
        if isinstance(raw, bool):
            return raw
        if raw in ("true", "false"):
            return raw == "true"
        raise ConfigError(key, f"{raw!r} is neither true nor false")
    if hint is int or hint is float:
        return _parse_number(key, raw, hint)
    if hint == tuple[str | type, ...] and isinstance(raw, list | tuple):
        if not all(isinstance(part, str | type) for part in raw):
            raise ConfigError(key, f"{raw!r} is not a list of names and classes")
        return tuple(part.strip() if isinstance(part, str) else part for part in raw if part)
    if hint in (tuple[str, ...], tuple[str | type, ...]):
        parts = raw if isinstance(raw, list | tuple) else str(raw).split(",")
        if not all(isinstance(part, str) for part in parts):
            raise ConfigError(key, f"{raw!r} is not a list of strings")
        return tuple(part.strip() for part in parts if part.strip())
    if isinstance(raw, int) and not isinstance(raw, bool):
        return str(raw)  # acks=1 is text in a properties file
    if raw is not None and not isinstance(raw, str):
        raise ConfigError(key, f"{raw!r} is not a string")
    return raw


def _parse_number(key: str, raw: Any, hint: type) -> int | float:
    """Return a number as ConfigDef.parseType reads INT, LONG and DOUBLE: spaces around are fine.

    Raises:
        ConfigError: it is none, an integer with a fraction, infinite, or longer than 64 bits.
    """
    if isinstance(raw, bool) or not isinstance(raw, int | float | str):
        raise ConfigError(key, f"{raw!r} is not a number")
    if isinstance(raw, str) and not _NUMBER.fullmatch(raw.strip()):
        raise ConfigError(key, f"{raw[:40]!r} is not a number")
    try:
        number = hint(raw)
    except (ValueError, OverflowError):  # "1.5" for an integer, an infinity, too many digits
        raise ConfigError(key, f"{str(raw)[:40]!r} is not {_NAMES[hint]}") from None
    if hint is int and number != raw and not isinstance(raw, str):
        raise ConfigError(key, f"{raw!r} is not an integer")
    if not -MAX_LONG - 1 <= number <= MAX_LONG:  # nan, too
        raise ConfigError(key, "the number does not fit 64 bits")
    return number  # type: ignore[no-any-return]


_NAMES = {int: "an integer", float: "a number"}
_NUMBER = re.compile(r"[+-]?[0-9]+(\.[0-9]*)?([eE][+-]?[0-9]+)?")
