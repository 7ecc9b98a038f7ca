"""Log directories by path and by id (log.dirs; org.apache.kafka.common.DirectoryId, KIP-858).

The *root* of a directory is the prefix of the paths of all files in it. A server with one directory
has the root "" for it. As long as its disk is the first one, it names no directory to the
controller, as before metadata version 3.7-IV2, and MIGRATING stands for that directory. With
another disk it names the new directory. If the one directory fails, the process halts, and the
controller fences the broker.
"""

from __future__ import annotations

import random
from collections.abc import Sequence

from kafkasim.model.values import random_uuid

UNASSIGNED = "AAAAAAAAAAAAAAAAAAAAAQ"
"""The directory of a replica that its broker has not placed or reported yet."""

LOST = "AAAAAAAAAAAAAAAAAAAAAg"
"""The directory of a replica that is in some offline directory."""

MIGRATING = "AAAAAAAAAAAAAAAAAAAAAA"
"""The directory of a replica whose broker has registered without directories."""

RESERVED = (UNASSIGNED, LOST, MIGRATING)


def roots(log_dirs: Sequence[str]) -> tuple[str, ...]:
    """Return the root of each directory in log.dirs; for no path or one, only the root ""."""
    return ("",) if len(log_dirs) < 2 else tuple([root(path) for path in log_dirs])


def root(path: str) -> str:
    """Return the prefix of the paths of all files in a directory."""
    return path.rstrip("/") + "/"


def metadata_root(log_dirs: Sequence[str], metadata_log_dir: str) -> str:
    """Return the root of the metadata log: that of metadata.log.dir, or of the first directory."""
    own = metadata_log_dir and len(log_dirs) > 1
    return root(metadata_log_dir) if own else roots(log_dirs)[0]


def problem(log_dirs: Sequence[str]) -> str | None:
    """Return why these paths cannot be log.dirs (LogManager.createAndValidateLogDirs).

    None if they can.
    """
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
    """Return the directories of a partition's replicas, or () if all of them are MIGRATING."""
    return tuple(directories) if any(each != MIGRATING for each in directories) else ()


def random_id(rng: random.Random) -> str:
    """Return a new directory id (DirectoryId.random)."""
    while True:
        directory_id = random_uuid(rng)
        if directory_id not in RESERVED:
            return directory_id


def is_online(directory_id: str, online: Sequence[str]) -> bool:
    """Return whether a replica's directory is online (DirectoryId.isOnline).

    ``online`` are the broker's online directories; a broker that registered none has none offline.
    """
    if directory_id in (UNASSIGNED, MIGRATING):
        return True
    if directory_id == LOST:
        return False
    return not online or directory_id in online


def went_with_disk(directory_id: str, online: Sequence[str]) -> bool:
    """Return whether a replica was on an earlier disk of a broker with one log directory.

    The directory of the first disk has no name; the only one of ``online`` is that of a later one.
    """
    return directory_id == MIGRATING and len(online) == 1
