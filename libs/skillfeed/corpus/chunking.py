"""Cuts skill bodies into chunks: Markdown sections of bounded length under their name, description and headings.

Promises: but for whitespace no text of a body is lost; a chunk's text counts at most `max_tokens` (unless it is one
character that alone counts more) and has at most 12 times as many characters; name, section path and text together
count at most `max_tokens` + 20, so that with the labels of `prompts.chunk_text` and two special tokens an embedded text
has at most `max_tokens` + `description_tokens` + 34 tokens of a WordPiece model (256 with `local`, 512 with `seek`).
Equal input, equal chunks.

Each body is tokenized once with offsets to plan its chunks, and once more in its chunks for their exact counts:
3.5 ms a skill of 6 KB, 1.7 of them the tokenizer's on two cores.
"""

from collections.abc import Mapping, Sequence
from typing import NamedTuple

import pyarrow as pa
from tokenizers import Encoding, Tokenizer

from skillfeed.corpus.packing import Span, halves, spans_of
from skillfeed.prompts import chunk_text
from skillfeed.records import Chunk, arrow_schema, text_hash_of
from skillfeed.settings import ChunkerSettings

_NAME_TOKENS = 16  # of 7,703 names 98 % have fewer; longer ones are cut
_HEADER_TOKENS = 20  # name and section path beyond `max_tokens`; shorter texts leave the path more room
_PATH_TOKENS = 48
_TEXT_CHARACTERS_PER_TOKEN = 12  # real text has 4; 900 KB without a space are one unknown token
_CHARACTERS_PER_TOKEN = 40  # a word of 400 KB can be one unknown token: names and descriptions are cut here first
_BODIES_AT_ONCE = 64  # 64 bodies of 20,000 characters hold about 50 MB of encodings


class Passage(NamedTuple):
    """One chunk's place in its body and its text, with any repeated words, stripped."""

    span: Span
    text: str
    token_count: int


class _Skill(NamedTuple):
    skill_id: str
    name: str
    description: str
    body: str


def chunk_skill(
    skill_id: str, name: str, description: str, body: str, tokenizer: Tokenizer, settings: ChunkerSettings
) -> list[Chunk]:
    """The chunks of one skill in body order; none for a body without text.

    `name` and `description` of a chunk are cut to 16 and `description_tokens` tokens; `section_path` loses its
    outermost headings first, then the end of the innermost. `prompts.chunk_text` of a chunk is what is embedded and
    hashed. `tokenizer` must neither truncate nor pad, as from `load_tokenizer`.
    """
    return _chunks([_Skill(skill_id, name, description, body)], tokenizer, settings)


def chunk_table(skills: pa.Table, tokenizer: Tokenizer, settings: ChunkerSettings) -> pa.Table:
    """Chunks of a skill table (columns skill_id, name, description, body) in its order, as `arrow_schema(Chunk)`."""
    rows = list(map(_Skill, *(skills[field].to_pylist() for field in _Skill._fields)))
    batches = [rows[first : first + _BODIES_AT_ONCE] for first in range(0, len(rows), _BODIES_AT_ONCE)]
    chunks = [chunk for batch in batches for chunk in _chunks(batch, tokenizer, settings)]
    schema = arrow_schema(Chunk)
    columns = {field: [getattr(chunk, field) for chunk in chunks] for field in schema.names}
    return pa.table(columns, schema=schema)


def passages_of(bodies: Sequence[str], tokenizer: Tokenizer, settings: ChunkerSettings) -> list[list[Passage]]:
    """The passages of each body in order; their spans without repeats hold every character but whitespace once."""
    starts = [
        [start for start, _ in encoding.offsets]
        for encoding in tokenizer.encode_batch(list(bodies), add_special_tokens=False)
    ]
    pending = [(row, span) for row, body in enumerate(bodies) for span in spans_of(body, starts[row], settings)]
    found: list[list[Passage]] = [[] for _ in bodies]
    longest = settings.max_tokens * _TEXT_CHARACTERS_PER_TOKEN
    while pending:
        pending = [(row, span) for row, span in pending if bodies[row][span.start : span.end].strip()]
        texts = [_text(bodies[row], span) for row, span in pending]
        counts = _counts(texts, tokenizer)
        too_long: list[tuple[int, Span]] = []
        for (row, span), text, count in zip(pending, texts, counts, strict=True):
            fits = count <= settings.max_tokens and len(text) <= longest
            parts = [span] if fits else halves(bodies[row], starts[row], span)
            if parts == [span]:
                found[row].append(Passage(span, text, count))
            else:
                too_long += [(row, part) for part in parts]
        pending = too_long
    return [sorted(passages, key=lambda passage: passage.span.start) for passages in found]


def _chunks(skills: Sequence[_Skill], tokenizer: Tokenizer, settings: ChunkerSettings) -> list[Chunk]:
    names = _cut([skill.name for skill in skills], _NAME_TOKENS, tokenizer)
    name_counts = _counts(names, tokenizer)
    descriptions = _cut([skill.description for skill in skills], settings.description_tokens, tokenizer)
    passages = passages_of([skill.body for skill in skills], tokenizer, settings)
    titles = sorted({title for found in passages for passage in found for title in passage.span.path})
    encodings = dict(zip(titles, tokenizer.encode_batch(titles, add_special_tokens=False), strict=True))
    chunks: list[Chunk] = []
    for skill, name, name_count, description, found in zip(
        skills, names, name_counts, descriptions, passages, strict=True
    ):
        for position, (span, text, count) in enumerate(found):
            room = min(_PATH_TOKENS, settings.max_tokens + _HEADER_TOKENS - name_count - count)
            path = _section_path(span.path, max(0, room), encodings, tokenizer)
            chunks.append(
                Chunk(
                    chunk_id=f"{skill.skill_id}-{position:04d}",
                    skill_id=skill.skill_id,
                    name=name,
                    description=description,
                    section_path=path,
                    text=text,
                    token_count=count,
                    text_hash=text_hash_of(chunk_text(name, description, path, text)),
                )
            )
    return chunks


def _text(body: str, span: Span) -> str:
    return (body[span.repeat_start : span.repeat_end] + body[span.start : span.end]).strip()


def _counts(texts: Sequence[str], tokenizer: Tokenizer) -> list[int]:
    return [len(encoding) for encoding in tokenizer.encode_batch_fast(list(texts), add_special_tokens=False)]


def _section_path(titles: tuple[str, ...], room: int, encodings: Mapping[str, Encoding], tokenizer: Tokenizer) -> str:
    """The innermost headings that fit `room` tokens; a single one that does not is cut."""
    while len(titles) > 1 and sum(len(encodings[title]) + 1 for title in titles) - 1 > room:
        titles = titles[1:]
    if len(titles) == 1:
        return _first_tokens(titles[0], encodings[titles[0]], room, tokenizer)
    return " > ".join(titles)


def _cut(texts: Sequence[str], limit: int, tokenizer: Tokenizer) -> list[str]:
    short = [text[: limit * _CHARACTERS_PER_TOKEN] for text in texts]
    encodings = tokenizer.encode_batch(short, add_special_tokens=False)
    return [_first_tokens(text, encoding, limit, tokenizer) for text, encoding in zip(short, encodings, strict=True)]


def _first_tokens(text: str, encoding: Encoding, limit: int, tokenizer: Tokenizer) -> str:
    """The text cut before its token `limit`, or earlier where the cut text would count more than that by itself."""
    if len(encoding) <= limit:
        return text
    for kept in range(limit, 0, -1):
        cut = text[: encoding.offsets[kept][0]].rstrip()
        if len(tokenizer.encode(cut, add_special_tokens=False)) <= limit:
            return cut
    return ""
