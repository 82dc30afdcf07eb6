"""Distributed work as numbered units on a Ray Data actor pool, each done once however often the job is started.

A unit reads its own input, writes files named after itself, each as a whole, and returns counts. Its marker, written
last, holds those counts. A unit that ran twice (a retry, a second start) leaves what one run leaves; a unit with a
marker is not run again. Rows never pass through the object store. See docs/decisions/0001-units.md.
"""

import json
import logging
import os
from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from typing import Any, Protocol, TypeVar

import ray
from ray.data import ActorPoolStrategy, DataContext

from skillfeed.errors import SettingError, SnapshotError
from skillfeed.progress import progress
from skillfeed.storage import exists, join, list_files, read_bytes, write_bytes
from skillfeed.work import Counts, Work


class Sized(Protocol):
    @property
    def size(self) -> int: ...


Item = TypeVar("Item", bound=Sized)


def group_by_size(items: Sequence[Item], bytes_per_group: int, items_per_group: int) -> list[tuple[Item, ...]]:
    """Items in their order, cut so that a unit of one group is neither long to read nor many objects to open."""
    groups: list[list[Item]] = []
    size = 0
    for item in items:
        if not groups or size + item.size > bytes_per_group or len(groups[-1]) >= items_per_group:
            groups.append([])
            size = 0
        groups[-1].append(item)
        size += item.size
    return [tuple(group) for group in groups]


@contextmanager
def ray_session() -> Iterator[None]:
    """A running Ray: the cluster of RAY_ADDRESS (set by `ray job submit`), else a local one that is stopped after."""
    for chatty in ("ray._private.authentication", "ray.data"):  # a line or more for each step and each start
        logging.getLogger(chatty).setLevel(logging.ERROR)
    ours, local = not ray.is_initialized(), "RAY_ADDRESS" not in os.environ
    if ours and local:
        # At each actor pool Ray 2.60 prints an error that its own constructor arguments may be lost (issue 53727).
        os.environ.setdefault("RAY_BACKEND_LOG_LEVEL", "fatal")
        ray.init(include_dashboard=False, log_to_driver=False, logging_level=logging.WARNING)
    elif ours:
        ray.init(address=os.environ["RAY_ADDRESS"], logging_level=logging.WARNING)
    context = DataContext.get_current()
    context.enable_progress_bars = False  # one bar of our own, which also knows rows and rates
    context.print_on_execution_start = False
    try:
        yield
    finally:
        if ours:
            ray.shutdown()


def run_units(
    stage: str,
    output: str,
    units: Sequence[str],
    make_work: Callable[[], Work],
    *,
    actors: int | None = None,
    cpus: float = 1,
    gpus: float = 0,
) -> Counts:
    """Runs every unit of a stage that has no marker below `output`, and gives the sum of the counts of all of them.

    Args:
        make_work: called once in each actor, so models load there; must be picklable.
        actors: at most so many at once; by default one for each free share of the cluster.
    """
    markers = join(output, "_progress", stage)
    finished = _finished(markers)
    missing = [unit for unit in units if unit not in finished]
    totals: Counter[str] = Counter()
    for unit in units:
        totals.update(finished.get(unit, {}))
    with progress(stage, total=len(units), done=len(units) - len(missing)) as step:
        for counts in _run(missing, markers, make_work, actors or _fitting(cpus, gpus), cpus, gpus) if missing else ():
            totals.update(counts)
            step(counts)
    return dict(totals)


def _run(
    missing: list[str], markers: str, make_work: Callable[[], Work], actors: int, cpus: float, gpus: float
) -> Iterator[Counts]:
    pool = ActorPoolStrategy(min_size=1, max_size=max(1, min(actors, len(missing))))
    dataset = ray.data.from_items([{"unit": unit} for unit in missing], override_num_blocks=len(missing)).map_batches(
        _Worker,
        fn_constructor_kwargs={"make_work": make_work, "markers": markers, "threads": max(1, int(cpus))},
        batch_size=1,
        compute=pool,
        num_cpus=cpus,
        num_gpus=gpus,
    )
    wrong = ""
    for (
        row
    ) in dataset.iter_rows():  # to its end: Ray's reading thread outlives a loop that is left, and starts Ray anew
        if row["wrong"]:
            wrong = row["wrong"]
        else:
            yield json.loads(row["counts"])
    if wrong:
        raise SettingError(wrong)


class _Worker:
    """What Ray Data calls in each actor."""

    def __init__(self, make_work: Callable[[], Work], markers: str, threads: int) -> None:
        # The tokenizer's pool would otherwise take every core of the node in every actor of it.
        os.environ["RAYON_NUM_THREADS"] = str(threads)
        self._markers = markers
        self._wrong = ""
        try:
            self._work = make_work()
        except (SettingError, SnapshotError) as error:
            self._wrong = str(error)  # handed over by __call__: Ray would start an actor that raises here for ever

    def __call__(self, batch: dict[str, Any]) -> dict[str, Any]:
        if self._wrong:
            return {"counts": [""], "wrong": [self._wrong]}
        unit = str(batch["unit"][0])
        counts = json.dumps(self._work(unit))
        write_bytes(join(self._markers, f"{unit}.json"), counts.encode())
        return {"counts": [counts], "wrong": [""]}


def _finished(markers: str) -> dict[str, Counts]:
    """Unit to counts, for every marker there is."""
    if not exists(markers):
        return {}
    names = [info.base_name for info in list_files(markers) if info.base_name.endswith(".json")]
    return {name.removesuffix(".json"): json.loads(read_bytes(join(markers, name))) for name in names}


def _fitting(cpus: float, gpus: float) -> int:
    """How many actors of this size the cluster holds now.

    Raises:
        SettingError: none, on a local Ray. A cluster may still grow, so there the units wait for it.
    """
    resources = ray.cluster_resources()  # type: ignore[no-untyped-call]
    shares = [resources.get("CPU", 0) / cpus, *([resources.get("GPU", 0) / gpus] if gpus else [])]
    if min(shares) < 1 and not os.environ.get("RAY_ADDRESS"):
        had = f"{resources.get('CPU', 0):.0f} CPUs and {resources.get('GPU', 0):.0f} GPUs"
        raise SettingError(f"an actor needs {cpus:.0f} CPUs and {gpus:.0f} GPUs, this machine has {had}")
    return max(1, int(min(shares)))
