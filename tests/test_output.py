import os
from collections.abc import Mapping
from pathlib import Path

import pyarrow as pa
import pyarrow.dataset as pads
import pytest

from skillfeed.errors import SettingError
from skillfeed.job import Summary
from skillfeed.manifest import read_manifest
from skillfeed.output import once
from skillfeed.partitions import part_rows, read_pieces, write_part
from skillfeed.storage import delete_directory, join, write_bytes

SCHEMA = pa.schema([("digest", pa.string())])


@pytest.fixture(params=["local", "s3"])
def place(request: pytest.FixtureRequest, tmp_path: Path) -> str:
    """Where outputs go: a local directory or a bucket."""
    return str(tmp_path) if request.param == "local" else str(request.getfixturevalue("s3"))


class Job:
    """A job that writes one table of two rows and counts how often it worked."""

    def __init__(self, output: str) -> None:
        self.output = output
        self.worked = 0

    def run(
        self, identity: Mapping[str, object] | None = None, *, overwrite: bool = False, fail: bool = False
    ) -> Summary:
        def work() -> dict[str, int]:
            self.worked += 1
            write_part(join(self.output, "table"), "00000", pa.table([["a", "b"]], schema=SCHEMA))
            if fail:
                raise RuntimeError("killed")
            return {"rows_in": 2}

        given = dict(identity or {"a": 1})
        return once("sum", self.output, given, inputs=[], settings={}, overwrite=overwrite, work=work)


def test_finished_work_is_not_done_again(place: str) -> None:
    job = Job(f"{place}/out")

    first, second = job.run(), job.run()

    assert job.worked == 1
    assert (first.already_done, second.already_done) == (False, True)
    assert second.rows == {"rows_in": 2}


def test_only_the_table_and_the_manifest_stay(tmp_path: Path) -> None:
    Job(str(tmp_path / "out")).run()

    assert sorted(os.listdir(tmp_path / "out")) == ["manifest.json", "table"]


def test_an_output_of_other_settings_is_refused_and_named(place: str) -> None:
    job = Job(f"{place}/out")
    job.run({"a": 1, "b": 1})

    with pytest.raises(SettingError, match="differs in b"):
        job.run({"a": 1, "b": 2})


def test_overwrite_starts_afresh(place: str) -> None:
    job = Job(f"{place}/out")
    job.run({"a": 1})
    write_part(join(job.output, "old"), "00000", pa.table([["x"]], schema=SCHEMA))

    job.run({"a": 2}, overwrite=True)

    with pytest.raises(SettingError, match="does not exist"):
        part_rows(join(job.output, "old"))
    assert part_rows(join(job.output, "table")) == {"00000": 2}


def test_a_failed_run_leaves_no_manifest_and_is_continued(place: str) -> None:
    job = Job(f"{place}/out")
    with pytest.raises(RuntimeError, match="killed"):
        job.run(fail=True)

    assert read_manifest(job.output) is None
    assert not job.run().already_done


def test_an_unfinished_run_of_other_settings_is_not_thrown_away_unasked(place: str) -> None:
    job = Job(f"{place}/out")
    with pytest.raises(RuntimeError, match="killed"):
        job.run({"a": 1}, fail=True)

    with pytest.raises(SettingError, match="unfinished run of other settings"):
        job.run({"a": 2})
    assert job.run({"a": 2}, overwrite=True).rows == {"rows_in": 2}


def test_an_overwrite_killed_half_way_is_not_taken_for_whole(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    job = Job(str(tmp_path / "out"))
    job.run()

    def killed(uri: str) -> None:
        if uri.endswith("/table"):
            raise KeyboardInterrupt
        delete_directory(uri)

    with monkeypatch.context() as patch:
        patch.setattr("skillfeed.output.delete_directory", killed)
        with pytest.raises(KeyboardInterrupt):
            job.run(overwrite=True)

    assert read_manifest(job.output) is None
    assert job.run({"a": 2}).rows == {"rows_in": 2}


def test_a_run_that_was_taken_over_does_not_publish(place: str) -> None:
    output = f"{place}/out"

    def work() -> dict[str, int]:
        Job(output).run()  # a second start of the same command, which finishes first
        return {"rows_in": 999}

    with pytest.raises(RuntimeError, match="took this output over"):
        once("sum", output, {"a": 1}, inputs=[], settings={}, overwrite=False, work=work)

    manifest = read_manifest(output)
    assert manifest is not None
    assert manifest.rows == {"rows_in": 2}


def test_pieces_cleared_by_another_run_are_an_error_and_not_no_rows(tmp_path: Path) -> None:
    def work() -> dict[str, int]:
        delete_directory(str(tmp_path / "out" / "_work"))
        return {"rows_in": len(read_pieces(str(tmp_path / "out" / "_work" / "table"), "00000", SCHEMA))}

    with pytest.raises(RuntimeError, match="cleared by another run"):
        once("sum", str(tmp_path / "out"), {}, inputs=[], settings={}, overwrite=False, work=work)


def test_what_a_killed_writer_left_is_no_row_and_goes(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    table = str(tmp_path / "out" / "table")

    def killed(source: str, target: str) -> None:
        raise KeyboardInterrupt

    def work() -> dict[str, int]:
        with monkeypatch.context() as patch:
            patch.setattr(os, "replace", killed)
            with pytest.raises(KeyboardInterrupt):
                write_part(table, "00000", pa.table([["a"]], schema=SCHEMA))
        write_part(table, "00000", pa.table([["a"]], schema=SCHEMA))
        assert len(os.listdir(table)) == 2
        return {"rows_in": pads.dataset(table).count_rows(), "parts": len(part_rows(table))}

    summary = once("sum", str(tmp_path / "out"), {}, inputs=[], settings={}, overwrite=False, work=work)

    assert summary.rows == {"rows_in": 1, "parts": 1}
    assert os.listdir(table) == ["part-00000.parquet"]


@pytest.mark.parametrize("overwrite", [False, True])
@pytest.mark.parametrize("name", ["thesis.txt", "manifest.json", "_progress/notes.txt"])
def test_other_peoples_files_are_not_touched(tmp_path: Path, name: str, overwrite: bool) -> None:
    (tmp_path / name).parent.mkdir(exist_ok=True)
    (tmp_path / name).write_text("years of work")

    with pytest.raises(SettingError):
        Job(str(tmp_path)).run(overwrite=overwrite)

    assert (tmp_path / name).read_text() == "years of work"


@pytest.mark.parametrize("overwrite", [False, True])
def test_the_output_of_another_job_is_not_touched(tmp_path: Path, overwrite: bool) -> None:
    once("other", str(tmp_path / "out"), {}, inputs=[], settings={}, overwrite=False, work=dict)

    with pytest.raises(SettingError, match="holds the output of other"):
        Job(str(tmp_path / "out")).run(overwrite=overwrite)


@pytest.mark.parametrize("given", ["out", "out/below", "."])
def test_an_output_and_an_input_must_lie_apart(tmp_path: Path, given: str) -> None:
    output, source = str(tmp_path / "out"), str((tmp_path / given).resolve())

    with pytest.raises(SettingError, match="lie in each other"):
        once("sum", output, {}, inputs=[source], settings={}, overwrite=True, work=dict)


def test_a_place_that_cannot_be_written_is_a_bad_setting(tmp_path: Path) -> None:
    write_bytes(str(tmp_path / "file"), b"")

    with pytest.raises(SettingError, match="cannot be"):
        Job(str(tmp_path / "file" / "below")).run()
