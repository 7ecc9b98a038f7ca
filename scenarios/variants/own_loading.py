"""Read a user's file of rules, and make a variant of its classes.

A file is a Python module. Its classes that subclass a rules class of the model are the variant, or
one of them if the id names it. A name that is no rule, or other parameters than the rule's, are
refused: Python would take the method, and the model would never call it.
"""

from __future__ import annotations

import difflib
import importlib.util
import inspect
import sys
import traceback
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from types import ModuleType
from typing import Any

from kafkasim.scenarios.language.files.rules import RulesFile, digest
from kafkasim.scenarios.variants.rules import PARTS
from kafkasim.scenarios.variants.variant import Variant, VariantError, overridden

MODULE = "kafkasim_rules_"
"""How the names of modules begin that are made of users' files; the digest follows."""

_modules: dict[tuple[Path, str], ModuleType] = {}


def own_variant(file: RulesFile) -> Variant:
    """Return the variant that a file, or one class of it, is.

    Raises:
        VariantError: the file cannot be read or run, was changed since its id was made, or has no
            such class; or the class overrides what is no rule.
    """
    module = _module(file)
    found = [
        each
        for each in vars(module).values()
        if isinstance(each, type) and issubclass(each, tuple(PARTS.values()))
        if each.__module__ == module.__name__ or each.__name__ == file.name
    ]
    if file.name:
        chosen = [each for each in found if each.__name__ == file.name]
    else:
        chosen = [each for each in found if not any(each in other.__mro__[1:] for other in found)]
    if not chosen:
        raise VariantError(f"{file.path}: {_lacking(file, module, found)}")
    for rules in chosen:
        _check(file, rules)
    claim = " ".join(" ".join((rules.__doc__ or "").split()) for rules in chosen).strip()
    variant = Variant(file.shown, "a rule of your own", tuple(chosen), "", "", claim)
    _check_apart(file, variant)
    return variant


def _module(file: RulesFile) -> ModuleType:
    try:
        now = digest(file.path)
    except OSError as error:
        raise VariantError(f"{file.path}: cannot be read: {error.strerror}") from None
    if file.digest not in ("", now):
        raise VariantError(f"{file.path} was changed since the run")
    known = _modules.get((file.path, now))
    if known is not None:
        return known
    name = f"{MODULE}{now}"
    spec = importlib.util.spec_from_file_location(name, file.path)
    assert spec is not None, file
    assert spec.loader is not None, file
    module = importlib.util.module_from_spec(spec)
    sys.modules[name] = module  # where dataclasses look annotations up
    try:
        spec.loader.exec_module(module)
    except SyntaxError as error:
        raise VariantError(f"{error.filename}:{error.lineno}: not Python: {error.msg}") from None
    except Exception as error:
        raise VariantError(f"{_where(file, error)}: {type(error).__name__}: {error}") from None
    _modules[file.path, now] = module
    return module


@contextmanager
def own_rules_named(seed: int) -> Iterator[None]:
    """Run a seed; name file and line of an exception that a user's rule raises.

    Raises:
        VariantError: in place of that exception.
    """
    try:
        yield
    except Exception as error:
        last = traceback.extract_tb(error.__traceback__)[-1]
        if last.filename not in [module.__file__ for module in _modules.values()]:
            raise
        raised = f"{last.name} raised {type(error).__name__}: {error}"
        raise VariantError(f"{last.filename}:{last.lineno}: {raised} (seed {seed})") from error


def _where(file: RulesFile, error: Exception) -> str:
    own = [f for f in traceback.extract_tb(error.__traceback__) if f.filename == str(file.path)]
    return f"{file.path}:{own[-1].lineno}" if own else str(file.path)


def _lacking(file: RulesFile, module: ModuleType, found: list[type]) -> str:
    """Return why a file has no variant: no such class, or one of something else."""
    bases = ", ".join(base.__name__ for base in PARTS.values())
    named = vars(module).get(file.name) if file.name else None
    if isinstance(named, type):
        return f"{file.name} is a subclass of none of the model's rules: {bases}"
    there = ", ".join(each.__name__ for each in found)
    if file.name and there:
        return f"there is no class {file.name}; there is {there}"
    what = f"no class {file.name}, and none at all that subclasses" if file.name else "no class of"
    return f"there is {what} the model's rules: {bases}"


def _check(file: RulesFile, rules: type) -> None:
    """Check that what a class overrides are rules, with their parameters."""
    parts = [part for part, base in PARTS.items() if issubclass(rules, base)]
    if len(parts) > 1:
        raise VariantError(
            f"{file.path}: {rules.__name__} subclasses rules of {' and '.join(parts)}"
        )
    base = PARTS[parts[0]]
    for name, own in overridden(rules).items():
        rule = getattr(base, name[1], None)
        if rule is None:
            known = [each for each in dir(base) if not each.startswith("_")]
            near = difflib.get_close_matches(name[1], known, n=2, cutoff=0.5)
            meant = f"did you mean {' or '.join(near)}? " if near else ""
            raise VariantError(
                f"{_line(file, own)}: {base.__name__} has no rule {name[1]}; {meant}"
                f"kafkasim list --rules has them (begin a helper's name with _)"
            )
        if not _takes_the_same(own, rule):
            raise VariantError(
                f"{_line(file, own)}: {rules.__name__}.{name[1]} takes {_parameters(own)},"
                f" but the rule takes {_parameters(rule)}"
            )


def _takes_the_same(own: Any, rule: Any) -> bool:
    """Return whether a method can be called with a rule's parameters, by place."""
    if not inspect.isfunction(own):
        return False
    try:
        inspect.signature(own).bind(*inspect.signature(rule).parameters)
    except TypeError:
        return False
    return True


def _parameters(method: Any) -> str:
    if not inspect.isfunction(method):
        return f"no arguments: it is a {type(method).__name__}"
    return f"({', '.join(inspect.signature(method).parameters)})"


def _line(file: RulesFile, own: Any) -> str:
    code = getattr(own, "__code__", None)
    return str(file.path) if code is None else f"{file.path}:{code.co_firstlineno}"


def _check_apart(file: RulesFile, variant: Variant) -> None:
    """Check that no two classes of a file override one rule: the user means one of them."""
    owner: dict[tuple[str, str], str] = {}
    for rules in variant.rules:
        for rule in overridden(rules):
            other = owner.setdefault(rule, rules.__name__)
            if other != rules.__name__:
                raise VariantError(
                    f"{file.path}: {other} and {rules.__name__} both override {'.'.join(rule)};"
                    f" name one of them: {file.shown}:{other}"
                )
