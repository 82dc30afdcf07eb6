"""Units on a real local Ray."""

import sys
from collections.abc import Iterator
from functools import partial
from pathlib import Path

import pytest
from ray import cloudpickle

from skillfeed.errors import SettingError, SnapshotError
from skillfeed.storage import write_bytes
from skillfeed.units import ray_session, run_units
from skillfeed.work import Counts, Work

cloudpickle.register_pickle_by_value(sys.modules[__name__])  # workers cannot import a test module


@pytest.fixture(scope="module")
def ray_running() -> Iterator[None]:
    with ray_session():
        yield


def counting_work(directory: str) -> Work:
    """Each unit leaves one file more for every time it runs."""

    def work(unit: str) -> Counts:
        runs = len(list(Path(directory).glob(f"{unit}-*")))
        write_bytes(f"{directory}/{unit}-{runs}", b"")
        return {"rows": int(unit)}

    return work


def failing_work(directory: str, unit_that_fails: str) -> Work:
    done = counting_work(directory)

    def work(unit: str) -> Counts:
        if unit == unit_that_fails:
            raise ValueError("unit fails")
        return done(unit)

    return work


def runs_of(directory: Path) -> dict[str, int]:
    names = [path.name.split("-")[0] for path in directory.iterdir()]
    return {name: names.count(name) for name in names}


@pytest.mark.usefixtures("ray_running")
def test_every_unit_runs_once_and_counts_are_summed(tmp_path: Path) -> None:
    runs, output = tmp_path / "runs", str(tmp_path / "output")

    counts = run_units("stage", output, ["1", "2", "3"], partial(counting_work, str(runs)))

    assert counts == {"rows": 6}
    assert runs_of(runs) == {"1": 1, "2": 1, "3": 1}


@pytest.mark.usefixtures("ray_running")
def test_a_second_start_runs_nothing_again_and_counts_the_same(tmp_path: Path) -> None:
    runs, output = tmp_path / "runs", str(tmp_path / "output")
    run_units("stage", output, ["1", "2"], partial(counting_work, str(runs)))

    counts = run_units("stage", output, ["1", "2", "5"], partial(counting_work, str(runs)))

    assert counts == {"rows": 8}
    assert runs_of(runs) == {"1": 1, "2": 1, "5": 1}


@pytest.mark.usefixtures("ray_running")
def test_a_failing_unit_fails_the_stage_and_keeps_the_finished_ones(tmp_path: Path) -> None:
    runs, output = tmp_path / "runs", str(tmp_path / "output")
    run_units("stage", output, ["1"], partial(counting_work, str(runs)))

    with pytest.raises(Exception, match="unit fails"):
        run_units("stage", output, ["1", "2"], partial(failing_work, str(runs), "2"))

    assert run_units("stage", output, ["1", "2"], partial(counting_work, str(runs))) == {"rows": 3}
    assert runs_of(runs)["1"] == 1


@pytest.mark.usefixtures("ray_running")
def test_a_gpu_that_is_not_there_is_a_bad_setting(tmp_path: Path) -> None:
    with pytest.raises(SettingError, match="needs 1 CPUs and 1 GPUs, this machine has"):
        run_units("stage", str(tmp_path), ["1"], partial(counting_work, str(tmp_path)), gpus=1)


def refusing_work() -> Work:
    raise SnapshotError("part.faiss: damaged")


@pytest.mark.usefixtures("ray_running")
def test_what_an_actor_cannot_start_with_is_said_once_and_not_tried_for_ever(tmp_path: Path) -> None:
    with pytest.raises(SettingError, match=r"^part\.faiss: damaged$"):
        run_units("stage", str(tmp_path), ["1", "2"], refusing_work)
