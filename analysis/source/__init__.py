"""Runs as Spark reads them: the data source ``kafkasim``, and the tables of runs and facts."""

from kafkasim.analysis.source.kafkasim_source import KafkaSim

__all__ = ["KafkaSim"]
