"""What ends a command early: a crash of the simulator, or bad input of any kind."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

from kafkasim.model.config import ConfigError
from kafkasim.scenarios.commands.common import InputError
from kafkasim.scenarios.language.files.rules import shown
from kafkasim.scenarios.language.spec import ScenarioError
from kafkasim.scenarios.running.moments import MomentError
from kafkasim.scenarios.variants.variant import VariantError
from kafkasim.scenarios.wire.failures import JournalError, SessionError
from kafkasim.sim.trace.store import ManifestError


class Crashed(Exception):
    """The simulator itself failed in a run: how to replay it, and the directory of its trace.

    ``variants`` were in force: a rule may have given what the rest of the model does not expect.
    """

    def __init__(self, replay: str, directory: Path | None, variants: Sequence[str] = ()) -> None:
        super().__init__(replay)
        self.replay = replay
        self.told = "the simulator itself failed"
        if variants:
            names = ", ".join(map(shown, variants))
            self.told = f"the model failed with {names} in force; run the seed without, too"
        self.directory = directory


INPUT_ERRORS = (
    InputError, ScenarioError, VariantError, ManifestError, ConfigError, MomentError,
    JournalError, SessionError,
)  # fmt: skip
"""Errors that mean bad input: one line on stderr and exit code 2."""
