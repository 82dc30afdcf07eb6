import json
from pathlib import Path

import pytest
from pydantic import Field

from skillfeed.errors import SettingError
from skillfeed.job import JobSettings, Summary, parse, run
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
        (["--number", "1", "--config", "nowhere.yaml"], "config: nowhere.yaml cannot be read"),
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


@pytest.mark.parametrize("content", [b"- a list", b"just text", b"1: x", b"\xff\xfe\x00bin", b"a: [unclosed"])
def test_a_settings_file_that_is_none_is_named_in_one_line(tmp_path: Path, content: bytes) -> None:
    config = tmp_path / "job.yaml"
    config.write_bytes(content)

    with pytest.raises(SettingError, match=f"^config: {config}") as found:
        parse(Sum, ["--config", str(config)])
    assert "\n" not in str(found.value)


@pytest.mark.parametrize(("name", "value"), [("SKILLFEED_NUMBER", "/not/json"), ("SKILLFEED_ROUTER", "{bad")])
def test_a_variable_that_is_not_json_is_named(monkeypatch: pytest.MonkeyPatch, name: str, value: str) -> None:
    monkeypatch.setenv(name, value)

    with pytest.raises(SettingError, match="JSON"):
        parse(Sum, [])


def test_the_settings_file_may_be_named_by_the_environment(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "job.yaml").write_text("number: [7]")
    monkeypatch.setenv("SKILLFEED_CONFIG", str(tmp_path / "job.yaml"))

    assert parse(Sum, []).number == [7]
