"""Pictures of runs, as PNG and SVG, drawn from small collected rows.

A picture of one run takes a :class:`~kafkasim.analysis.figures.timeline.OneRun`; the picture of a
fleet takes its stored runs. ``out`` is a path without suffix.
"""

from kafkasim.analysis.plots import fleet_view, isr_flapping, latency, task_lanes

ONE_RUN = {"isr-flapping": isr_flapping.draw, "latency": latency.draw, "tasks": task_lanes.draw}
"""The pictures of one run, by name."""

draw_fleet = fleet_view.draw

__all__ = ["ONE_RUN", "draw_fleet"]
