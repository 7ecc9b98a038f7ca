"""Load a user's processor of a topology: ``process = "my_steps.py:Enrich"``.

The file is a Python module, which is run once. Its class has the parts of a processor
(model/streams/processors/context.py). A run and its judge load it alike, so that the reference of
a topology runs the same code.
"""

from __future__ import annotations

import ast
import functools
import hashlib
import importlib.util
import re
import sys
from pathlib import Path
from types import ModuleType
from typing import Any

from kafkasim.model.streams.processors.context import Processor, Supplier

NAME = re.compile(r"(?P<file>.+\.py):(?P<name>\w+)(?:#(?P<digest>[0-9a-f]+))?")
"""FILE:CLASS, with the digest of the file once it was read."""


def named(text: str, folder: Path) -> str:
    """Return a processor's name with the absolute path and the digest of its file.

    Raises:
        ValueError: no such file, not Python, or no such class; the line says what there is.
    """
    found = NAME.fullmatch(text)
    if found is None:
        raise ValueError(f"{text!r} is no processor; allowed: FILE.py:CLASS")
    path = (folder / found["file"]).absolute()
    source = _source(path)
    try:
        tree = ast.parse(source, str(path))
    except SyntaxError as error:
        raise ValueError(f"{path}:{error.lineno}: not Python: {error.msg}") from None
    classes = [node.name for node in tree.body if isinstance(node, ast.ClassDef)]
    if found["name"] not in classes:
        told = ", ".join(classes) or "no class at all"
        raise ValueError(f"{path} has no class {found['name']!r}; it has {told}")
    return f"{path}:{found['name']}#{_digest(source)}"


def load_processor(text: str) -> Supplier:
    """Return the class of a processor, whose name may have the digest of its file.

    Raises:
        ValueError: the file is gone or was changed, fails, or its class is no Processor.
    """
    found = NAME.fullmatch(text)
    if found is None:
        raise ValueError(f"{text!r} is no processor; allowed: FILE.py:CLASS")
    path = Path(found["file"])
    digest = _digest(_source(path))
    if found["digest"] not in (None, digest):
        raise ValueError(f"{path} was changed since the run")
    loaded: Any = getattr(_module(path, digest), found["name"], None)
    if not isinstance(loaded, type) or not issubclass(loaded, Processor):
        raise ValueError(
            f"{path}: {found['name']} is no processor; allowed: a subclass of "
            f"kafkasim.model.streams.processors.context.Processor"
        )
    return loaded


def _source(path: Path) -> str:
    try:
        return path.read_text(encoding="utf-8")
    except (OSError, ValueError) as error:
        told = error.strerror if isinstance(error, OSError) else error
        raise ValueError(f"{path}: cannot be read: {told}") from None


def _digest(source: str) -> str:
    return hashlib.sha256(source.encode()).hexdigest()[:16]


@functools.cache
def _module(path: Path, digest: str) -> ModuleType:
    name = f"kafkasim_processors_{digest}"
    spec = importlib.util.spec_from_file_location(name, path)
    assert spec is not None, path
    assert spec.loader is not None, path
    module = importlib.util.module_from_spec(spec)
    sys.modules[name] = module  # where dataclasses look annotations up
    try:
        spec.loader.exec_module(module)
    except Exception as error:
        raise ValueError(f"{path}: {type(error).__name__}: {error}") from None
    return module
