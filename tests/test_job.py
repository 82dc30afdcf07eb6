import json
from pathlib import Path

import pytest
from pydantic import Field

from skillfeed.errors import SettingError
from skillfeed.job import JobSettings, Summary, once, parse, run
from skillfeed.manifest import read_manifest
from skillfeed.settings import RouterSettings


class Sum(JobSettings):
    """Adds numbers."""

    number: list[int]
    factor: int = Field(1, gt=0)
    router: RouterSettings = RouterSettings()


def test_flags_beat_the_environment_which_beats_the_file(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    config = tmp_path / "job.yaml"
    config.write_text("number: [1]\nfactor: 2\nlimit: 3\n")
    monkeypatch.setenv("SKILLFEED_FACTOR", "20")
    monkeypatch.setenv("SKILLFEED_LIMIT", "30")

    job = parse(Sum, ["--config", str(config), "--limit", "300"])

    assert (job.number, job.factor, job.limit) == ([1], 20, 300)


def test_a_flag_may_be_repeated_and_nested() -> None:
    job = parse(Sum, ["--number", "1", "--number", "2", "--router.rerank.depth", "20", "--router.rrf-k", "10"])

    assert job.number == [1, 2]
    assert job.router.rerank is not None
    assert (job.router.rerank.depth, job.router.rrf_k) == (20, 10)


def test_the_reranker_can_be_switched_off() -> None:
    assert parse(Sum, ["--number", "1", "--router.rerank", "none"]).router.rerank is None


@pytest.mark.parametrize(
    ("argv", "message"),
    [
        (["--number", "x"], "number"),
        (["--number", "1", "--factor", "0"], "factor: Input should be greater than 0"),
        (["--number", "1", "--config", "nowhere.yaml"], "config: no file nowhere.yaml"),
        ([], "number: Field required"),
        (["--number", "1", "--router.rrf-k", "0"], "router.rrf_k"),
    ],
)
def test_a_bad_setting_is_named(argv: list[str], message: str) -> None:
    with pytest.raises(SettingError, match=message):
        parse(Sum, argv)


def test_a_misspelt_setting_in_the_file_is_named(tmp_path: Path) -> None:
    config = tmp_path / "job.yaml"
    config.write_text("number: [1]\nfaktor: 2\n")

    with pytest.raises(SettingError, match="faktor"):
        parse(Sum, ["--config", str(config)])


def test_a_bad_setting_leaves_with_2_and_one_line(capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(SystemExit) as stop:
        run(Sum, lambda job: Summary("sum", "-", {}, 0.0), ["--number", "1", "--factor", "0"])

    assert stop.value.code == 2
    assert capsys.readouterr().err == "error: factor: Input should be greater than 0\n"


def test_the_summary_is_words_on_stderr_and_json_on_stdout(capsys: pytest.CaptureFixture[str]) -> None:
    run(Sum, lambda job: Summary("sum", "there", {"rows_in": 10}, 2.0), ["--number", "1"])

    printed = capsys.readouterr()
    assert json.loads(printed.out) == {"job": "sum", "output": "there", "seconds": 2.0, "rows_in": 10}
    assert "rows_in/s" in printed.err
    assert "5.0" in printed.err


def test_finished_work_is_not_done_again(tmp_path: Path) -> None:
    output, calls = str(tmp_path / "out"), []

    def work() -> dict[str, int]:
        calls.append(1)
        return {"rows_in": 5}

    first = once("sum", output, {"a": 1}, settings={}, overwrite=False, work=work)
    second = once("sum", output, {"a": 1}, settings={}, overwrite=False, work=work)

    assert len(calls) == 1
    assert (first.already_done, second.already_done) == (False, True)
    assert second.rows == {"rows_in": 5}


def test_an_output_of_other_settings_is_refused_and_named(tmp_path: Path) -> None:
    output = str(tmp_path / "out")
    once("sum", output, {"a": 1, "b": 1}, settings={}, overwrite=False, work=dict)

    with pytest.raises(SettingError, match="differs in b"):
        once("sum", output, {"a": 1, "b": 2}, settings={}, overwrite=False, work=dict)


def test_overwrite_starts_afresh(tmp_path: Path) -> None:
    output = tmp_path / "out"
    once("sum", str(output), {"a": 1}, settings={}, overwrite=False, work=dict)
    (output / "old.parquet").write_bytes(b"old")

    once("sum", str(output), {"a": 2}, settings={}, overwrite=True, work=dict)

    assert not (output / "old.parquet").exists()


def test_what_an_interrupted_run_finished_is_kept_for_the_same_settings_only(tmp_path: Path) -> None:
    output = tmp_path / "out"
    finished = output / "_progress" / "stage" / "unit.json"

    def interrupted() -> dict[str, int]:
        finished.parent.mkdir(parents=True)
        finished.write_text("{}")
        raise RuntimeError("killed")

    def look() -> dict[str, int]:
        return {"kept": int(finished.exists())}

    with pytest.raises(RuntimeError):
        once("sum", str(output), {"a": 1}, settings={}, overwrite=False, work=interrupted)
    assert read_manifest(str(output)) is None
    assert once("sum", str(output), {"a": 1}, settings={}, overwrite=False, work=look).rows == {"kept": 1}

    other = tmp_path / "other"
    finished = other / "_progress" / "stage" / "unit.json"
    with pytest.raises(RuntimeError):
        once("sum", str(other), {"a": 1}, settings={}, overwrite=False, work=interrupted)
    assert once("sum", str(other), {"a": 2}, settings={}, overwrite=False, work=look).rows == {"kept": 0}


@pytest.mark.parametrize("overwrite", [False, True])
def test_a_directory_with_other_peoples_files_is_not_touched(tmp_path: Path, overwrite: bool) -> None:
    (tmp_path / "thesis.txt").write_text("years of work")

    with pytest.raises(SettingError, match="holds files that no job wrote"):
        once("sum", str(tmp_path), {"a": 1}, settings={}, overwrite=overwrite, work=dict)

    assert (tmp_path / "thesis.txt").read_text() == "years of work"
