"""Conversations of a group coordinator with its members as text.

Each ``group_*.txt`` is a list of ``> command`` lines with all that follows: answers as the
coordinator sends them, and the group's changes of state. Rewrite them with
``REWRITE=1 pytest tests/transcripts/test_group_transcripts.py`` and review the diff. Commands:
``config KEY VALUE``, ``join CLIENT [INSTANCE]``, ``sync CLIENT [CLIENT=PARTITION,…]…`` (the second
form from the leader), ``heartbeat CLIENT [old]`` (from the process before its restart), ``commit
CLIENT OFFSET``, ``leave CLIENT``, ``wait SECONDS``, ``restart CLIENT`` (it forgets its member id),
``offsets``.

Lines: seconds since the start, to whom, what. Member ids are shown as the client's name and a
number, in the order in which the coordinator hands them out.
"""

from pathlib import Path

import pytest

from kafkasim.model import facts
from kafkasim.model.records import TopicPartition
from tests.model.group_harness import Bench, commit, fetch, heartbeat, join, leave, offsets, sync
from tests.transcripts.transcript import play

HERE = Path(__file__).parent


class Script:
    """Executes commands on a coordinator of its own; ``billing`` consumes ``orders``."""

    def __init__(self):
        self.config = {}
        self.bench = None
        self.ids = {}  # client -> its member id, "" before it has one
        self.old_ids = {}  # client -> the member id that its process before the restart has
        self.instances = {}  # client -> group.instance.id
        self.generations = {}  # client -> the generation that it knows
        self.shown_as = {}  # member id -> how a transcript shows it
        self.asked = {}  # number of a request -> (client, what it asked)
        self.facts_shown = 0

    def run(self, line):
        """Execute one command; return what happened, as lines."""
        command, *args = line.split()
        if command == "config":
            self.config[args[0].replace(".", "_")] = int(args[1])
            return []
        if self.bench is None:
            self.bench = Bench(**self.config).elect()
            self.facts_shown = len(self.bench.facts)
        if command == "wait":
            return list(self.wait(float(args[0])))
        answer = getattr(self, f"do_{command}")(*args) or []
        return [*self.news(), *(f"  = {text}" for text in answer)]

    def wait(self, seconds):
        """Let time pass in steps, so that each line shows when it happened."""
        end = self.bench.now + round(seconds * 1_000_000)
        while self.bench.now < end:
            self.bench.wait(min(0.1, (end - self.bench.now) / 1_000_000))
            yield from self.news()

    def news(self):
        """Return lines for the answers and facts since the last call."""
        lines = []
        for number in sorted(self.bench.answers.keys() & self.asked.keys()):
            client, asked = self.asked.pop(number)
            lines.append((client, self.told(client, asked, self.bench.answers[number])))
        for fact in self.bench.facts[self.facts_shown :]:
            if isinstance(fact, facts.GroupState):
                members = ", ".join(map(self.shown, fact.member_ids))
                text = f"{fact.state} generation={fact.generation} members=[{members}]"
                lines.append(("group", f"{text} ({self.named(fact.reason)})"))
        self.facts_shown = len(self.bench.facts)
        seconds = self.bench.now / 1_000_000
        return [f"  {seconds:6.1f}  {who:<6}  {what}" for who, what in lines]

    def told(self, client, asked, answer):
        """Return one answer as text, and let the client learn from it."""
        name = type(answer).__name__
        error = "" if answer_error(answer) == "NONE" else f" {answer_error(answer)}"
        if name == "JoinGroupResponse":
            if answer.member_id:
                self.ids[client] = answer.member_id
            text = f"JoinGroupResponse{error} member={self.shown(answer.member_id)}"
            if not error:
                self.generations[client] = answer.generation_id
                leads = answer.leader == answer.member_id
                members = ", ".join(self.shown(member.member_id) for member in answer.members)
                text += f" generation={answer.generation_id} leader={self.shown(answer.leader)}"
                text += f" members=[{members}]" if leads else ""
                text += " skip_assignment" if answer.skip_assignment else ""
            return text
        if name == "SyncGroupResponse":
            owned = ", ".join(f"{tp.topic}-{tp.partition}" for tp in answer.assignment)
            return f"SyncGroupResponse{error} [{owned}]"
        return f"{name}{error}"

    def shown(self, member_id):
        if member_id and member_id not in self.shown_as:
            owner = next((c for c, known in self.ids.items() if known == member_id), None)
            if owner is None:  # the coordinator's facts tell of a member before its answer does
                starts = {c: f"{self.instances.get(c, c)}-" for c in self.ids}
                owner = next(c for c, start in starts.items() if member_id.startswith(start))
            count = sum(name.startswith(f"{owner}#") for name in self.shown_as.values())
            self.shown_as[member_id] = f"{owner}#{count + 1}"
        return self.shown_as.get(member_id, "-")

    def named(self, reason):
        """Return a reason with the member ids in it as they are shown."""
        for member_id, name in self.shown_as.items():
            reason = reason.replace(member_id, name)
        return reason.removesuffix(": ")

    def ask(self, client, message):
        self.asked[self.bench.ask(message)] = (client, type(message).__name__)

    def do_join(self, client, instance=None):
        if instance is not None:
            self.instances[client] = instance
        member_id = self.ids.setdefault(client, "")
        asked = join(member_id, client=client, instance=self.instances.get(client))
        self.ask(client, asked)

    def do_sync(self, client, *assignments):
        given = []
        for text in assignments:
            member, _, partitions = text.partition("=")
            owned = tuple(TopicPartition("orders", int(p)) for p in partitions.split(","))
            given.append((self.ids[member], owned))
        asked = sync(
            self.ids[client],
            self.generations[client],
            tuple(given),
            instance=self.instances.get(client),
        )
        self.ask(client, asked)

    def do_heartbeat(self, client, process="new"):
        generation, instance = self.generations[client], self.instances.get(client)
        member_id = self.old_ids[client] if process == "old" else self.ids[client]
        self.ask(client, heartbeat(member_id, generation, instance))

    def do_commit(self, client, offset):
        instance = self.instances.get(client)
        asked = commit(int(offset), self.ids[client], self.generations[client], instance=instance)
        self.ask(client, asked)

    def do_leave(self, client):
        self.ask(client, leave(self.ids[client], self.instances.get(client)))

    def do_restart(self, client):
        self.old_ids[client] = self.ids[client]
        self.ids[client] = ""

    def do_offsets(self):
        committed = offsets(self.bench.get(fetch()))
        return [", ".join(f"{tp.topic}-{tp.partition}={at}" for tp, at in committed.items())]


def answer_error(answer):
    """Return the name of an answer's error; an OffsetCommit has one per partition."""
    error = getattr(answer, "error", None)
    return (answer.results[0][1] if error is None else error).name


@pytest.mark.parametrize("path", sorted(HERE.glob("group_*.txt")), ids=lambda path: path.stem)
def test_transcript(path):
    play(path, Script())
