"""A deterministic simulator of Apache Kafka that breaks the cluster on purpose.

    import kafkasim

    outcome = kafkasim.run("split-brain", seed=7)
    outcome.verdict, outcome.anomalies, outcome.facts("Acked")

The public API is :func:`run`, the :class:`Outcome` that it returns, and :class:`ScenarioError`;
they are described in :mod:`kafkasim.scenarios.api`, and loaded when they are first asked for.
:mod:`kafkasim.strategies` draws clusters and faults for Hypothesis, and
:mod:`kafkasim.pytest_plugin` gives tests the fixture ``kafka``.

The folders ``model``, ``sim``, ``scenarios`` and ``analysis`` of the repository are the packages
``kafkasim.model``, ``kafkasim.sim``, …: links beside this file, so that installation, type checkers
and editors read one and the same tree.
"""

from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from kafkasim.scenarios.api import Outcome, ScenarioError, run

__all__ = ["Outcome", "ScenarioError", "run"]


def __getattr__(name: str) -> Any:
    """Load the API when it is first asked for: whoever imports a part pays for that part only."""
    if name not in __all__:
        raise AttributeError(f"module 'kafkasim' has no attribute {name!r}")
    from kafkasim.scenarios import api

    return getattr(api, name)


def __dir__() -> list[str]:
    """Name the API before it is loaded, for whoever completes names."""
    return sorted({*globals(), *__all__})
