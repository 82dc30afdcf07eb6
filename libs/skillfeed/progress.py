"""One progress line on stderr: units, rows, rate, time left. A bar on a terminal, a line every ten seconds in a log."""

import sys
import time
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager

from rich.console import Console
from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn, TimeElapsedColumn, TimeRemainingColumn

LOG_SECONDS = 10.0


def note(text: str) -> None:
    """One line on stderr."""
    print(text, file=sys.stderr, flush=True)


Step = Callable[[Mapping[str, int]], None]


@contextmanager
def progress(stage: str, *, total: int, done: int = 0) -> Iterator[Step]:
    """A function to call with the counts of each finished unit; its `rows` are shown as a rate."""
    started, rows, finished, last_line = time.monotonic(), 0, done, time.monotonic()
    console = Console(stderr=True)
    columns = (
        TextColumn("{task.description:<12}"),
        BarColumn(),
        MofNCompleteColumn(),
        TextColumn("{task.fields[rate]}"),
        TimeElapsedColumn(),
        TimeRemainingColumn(),
    )
    with Progress(*columns, console=console, disable=not console.is_terminal) as bar:
        task = bar.add_task(stage, total=total, completed=done, rate="")

        def step(counts: Mapping[str, int]) -> None:
            nonlocal rows, finished, last_line
            rows, finished = rows + counts.get("rows", 0), finished + 1
            elapsed = max(time.monotonic() - started, 1e-9)
            bar.update(task, completed=finished, rate=f"{rows / elapsed:,.0f} rows/s")
            if not console.is_terminal and (time.monotonic() - last_line >= LOG_SECONDS or finished == total):
                left = elapsed / (finished - done) * (total - finished)
                rate = f"{rows:,} rows, {rows / elapsed:,.0f} rows/s, {left:,.0f} s left"
                note(f"{stage}: {finished}/{total} units, {rate}")
                last_line = time.monotonic()

        yield step
