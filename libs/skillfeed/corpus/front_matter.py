"""Splits a SKILL.md into its front matter and its body, as people really write them.

Promises: never raises, loses no text (what is not front matter goes to the body), builds no objects from YAML beyond
texts, lists and dicts, and spends a bounded effort on any input.
"""

import re
from dataclasses import dataclass
from typing import Any, Literal

import yaml

from skillfeed.corpus.header_lines import MAX_YAML, YamlLoader, scan_header

Mended = Literal[
    "bom",
    "line_ends",
    "no_front_matter",
    "no_opening_fence",
    "no_closing_fence",
    "glued_fence",
    "front_matter_not_a_mapping",
    "invalid_yaml",
    "tabs",
    "duplicate_keys",
    "nonstring_name",
    "nonstring_description",
]

MAX_NODES = 5_000  # a bomb of aliases reaches any number; the largest real header has a few hundred
MAX_DEPTH = 20

_OPENING = re.compile(r"\s*-{3,}[ \t]*\n")
_CLOSING = re.compile(r"^(?:-{3,}|\.{3})[ \t]*$", re.MULTILINE)
_GLUED = re.compile(r"^---(?=[^\s-])", re.MULTILINE)
_BARE_FIELD = re.compile(r"\s*(?:name|description):[ \t]", re.IGNORECASE)


@dataclass(frozen=True)
class FrontMatter:
    """`fields` by lower-case key: texts as written (`007` stays `007`), lists and dicts of them; nulls are left out."""

    fields: dict[str, Any]
    body: str
    recovered: tuple[Mended, ...]


def parse(text: str) -> FrontMatter:
    """Fields, body and the codes of what was mended; line ends become \\n. Without front matter all text is body."""
    mended: list[Mended] = []
    if text.startswith("\ufeff"):
        mended.append("bom")
        text = text.lstrip("\ufeff")
    if "\r" in text:
        mended.append("line_ends")
        text = re.sub(r"\r+\n?", _line_end, text)
    fields, body = _split(text, mended)
    return FrontMatter(fields, body.strip("\n").rstrip(), tuple(mended))


def _line_end(found: re.Match[str]) -> str:
    """\\r\\r\\n is one line end that was converted twice; lone \\r are one each."""
    return "\n" if found[0].endswith("\n") else "\n" * len(found[0])


def _split(text: str, mended: list[Mended]) -> tuple[dict[str, Any], str]:
    """(fields, body) of text whose line ends are \\n."""
    opening = _OPENING.match(text)
    if not opening and not _BARE_FIELD.match(text):
        mended.append("no_front_matter")
        return {}, text
    if not opening:
        mended.append("no_opening_fence")
    start = opening.end() if opening else 0
    closing, glued = _CLOSING.search(text, start), _GLUED.search(text, start)
    if glued and (not closing or glued.start() < closing.start()):
        mended.append("glued_fence")
        closing = glued
    if closing:
        header, body = text[start : closing.start()], text[closing.end() :]
    else:
        mended.append("no_closing_fence")
        header, body = text[start:], ""
    return _fields_and_body(header, body, mended, text)


def _fields_and_body(header: str, body: str, mended: list[Mended], text: str) -> tuple[dict[str, Any], str]:
    fields = _read_yaml(header, mended)
    if fields is not None and (fields or not header.strip()):
        return fields, body
    if fields is None:
        found, rest = scan_header(header)
        if found:
            mended.append("invalid_yaml")
            return found, "\n\n".join(filter(None, (rest, body.strip("\n"))))
    mended.append("front_matter_not_a_mapping")  # rules around a passage of Markdown: all of it is body
    return {}, text


def _read_yaml(header: str, mended: list[Mended]) -> dict[str, Any] | None:
    """Fields of a YAML mapping; empty for a document that is no mapping; None for what is not YAML."""
    if len(header) > MAX_YAML:
        return None
    found = _compose(header)
    if found is None and "\t" in header:
        found = _compose(header.expandtabs(2))
        if found is not None:
            mended.append("tabs")
    if found is None:
        return None
    fields, notes = found
    mended.extend(notes)
    return fields


def _compose(header: str) -> tuple[dict[str, Any], list[Mended]] | None:
    try:
        root = yaml.compose(header, Loader=YamlLoader)
        if not isinstance(root, yaml.MappingNode):
            return {}, []
        return _top_level(root)
    except (yaml.YAMLError, ValueError):  # ValueError: an escape beyond Unicode such as "\U00110000"
        return None


def _top_level(root: yaml.MappingNode) -> tuple[dict[str, Any], list[Mended]]:
    """The first of equal keys wins: what follows a complete header is more often stray text than a correction."""
    fields: dict[str, Any] = {}
    notes: list[Mended] = []
    budget = [MAX_NODES]
    for key_node, value_node in root.value:
        value = _plain(value_node, budget, 0)
        if value is None or not isinstance(key_node, yaml.ScalarNode):
            continue
        key = str(key_node.value).strip().lower()
        if key in fields:
            notes.append("duplicate_keys")
            continue
        fields[key] = value
        if not value_node.tag.endswith(":str"):
            if key == "name":
                notes.append("nonstring_name")
            elif key == "description":
                notes.append("nonstring_description")
    return fields, list(dict.fromkeys(notes))


def _plain(node: yaml.Node, budget: list[int], depth: int) -> Any:
    """Texts, lists and dicts of a node; None for null. `budget` holds the nodes that may still be visited."""
    budget[0] -= 1
    if budget[0] < 0 or depth > MAX_DEPTH:
        raise yaml.YAMLError("more aliases or levels than front matter needs")
    if isinstance(node, yaml.ScalarNode):
        return None if node.tag.endswith(":null") else str(node.value)
    if isinstance(node, yaml.SequenceNode):
        items = [_plain(item, budget, depth + 1) for item in node.value]
        return [item for item in items if item is not None]
    return {
        str(key.value): _plain(value, budget, depth + 1)
        for key, value in node.value
        if isinstance(key, yaml.ScalarNode)
    }
