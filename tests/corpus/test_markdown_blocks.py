import time

import pytest
from hypothesis import given
from markdown_examples import HOSTILE, markdown

from skillfeed.corpus.markdown_blocks import blocks_of


def kinds(body: str) -> list[tuple[str, str]]:
    return [(block.kind, body[block.start : block.end].strip()) for block in blocks_of(body)]


def test_headings_in_both_styles_form_a_path() -> None:
    body = (
        "intro\n\n# Setup #\n\ntext\n\nOn Linux\n--------\n\ntext\n\n### Old ###\n\n## On a  Mac\n\ntext\n\nUse\n===\n"
    )
    paths = [block.path for block in blocks_of(body)]
    assert paths == [
        (),
        ("Setup",),
        ("Setup",),
        ("Setup", "On Linux"),
        ("Setup", "On Linux"),
        ("Setup", "On Linux", "Old"),
        ("Setup", "On a Mac"),
        ("Setup", "On a Mac"),
        ("Use",),
    ]


@pytest.mark.parametrize("fence", ["```", "~~~", "`````"])
def test_a_hash_in_a_fence_is_no_heading(fence: str) -> None:
    inner = "```sh" if fence == "`````" else "x"
    body = f"# A\n\n{fence}\n{inner}\n# not a heading\n\n\n{fence}\n\nafter\n"
    code = f"{fence}\n{inner}\n# not a heading\n\n\n{fence}"
    assert kinds(body) == [("heading", "# A"), ("code", code), ("text", "after")]


def test_an_unclosed_fence_lasts_to_the_end() -> None:
    assert kinds("a\n\n```\n# b\n\nc") == [("text", "a"), ("code", "```\n# b\n\nc")]


def test_headings_in_comments_lists_and_quotes_open_no_section() -> None:
    assert {kind for kind, _ in kinds("<!--\n# a\n-->\n\n- # b\n\n> # c\n")} == {"text"}


def test_every_list_item_is_a_block_and_a_table_is_one() -> None:
    body = "- one\n  more\n- two\n\n  ```\n  code\n  ```\n\n| a | b |\n| - | - |\n| 1 | 2 |\n\nend"
    assert [kind for kind, _ in kinds(body)] == ["text", "text", "code", "table", "text"]


def test_an_empty_title_is_left_out_of_the_path() -> None:
    assert [block.path for block in blocks_of("#\n\n## B\n")] == [(), ("B",)]


def test_a_heading_of_a_megabyte_has_a_title_of_200_characters() -> None:
    (block,) = blocks_of("# " + "a" * 1_000_000)
    assert block.path == ("a" * 200,)


@given(markdown)
def test_blocks_tile_the_body(body: str) -> None:
    blocks = blocks_of(body)
    assert "".join(body[block.start : block.end] for block in blocks) == body
    assert all(block.start < block.end for block in blocks)


@pytest.mark.parametrize("body", HOSTILE.values(), ids=HOSTILE)
def test_hostile_bodies_are_cut_in_linear_time(body: str) -> None:
    started = time.process_time()
    blocks_of(body)
    assert time.process_time() - started < 5  # at most 0.9 s on an idle core; quadratic ones would take minutes
