"""The normal form: what coordinators and leaders wrote of transactions, as text of two runs.

Each transactional id has the records of ``__transaction_state`` in the order of the log, and each
partition its producers' records and markers. Without times; producer ids are A, B, … in the order
in which the coordinators' log names them.

- Records of Ongoing that follow one another are one, the last: which partitions come in one request
  is a race.
- Batches of records that one producer wrote under one epoch, one after the other, are one line.
- A line says where another leader of ``__transaction_state``, so another coordinator, goes on.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from string import ascii_uppercase

from tests.fidelity.playing.told import Told
from tests.fidelity.playing.transactions.log import Entry, Logged, Written

LOGS, PARTITIONS = 0, 1


class TransactionHistory:
    """Reads the only partition of ``__transaction_state``, and the partitions of data."""

    def __init__(self) -> None:
        self._told = Told()
        self._names: dict[int, str] = {}  # producer id -> name
        self._epochs: dict[str, int] = {}  # transactional id -> leader epoch of its last record
        self._ongoing: dict[str, str] = {}  # by transactional id: a line that is not yet told

    def lines(
        self, entries: Iterable[Entry], logs: Mapping[tuple[str, int], Iterable[Written]]
    ) -> list[str]:
        """Return the text of the coordinators' log and of the logs of partitions."""
        for entry in entries:
            self._read(entry)
        for transactional_id in list(self._ongoing):
            self._tell(transactional_id)
        for (topic, number), batches in logs.items():
            last = ""
            for batch in batches:
                line = self._batch(batch)
                if line != last or batch.marker:
                    self._told.say(PARTITIONS, f"{topic}-{number}", f": {line}")
                last = line
        return self._told.lines()

    def _read(self, entry: Entry) -> None:
        name = entry.transactional_id
        if self._epochs.setdefault(name, entry.epoch) != entry.epoch:
            self._epochs[name] = entry.epoch
            self._tell(name)
            self._told.say(LOGS, name, ": -- another coordinator")
        if entry.fields is None:
            self._tell(name)
            self._told.say(LOGS, name, ": removed")
        elif entry.fields.state == "Ongoing":
            self._ongoing[name] = self._value(entry.fields)
        else:
            self._tell(name)
            self._told.say(LOGS, name, f": {self._value(entry.fields)}")

    def _tell(self, transactional_id: str) -> None:
        line = self._ongoing.pop(transactional_id, None)
        if line is not None:
            self._told.say(LOGS, transactional_id, f": {line}")

    def _value(self, found: Logged) -> str:
        told = f"{self._name(found.producer_id)} epoch {found.producer_epoch}: {found.state}"
        told += f", timeout {found.timeout_ms}, client's version {found.client_version}"
        if found.partitions:
            told += ", " + " ".join(f"{topic}-{number}" for topic, number in found.partitions)
        for what, producer_id in (("before", found.previous_producer_id),
                                  ("then", found.next_producer_id)):  # fmt: skip
            if producer_id >= 0:
                told += f", {what} {self._name(producer_id)}"
        return told

    def _batch(self, batch: Written) -> str:
        if batch.producer_id < 0:
            return "records"
        of = f"of {self._name(batch.producer_id)} epoch {batch.producer_epoch}"
        if not batch.marker:
            return f"records {of}"
        return f"{batch.marker} {of}, coordinator epoch {batch.coordinator_epoch}"

    def _name(self, producer_id: int) -> str:
        known = len(self._names)
        return self._names.setdefault(producer_id, ascii_uppercase[known % 26])
