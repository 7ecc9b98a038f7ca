"""``python -m kafkasim.scenarios.bench.size``: lines of code, data and prose by part.

Everything counts that a reader may have to read: blank lines, comments and docstrings too. Data are
scenarios, stored seeds, answers of real brokers and transcripts: a rule that moves from code into a
table stays in the sum.
"""

from __future__ import annotations

from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]

CODE = (".py",)
DATA = (".toml", ".json", ".txt", ".html", ".css", ".js", ".properties", ".java")
PROSE = (".md",)

PARTS: dict[str, tuple[str, ...]] = {
    "the court: judges, queries, explain, story": (
        "analysis/judging", "analysis/queries.py", "analysis/explain",
        "analysis/story", "analysis/figures/describe.py", "analysis/figures/quorum.py",
        "analysis/figures/state.py", "scenarios/running/report.py",
    ),
    "model": ("model",),
    "sim": ("sim",),
    "scenarios": ("scenarios",),
    "analysis": ("analysis",),
    "all outside tests": ("model", "sim", "scenarios", "analysis"),
    "tests": ("tests",),
}  # fmt: skip
"""Parts that overlap: the court lies in analysis."""


def lines(places: tuple[str, ...], endings: tuple[str, ...]) -> int:
    """Return the number of lines of the files with some endings below some places."""
    found = 0
    for place in places:
        path = ROOT / place
        files = [path] if path.is_file() else sorted(path.rglob("*"))
        for file in files:
            if file.suffix in endings and "__pycache__" not in file.parts:
                found += len(file.read_text(encoding="utf-8").splitlines())
    return found


def table() -> list[str]:
    """Return the table, a line for each part."""
    rows = [f"{'lines':44} {'code':>8} {'data':>8} {'prose':>8}"]
    for part, places in PARTS.items():
        counts = [lines(places, endings) for endings in (CODE, DATA, PROSE)]
        rows.append(f"{part:44} {counts[0]:8} {counts[1]:8} {counts[2]:8}")
    return rows


if __name__ == "__main__":
    print("\n".join(table()))
