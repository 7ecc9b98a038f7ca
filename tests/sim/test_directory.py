"""The names of a disk against a slow twin: a dict, a list of pending operations, and scans."""

import random

from hypothesis import given
from hypothesis import strategies as st

from kafkasim.sim.disk.directory import JOURNAL_COMMIT_US, Directory

PATHS = ["f", "a/f", "a/g", "a/b/f", "ab/f", "/d/a/f"]
QUESTIONS = ["", "a", "a/", "a/b/", "ab/", "/d/", "/", "b", *PATHS]

operations = st.one_of(
    st.tuples(st.just("create"), st.sampled_from(PATHS)),
    st.tuples(st.just("delete"), st.sampled_from(PATHS)),
    st.tuples(st.just("rename"), st.sampled_from(PATHS), st.sampled_from(PATHS)),
    st.tuples(st.just("wait"), st.integers(0, JOURNAL_COMMIT_US)),
    st.tuples(st.just("flush"), st.sampled_from(QUESTIONS[1:])),
    st.tuples(st.just("lose"), st.integers(0, 3)),
)


class Twin:
    """Asks every name and every pending operation."""

    def __init__(self) -> None:
        self.names: dict[str, object] = {}
        self.pending: list[tuple[int, int, str, str, dict[str, object]]] = []
        self.number = 0

    def log(self, now: int, path: str, new_path: str, before: dict[str, object]) -> None:
        self.number += 1
        self.pending.append((self.number, now, path, new_path, before))
        self.commit_old(now)

    def commit_old(self, now: int) -> None:
        self.pending = [op for op in self.pending if op[1] >= now - JOURNAL_COMMIT_US]

    def last_operation(self, name: str) -> int:
        for number, _, path, new_path, _ in reversed(self.pending):
            if name in (path, new_path) or (name.endswith("/") and path.startswith(name)):
                return number
        return 0


@given(st.lists(operations, max_size=40))
def test_the_tables_answer_as_scans_do(steps):
    directory, twin, now = Directory(), Twin(), 0
    for step in steps:
        before = dict(twin.names)
        if step[0] == "create" and step[1] not in twin.names:
            twin.names[step[1]] = directory.create(step[1], now)
            twin.log(now, step[1], "", before)
        elif step[0] == "delete" and step[1] in twin.names:
            assert directory.delete(step[1], now) is twin.names.pop(step[1])
            twin.log(now, step[1], "", before)
        elif step[0] == "rename" and step[1] in twin.names:
            assert directory.rename(step[1], step[2], now) is twin.names.get(step[2])
            twin.names[step[2]] = twin.names.pop(step[1])
            twin.log(now, step[1], step[2], before)
        elif step[0] == "wait":
            now += step[1]
            directory.commit_old(now)
            twin.commit_old(now)
        elif step[0] == "flush":
            number = directory.last_operation([step[1]])
            directory.commit(number)
            twin.pending = [op for op in twin.pending if op[0] > number]
        elif step[0] == "lose":
            directory.lose(random.Random(step[1]))
            keep = int(random.Random(step[1]).random() * (len(twin.pending) + 1))
            for _, _, _, _, earlier in reversed(twin.pending[keep:]):
                twin.names = earlier
            twin.pending = []
        assert directory.inodes == twin.names
        for question in QUESTIONS:
            found = sorted([path for path in twin.names if path.startswith(question)])
            assert directory.paths(question) == found, question
            assert directory.last_operation([question]) == (
                twin.last_operation(question) if question else 0
            )


def test_of_several_files_the_last_operation_counts():
    directory = Directory()
    for path in ("a/f", "b/f", "c"):
        directory.create(path, 0)
    found = [directory.last_operation(files) for files in ([], ["c", "a/f"], ["b/", "a/f"], ["x"])]
    assert found == [0, 3, 2, 0]
