"""One replica's log on a disk that can lose power, and the commands that drive it."""

from kafkasim.model.config import TopicConfig
from kafkasim.model.effects import Barrier, Flush
from kafkasim.model.facts import LogStart
from kafkasim.model.records import Record, TopicPartition, assigned, batch_of
from kafkasim.model.storage.files import Corrupt
from kafkasim.model.storage.log.unified_log import UnifiedLog
from kafkasim.model.storage.rules import StorageRules
from tests.model.raft_cluster import Disk
from tests.transcripts.raft_script import names

RECORD_BYTES = 39  # with the header of a batch: 100


class Script:
    """Executes commands on a log of its own; the checkpoints are kept beside it."""

    def __init__(self):
        self.disk = Disk()
        self.properties = {}
        self.checkpoint = {}  # what the broker would write into its checkpoint files
        self.log = None
        self.flushes = []  # in the background, not finished

    def run(self, line):
        command, *args = line.split()
        if self.log is None and command != "config":
            self.open(clean=True)
        result = getattr(self, "do_" + command.replace("-", "_"))(*args) or []
        lines = [] if self.log is None else self.effects()
        return lines + [f"  = {text}" for text in result]

    def open(self, clean):
        self.log = UnifiedLog(
            self.disk,
            [],
            "orders-0",
            TopicPartition("orders", 0),
            "id",
            TopicConfig(**self.properties),
            StorageRules(),
            clean=clean,
            **self.checkpoint,
        )

    def effects(self):
        """What the log asked for: a Barrier is durable at once, a Flush when ``flush`` says so."""
        lines = []
        for effect in self.log.out:
            if isinstance(effect, Barrier):
                self.disk.flush(effect.files)
                lines.append(f"  fsync {short(effect.files)}")
            elif isinstance(effect, Flush):
                self.flushes.append(effect)
                lines.append(f"  flush {short(effect.files)}")
            elif isinstance(effect, LogStart):
                lines.append(f"  log start {effect.offset} ({effect.reason})")
        self.log.out.clear()
        return lines

    def do_config(self, key, value):
        self.properties[key.replace(".", "_")] = int(value)

    def do_append(self, epoch, *values):
        result = self.log.append_as_leader(batch(values), int(epoch), 0)
        return [f"{result.error.name}, offset {result.base_offset}"]

    def do_append_sequence(self, producer, sequence, *values):
        sent = batch(values, int(producer), int(sequence))
        result = self.log.append_as_leader(sent, 0, 0)
        again = ", which it has already" if result.duplicate else ""
        return [f"{result.error.name}, offset {result.base_offset}{again}"]

    def do_fetched(self, epoch, offset, *values):
        sent = assigned(batch(values), int(offset), int(epoch))
        result = self.log.append_as_follower((sent,), int(epoch))
        return [f"{result.error.name}, log end {self.log.log_end_offset}"]

    def do_high_watermark(self, offset):
        self.log.update_high_watermark(int(offset))

    def do_truncate(self, offset):
        self.log.truncate_to(int(offset))

    def do_retention(self, now_ms):
        return [f"{self.log.delete_old_segments(int(now_ms))} segments deleted"]

    def do_flush(self):
        """Let the background flushes finish."""
        for effect in self.flushes:
            self.disk.flush(effect.files)
            effect.handler(None, 0)
        self.flushes.clear()

    def do_checkpoint(self):
        log = self.log
        self.checkpoint = {
            "recovery_point": log.recovery_point,
            "log_start_offset": log.log_start_offset,
            "high_watermark": log.high_watermark,
        }
        return [", ".join(f"{name.replace('_', ' ')} {at}" for name, at in self.checkpoint.items())]

    def do_close(self):
        """Stop cleanly: everything is flushed, then the marker is written."""
        self.disk.flush(self.log.close_clean())
        self.log.local.flushed(self.log.log_end_offset)
        self.do_checkpoint()
        self.open(clean=True)

    def do_power_loss(self):
        self.flushes.clear()
        self.disk.lose_power()
        self.open(clean=False)

    def do_crash(self):
        self.flushes.clear()
        self.open(clean=False)

    def do_tear(self, base_offset):
        """Damage the last batch of a segment, as a power loss in the middle of a write does."""
        path = f"orders-0/{int(base_offset):020d}.log"
        count = self.disk.count(path)
        last = self.disk.read(path, count - 1)[0]
        self.disk.truncate(path, count - 1)
        self.disk.append(path, Corrupt(last), last.size)

    def do_state(self):
        log = self.log
        segments = " ".join(
            f"log@{segment.base_offset}:{len(segment.batches)}" for segment in log.segments
        )
        producers = {pid: entry.batches[-1][1] for pid, entry in log.producers.entries.items()}
        last = f", last sequences {producers}" if producers else ""
        offsets = (
            f"[{log.log_start_offset}, {log.log_end_offset}) "
            f"high watermark {log.high_watermark}, recovery point {log.recovery_point}"
        )
        return [offsets, f"segments {segments}, epochs {log.epochs.entries}{last}"]


def batch(values, producer=-1, sequence=-1):
    records = tuple([Record(None, value, RECORD_BYTES, 0) for value in values])
    epoch = 0 if producer >= 0 else -1
    return batch_of(records, producer_id=producer, producer_epoch=epoch, base_sequence=sequence)


def short(paths):
    return names([path.removeprefix("orders-0/") for path in paths])
