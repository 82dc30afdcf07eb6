"""Packs the blocks of a Markdown body into passages of bounded length, in one pass, from token offsets alone.

Sizes are estimates: tokens of the whole body that start inside the passage. A passage cut out of the body may count a
few more or less by itself; `chunking` counts them again and halves what went past a limit, of tokens or of characters.
"""

import re
from bisect import bisect_left
from collections.abc import Iterator, Sequence
from itertools import groupby, pairwise, takewhile
from typing import NamedTuple

from skillfeed.corpus.markdown_blocks import Block, blocks_of
from skillfeed.settings import ChunkerSettings

_SENTENCE_END = re.compile(r"(?<=[.!?])[\"'”’)\]]*\s+|[。！？；][”’」』）]*\s*")
_LINE_END = re.compile(r"\n+")
_SPACE = re.compile(r"\s")
_BLOCK, _SENTENCE, _LINE, _WINDOW = range(4)  # how finely a piece is cut already


class Span(NamedTuple):
    """One passage: `body[repeat_start:repeat_end] + body[start:end]`. Spans without their repeats tile the body."""

    start: int
    end: int
    repeat_start: int  # overlap with the passage before, or a split table's header; empty where equal
    repeat_end: int
    path: tuple[str, ...]  # headings from the outermost


class _Piece(NamedTuple):
    start: int
    end: int
    tokens: int
    grain: int
    whole: bool  # code or a table: may fill a passage up to max_tokens, and is torn only beyond that
    heading: bool
    path: tuple[str, ...]
    header: tuple[int, int]  # what a passage starting here repeats of a split table


class _Source(NamedTuple):
    body: str
    token_starts: Sequence[int]
    settings: ChunkerSettings


class _Passage(NamedTuple):
    pieces: list[_Piece]
    tokens: int  # with what it repeats
    opens: bool  # starts where a section starts, so nothing is repeated


def spans_of(body: str, token_starts: Sequence[int], settings: ChunkerSettings) -> list[Span]:
    """Passages of a body in order, tiling it; `token_starts` are the character offsets of its tokens, ascending.

    Small sections join until `min_tokens`; a longer one is cut where a block ends, else a sentence, a line, a token.
    `path` is the common parent of the sections in a passage that have text of their own, or the first of them where
    they have none in common.
    """
    source = _Source(body, token_starts, settings)
    pieces = [_piece(source, block.start, block.end, block) for block in blocks_of(body)]
    spans: list[Span] = []
    for passage in _joined(_packed(source, _sections(pieces)), settings):
        first, last = passage.pieces[0], passage.pieces[-1]
        repeat = (first.start, first.start)
        if not passage.opens:
            own = sum(piece.tokens for piece in passage.pieces)
            repeat = _repeat(source, first, own, not_before=spans[-1].start)
        spans.append(Span(first.start, last.end, *repeat, _path(passage.pieces)))
    return spans


def halves(body: str, token_starts: Sequence[int], span: Span) -> list[Span]:
    """A span without its repeat if it has one, else two at its middle token or character; itself if one character."""
    if span.repeat_end > span.repeat_start:
        return [span._replace(repeat_start=span.start, repeat_end=span.start)]
    low, high = bisect_left(token_starts, span.start + 1), bisect_left(token_starts, span.end)
    middle = token_starts[(low + high) // 2] if low < high else (span.start + span.end) // 2
    if not span.start < middle < span.end:
        return [span]
    return [
        span._replace(end=middle),
        span._replace(start=middle, repeat_start=middle, repeat_end=middle),
    ]


def _sections(pieces: Sequence[_Piece]) -> Iterator[list[_Piece]]:
    """Each from a heading to the next; headings without text of their own belong to the section they lead to."""
    section: list[_Piece] = []
    for piece in pieces:
        if piece.heading and section and not section[-1].heading:
            yield section
            section = []
        section.append(piece)
    if section:
        yield section


def _packed(source: _Source, sections: Iterator[list[_Piece]]) -> list[_Passage]:
    minimum, target = source.settings.min_tokens, source.settings.target_tokens
    passages: list[_Passage] = []
    current = _Passage([], 0, True)
    for section in sections:
        total = sum(piece.tokens for piece in section)
        if current.tokens >= minimum or (current.pieces and total <= target < current.tokens + total):
            passages.append(current)
            current = _Passage([], 0, True)
        waiting = section[::-1]
        while waiting:
            piece = waiting.pop()
            if _fits(piece, current, source.settings):
                repeated = 0 if current.pieces or current.opens else _repeated_tokens(source, piece)
                current.pieces.append(piece)
                current = current._replace(tokens=current.tokens + repeated + piece.tokens)
            elif _divides(piece, current, source.settings):
                waiting.extend(reversed(_finer(source, piece)))
            else:
                passages.append(current)
                current = _Passage([], 0, False)
                waiting.append(piece)
    return [passage for passage in [*passages, current] if passage.pieces]


def _fits(piece: _Piece, passage: _Passage, settings: ChunkerSettings) -> bool:
    if not passage.pieces:
        return piece.grain == _WINDOW or piece.tokens <= _limit(piece, settings)
    grows = piece.whole and passage.tokens < settings.min_tokens  # rather than leave a heading without its code
    room = settings.max_tokens if grows else settings.target_tokens
    return piece.tokens == 0 or passage.tokens + piece.tokens <= room


def _divides(piece: _Piece, passage: _Passage, settings: ChunkerSettings) -> bool:
    """Too long for any passage, or the passage before it is too small to be closed yet and text may flow into it."""
    if piece.tokens > _limit(piece, settings):
        return piece.grain < _WINDOW
    return passage.tokens < settings.min_tokens and not piece.whole and piece.grain < _LINE


def _limit(piece: _Piece, settings: ChunkerSettings) -> int:
    return settings.max_tokens if piece.whole else settings.target_tokens


def _joined(passages: list[_Passage], settings: ChunkerSettings) -> list[_Passage]:
    """A small passage that opens a section goes to the one before it where both fit the target."""
    joined: list[_Passage] = []
    for passage in passages:
        tokens = passage.tokens + (joined[-1].tokens if joined else 0)
        if joined and passage.opens and passage.tokens < settings.min_tokens and tokens <= settings.target_tokens:
            joined[-1].pieces.extend(passage.pieces)
            joined[-1] = joined[-1]._replace(tokens=tokens)
        else:
            joined.append(passage)
    return joined


def _path(pieces: Sequence[_Piece]) -> tuple[str, ...]:
    """The headings that the pieces share; where they part, all of them: `A`, `B / C`."""
    with_text = [piece for piece in pieces if not piece.heading] or pieces
    paths = [path for path, _ in groupby(piece.path for piece in with_text) if path]
    common = [titles[0] for titles in takewhile(lambda titles: len(set(titles)) == 1, zip(*paths, strict=False))]
    if not paths or any(len(path) == len(common) for path in paths):
        return tuple(common)  # text of the parent itself is among it
    return (*common, " / ".join(dict.fromkeys(path[len(common)] for path in paths)))


def _piece(source: _Source, start: int, end: int, block: Block) -> _Piece:
    tokens = _count(source, start, end)
    whole = block.kind in ("code", "table")
    header = _table_header(source.body, block) if block.kind == "table" else (start, start)
    return _Piece(start, end, tokens, _BLOCK, whole, block.kind == "heading", block.path, header)


def _table_header(body: str, block: Block) -> tuple[int, int]:
    """Header row and delimiter row."""
    row = body.find("\n", block.start, block.end) + 1
    delimiter = body.find("\n", row, block.end) + 1
    return (block.start, delimiter) if row and delimiter else (block.start, block.start)


def _finer(source: _Source, piece: _Piece) -> list[_Piece]:
    """The piece cut at the next grain that cuts it at all; into windows only if it is too long for a passage."""
    grains = (_LINE,) if piece.whole else range(piece.grain + 1, _WINDOW)
    for grain in grains:
        pattern = _SENTENCE_END if grain == _SENTENCE else _LINE_END
        cuts = [match.end() for match in pattern.finditer(source.body, piece.start, piece.end)]
        parts = _parts(source, piece, cuts, grain)
        if len(parts) > 1:
            return parts
    if piece.tokens <= source.settings.target_tokens:
        return [piece._replace(grain=_LINE, whole=False)]
    return _parts(source, piece, _window_cuts(source, piece), _WINDOW)


def _parts(source: _Source, piece: _Piece, cuts: Sequence[int], grain: int) -> list[_Piece]:
    edges = [piece.start, *(cut for cut in cuts if piece.start < cut < piece.end), piece.end]
    first, header_end = piece.header
    return [
        _Piece(
            start,
            end,
            _count(source, start, end),
            grain,
            False,
            piece.heading,
            piece.path,
            piece.header if start >= header_end else (first, first),
        )
        for start, end in pairwise(edges)
    ]


def _window_cuts(source: _Source, piece: _Piece) -> list[int]:
    """Before a word where a space is near, else before a token. The room for the overlap is left free."""
    starts, size = source.token_starts, source.settings.target_tokens - source.settings.overlap_tokens
    first, end = bisect_left(starts, piece.start), bisect_left(starts, piece.end)
    cuts: list[int] = []
    while (first := first + size) < end:
        space = source.body.rfind(" ", starts[first - size // 4], starts[first])
        cut = starts[first] if space < 0 else space + 1
        if cut > (cuts[-1] if cuts else piece.start):
            cuts.append(cut)
            first = bisect_left(starts, cut)
    return cuts


def _repeated_tokens(source: _Source, piece: _Piece) -> int:
    room = max(0, source.settings.target_tokens - piece.tokens)
    header = _count(source, *piece.header)
    return header if 0 < header <= room else min(source.settings.overlap_tokens, room)


def _repeat(source: _Source, first: _Piece, own_tokens: int, not_before: int) -> tuple[int, int]:
    """The span repeated before a passage that goes on within a section: a table's header, else the last words."""
    room = max(0, source.settings.target_tokens - own_tokens)
    if 0 < _count(source, *first.header) <= room:
        return first.header
    position = bisect_left(source.token_starts, first.start)
    back = max(0, position - min(source.settings.overlap_tokens, room))
    start = max(not_before, source.token_starts[back]) if back < position else first.start
    if start and _within_word(source.body, start):
        space = _SPACE.search(source.body, start, first.start)
        start = space.end() if space else start
    return start, first.start


def _within_word(body: str, position: int) -> bool:
    """Scripts that put no spaces between words (all above the Thai block) count every character as a word."""
    return body[position - 1].isalnum() and body[position].isalnum() and body[position] < "\u0e00"


def _count(source: _Source, start: int, end: int) -> int:
    return bisect_left(source.token_starts, end) - bisect_left(source.token_starts, start)
