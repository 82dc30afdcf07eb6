"""Reads fields line by line from a front matter that is not YAML: unquoted colons, stray text, no closing fence.

Promises: never raises, linear in the header, and every line is either part of a field or in the rest.
"""

import re
import textwrap
from typing import Any

import yaml

YamlLoader: Any = getattr(yaml, "CSafeLoader", yaml.SafeLoader)  # libyaml is 10 x faster and gives the same nodes
MAX_YAML = 64 * 1024  # characters given to the YAML parser; the longest real header of 61,000 files has 16,000

# Also `:description: x`, `**name**: x` and the full-width colon of Chinese keyboards.
_KEY = re.compile(r"[:*]{0,2}([A-Za-z_][\w.-]{0,60})\*{0,2}[ \t]*(?::(?=\s|$)|：)[ \t]*(.*)")
_BLOCK = re.compile(r"[|>][+-]?\d?[+-]?\s*(?:#.*)?$")


def scan_header(header: str) -> tuple[dict[str, Any], str]:
    """(fields by lower-case key, what follows the header). The first of equal keys wins.

    A field is `key: value`, its indented lines, its list items, and unindented lines up to the next blank one. The
    header ends at a Markdown heading or at text after a blank line. Values are texts or lists of texts.
    """
    lines = textwrap.dedent(header).strip("\n").split("\n")
    fields: dict[str, Any] = {}
    key, held, after_blank, is_list = "", [""], False, False
    end = len(lines)
    for number, line in enumerate(lines):
        if match := _KEY.match(line):
            _keep(fields, key, held)
            key, held = match[1].lower(), [match[2].strip()]
            is_list = not held[0]
        elif not line.strip():
            held.append("")
        elif line.startswith("#"):
            if not _is_comment(lines, number):
                end = number
                break
        elif key and (line[0] in " \t" or not after_blank or (is_list and _is_item(line))):
            held.append(line.rstrip())
            is_list = is_list and _is_item(line.lstrip())
        else:
            end = number
            break
        after_blank = not line.strip()
    _keep(fields, key, held)
    return fields, "\n".join(lines[end:]).strip("\n")


def _is_item(line: str) -> bool:
    return line.startswith("- ") or line == "-"


def _is_comment(lines: list[str], number: int) -> bool:
    """Whether a `#` line comments a field below it; otherwise it is a heading of the body. Looks at one line only."""
    return number + 1 < len(lines) and bool(_KEY.match(lines[number + 1])) and not lines[number].startswith("##")


def _keep(fields: dict[str, Any], key: str, held: list[str]) -> None:
    value = _value(held)
    if key and value and key not in fields:
        fields[key] = value


def _value(held: list[str]) -> str | list[str]:
    first, rest = held[0], held[1:]
    if _BLOCK.match(first):
        text = textwrap.dedent("\n".join(rest)).strip("\n")
        return text if first.startswith("|") else _folded(text)
    if not first and any(line.lstrip().startswith("-") for line in rest):
        return [item for line in rest if (item := line.strip().lstrip("-").strip())]
    text = _folded("\n".join(held))
    return "" if text in ("~", "null") else _unquoted(text)


def _folded(text: str) -> str:
    """Single line ends become spaces, blank lines stay as paragraph ends."""
    paragraphs: list[list[str]] = [[]]
    for line in text.split("\n"):
        if line.strip():
            paragraphs[-1].append(line.strip())
        elif paragraphs[-1]:
            paragraphs.append([])
    return "\n".join(" ".join(paragraph) for paragraph in paragraphs if paragraph)


def _unquoted(text: str) -> str:
    if text[:1] not in ("'", '"'):
        return text
    if len(text) > MAX_YAML:
        return text.strip(text[0])
    try:
        node = yaml.compose(text, Loader=YamlLoader)
    except (yaml.YAMLError, ValueError):
        return text.strip(text[0])
    return str(node.value) if isinstance(node, yaml.ScalarNode) else text.strip(text[0])
