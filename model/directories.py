"""Log directories by path and by id (log.dirs; org.apache.kafka.common.DirectoryId, KIP-858).

A *root* is the prefix of all paths of one directory; the only directory of a server has the root
"". Such a server names no directory to the controller either, as before metadata version 3.7-IV2:
when its one directory fails the process ends, and the fencing of the broker says the same.
"""

from __future__ import annotations

import random
from collections.abc import Sequence

from kafkasim.model.values import random_uuid

UNASSIGNED = "AAAAAAAAAAAAAAAAAAAAAQ"
"""A replica that its broker is still to place, or to tell where it did."""

LOST = "AAAAAAAAAAAAAAAAAAAAAg"
"""A replica in some directory that is offline."""

MIGRATING = "AAAAAAAAAAAAAAAAAAAAAA"
"""A replica of a broker that has told of no directories."""

RESERVED = (UNASSIGNED, LOST, MIGRATING)


def roots(log_dirs: Sequence[str]) -> tuple[str, ...]:
    """Return the root of each log directory; no path, or one, is one directory."""
    return ("",) if len(log_dirs) < 2 else tuple([root(path) for path in log_dirs])


def root(path: str) -> str:
    """Return the prefix of all that lies in a directory."""
    return path.rstrip("/") + "/"


def metadata_root(log_dirs: Sequence[str], metadata_log_dir: str) -> str:
    """Return the root of the metadata log: the first directory, unless metadata.log.dir is set."""
    own = metadata_log_dir and len(log_dirs) > 1
    return root(metadata_log_dir) if own else roots(log_dirs)[0]


def problem(log_dirs: Sequence[str]) -> str | None:
    """Return why these cannot be log directories, or None (LogManager.createAndValidateLogDirs)."""
    known: list[str] = []
    for path in log_dirs:
        if not path.strip("/"):
            return f"{path!r} is no log directory"
        here = root(path)
        for other in known:
            if here.startswith(other) or other.startswith(here):
                return f"{path!r} lies in, or is, another log directory"
        known.append(here)
    return None


def named(directories: Sequence[str]) -> tuple[str, ...]:
    """Return the directories of all replicas of a partition; () stands for: all are MIGRATING."""
    return tuple(directories) if any(each != MIGRATING for each in directories) else ()


def random_id(rng: random.Random) -> str:
    """Return a directory id (DirectoryId.random)."""
    while True:
        directory_id = random_uuid(rng)
        if directory_id not in RESERVED:
            return directory_id


def is_online(directory_id: str, online: Sequence[str]) -> bool:
    """Return whether a replica's directory is one of those that its broker has online; a broker
    that has told of none is believed (DirectoryId.isOnline)."""
    if directory_id in (UNASSIGNED, MIGRATING):
        return True
    if directory_id == LOST:
        return False
    return not online or directory_id in online
