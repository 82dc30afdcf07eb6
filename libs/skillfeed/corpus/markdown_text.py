"""The first words of a Markdown body as plain text, for skills that lack a name or a description."""

import re
from collections.abc import Iterator
from itertools import pairwise

from markdown_it import MarkdownIt
from markdown_it.token import Token

_LOOKED_AT = 20_000  # characters; the first paragraph is never further down
_SENTENCE_END = re.compile(r"[.!?](?=\s)|[。！？]")
_MARKDOWN = MarkdownIt("commonmark").enable("table")


def first_heading(body: str) -> str:
    """Plain text of the first heading; empty without one."""
    return next((text for kind, _, text in _blocks(body) if kind == "heading_open" and text), "")


def first_paragraph(body: str) -> str:
    """Plain text of the first paragraph; without one, of the first list item or quote, then of the first heading."""
    blocks = [block for block in _blocks(body) if block[2]]
    paragraphs = [(level, text) for kind, level, text in blocks if kind == "paragraph_open"]
    return next((text for level, text in paragraphs if level == 0), "") or next(
        (text for _, text in paragraphs), blocks[0][2] if blocks else ""
    )


def cut_text(text: str, limit: int) -> str:
    """The text, or its start of at most `limit` characters: whole sentences where they fill half of it, else words."""
    if len(text) <= limit:
        return text
    ends = [found.end() for found in _SENTENCE_END.finditer(text, 0, limit)]
    if ends and ends[-1] >= limit // 2:
        return text[: ends[-1]].rstrip()
    space = max(text.rfind(" ", 0, limit), text.rfind("\n", 0, limit))
    return text[: space if space >= limit // 2 else limit].rstrip()


def _blocks(body: str) -> Iterator[tuple[str, int, str]]:
    """(kind, nesting level, plain text) of headings, paragraphs and table cells, in order."""
    tokens = _MARKDOWN.parse(body[:_LOOKED_AT])
    for opening, inline in pairwise(tokens):
        if inline.type == "inline":
            yield opening.type, opening.level, _plain_text(inline)


def _plain_text(inline: Token) -> str:
    parts = [
        child.content if child.type in ("text", "code_inline") else " " if child.type.endswith("break") else ""
        for child in inline.children or []
    ]
    return " ".join("".join(parts).split())
