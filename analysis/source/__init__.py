"""Runs as Spark reads them: the data source ``kafkasim``, and the tables of runs and facts."""

from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from kafkasim.analysis.source.kafkasim_source import KafkaSim

__all__ = ["KafkaSim"]


def __getattr__(name: str) -> Any:
    """Load the data source, and with it the simulator, when it is first asked for."""
    if name not in __all__:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    from kafkasim.analysis.source import kafkasim_source

    return kafkasim_source.KafkaSim
