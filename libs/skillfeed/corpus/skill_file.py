"""One SKILL.md, or one row that holds a skill, becomes a `ParsedSkill` or a `Rejected` with a reason code.

Promises: never raises on data, never puts the text of a credential into a result, and the same content gets the same
skill_id wherever it was read.
"""

import re
from collections import Counter
from collections.abc import Mapping
from dataclasses import dataclass, replace
from pathlib import PurePosixPath
from typing import Any, Literal

from skillfeed.corpus import front_matter
from skillfeed.corpus.credentials import redact
from skillfeed.corpus.markdown_text import cut_text, first_heading, first_paragraph
from skillfeed.corpus.risks import DEFAULT_ACTIONS, RiskAction, gravest, screen_skill
from skillfeed.corpus.text_encoding import CONTROL_CHARACTERS, UTF16_MARKS, decode, storable
from skillfeed.records import Rejected, Risk, RiskCode, Skill, skill_id_of

Credentials = Literal["redact", "reject"]

Reason = Literal[
    "too_large",
    "empty_file",
    "nul_bytes",
    "undecodable",
    "empty_body",
    "missing_body",
    "missing_name",
    "missing_description",
    "not_text",
    "credential",
    "risk",
]

Mended = Literal[
    front_matter.Mended,
    "not_utf8",
    "stray_bytes",
    "control_characters",
    "name_from_folder",
    "name_from_heading",
    "description_from_body",
    "long_name",
    "long_description",
]

ROW_COLUMNS = ("name", "description", "body", "content", "text", "license", "skill_id", "id")  # that `read_row` knows
MAX_BYTES = 1_000_000  # the largest real file of 61,000 has 390 KB
MAX_NAME = 200  # characters
MAX_DESCRIPTION = 2_000
MAX_NESTING = 3  # levels of lists and mappings that still read as a sentence
PARAGRAPH = 300  # characters of the first paragraph that make a description


@dataclass(frozen=True)
class ParsedSkill:
    """`recovered` holds codes of what was mended, `credentials` how many of each kind were redacted."""

    skill: Skill
    recovered: tuple[Mended, ...]
    credentials: dict[str, int]


class _Unusable(Exception):
    """A reason code and the detail a person needs."""

    def __init__(self, reason: Reason, detail: str) -> None:
        super().__init__(reason, detail)
        self.reason, self.detail = reason, detail


def read_skill(
    data: bytes,
    *,
    source: str,
    path: str,
    credentials: Credentials = "redact",
    risks: Mapping[RiskCode, RiskAction] = DEFAULT_ACTIONS,
    max_bytes: int = MAX_BYTES,
) -> ParsedSkill | Rejected:
    """The skill in the bytes of a SKILL.md; `path` names it in its source and gives a missing name by its folder.

    `risks` says for each code of the risk screen what becomes of a skill that earns it; a code that it lacks is kept.
    """
    mended: list[Mended] = []
    try:
        text = _text_of_bytes(data, mended, max_bytes)
        if not text.strip("\ufeff \n\r\t"):
            raise _Unusable("empty_file", "nothing but white space; write the skill or delete the file")
        front = front_matter.parse(text)
        mended += front.recovered
        parsed = _skill(front.fields, front.body, mended, source, path, credentials)
        return _screened(parsed, risks)
    except _Unusable as unusable:
        return _rejected(source, path, unusable)


def read_row(
    row: Mapping[str, Any],
    *,
    source: str,
    path: str,
    credentials: Credentials = "redact",
    risks: Mapping[RiskCode, RiskAction] = DEFAULT_ACTIONS,
) -> ParsedSkill | Rejected:
    """The skill in a row: columns name, description and body, or a whole SKILL.md in body, content or text.

    Columns win over front matter. `skill_id` or `id` becomes the source_id; `license` is kept. `risks` as for
    `read_skill`.
    """
    mended: list[Mended] = []
    try:
        column = next((name for name in ("body", "content", "text") if row.get(name)), None)
        if column is None:
            if any(name in row for name in ("body", "content", "text")):
                raise _Unusable("empty_body", "the body column is empty")
            raise _Unusable("missing_body", "no column body, content or text; rename the column that holds the skill")
        text = _text_of_value(row[column], column, mended)
        fields = {key: row[key] for key in ("name", "description", "license") if row.get(key) not in (None, "")}
        if column != "body" or not ("name" in fields and "description" in fields):
            front = front_matter.parse(text)
            mended += (code for code in front.recovered if code != "no_front_matter")
            fields, text = front.fields | fields, front.body
        source_id = next((_as_text(row[key], mended) for key in ("skill_id", "id") if row.get(key) is not None), None)
        return _screened(_skill(fields, text, mended, source, path, credentials, source_id), risks)
    except _Unusable as unusable:
        return _rejected(source, path, unusable)


def _rejected(source: str, path: str, unusable: _Unusable) -> Rejected:
    return Rejected(
        source=storable(source), path=storable(path), reason=unusable.reason, detail=storable(unusable.detail)
    )


def _text_of_bytes(data: bytes, mended: list[Mended], max_bytes: int = MAX_BYTES) -> str:
    if len(data) > max_bytes:
        raise _Unusable("too_large", f"more than {max_bytes} bytes; split it or move reference material to other files")
    if b"\0" in data and not data.startswith(UTF16_MARKS):
        raise _Unusable("nul_bytes", f"{data.count(0)} NUL bytes, the first at {data.index(0)}; not a text file?")
    try:
        text, how = decode(data)
    except UnicodeError as error:
        raise _Unusable("undecodable", "no encoding reads this as text; save it as UTF-8") from error
    if how != "utf8":
        mended.append(how)
    return _clean(text, mended)


def _text_of_value(value: Any, column: str, mended: list[Mended]) -> str:
    if isinstance(value, bytes):
        return _text_of_bytes(value, mended)
    if not isinstance(value, str):
        raise _Unusable("not_text", f"column {column} holds {type(value).__name__}, not text")
    if len(value) > MAX_BYTES:
        raise _Unusable("too_large", f"column {column} has more than {MAX_BYTES} characters")
    return _clean(value, mended)


def _clean(text: str, mended: list[Mended]) -> str:
    """Text without control characters and lone surrogates; line ends are left to the front matter parser."""
    if "\0" in text:
        raise _Unusable("nul_bytes", f"{text.count(chr(0))} NUL characters, the first at {text.index(chr(0))}")
    cleaned = storable(CONTROL_CHARACTERS.sub("", text))
    if cleaned != text:
        mended.append("control_characters")
    return cleaned


def _skill(
    fields: Mapping[str, Any],
    body: str,
    mended: list[Mended],
    source: str,
    path: str,
    credentials: Credentials,
    source_id: str | None = None,
) -> ParsedSkill:
    body = re.sub(r"\r\n?", "\n", body).lstrip("\ufeff").strip("\n").rstrip()
    if not body:
        raise _Unusable("empty_body", "nothing below the front matter; write the instructions")
    redacted, counts = _redact_all(
        _name(_as_text(fields.get("name"), mended), body, path, mended),
        _description(_as_text(fields.get("description"), mended), body, mended),
        body,
    )
    if counts and credentials == "reject":
        kinds = ", ".join(f"{kind} × {count}" for kind, count in sorted(counts.items()))
        raise _Unusable("credential", f"{kinds}; take them out of the file and revoke them")
    # As they are stored: the id is the hash of exactly that.
    name, description, body = " ".join(redacted[0].split()), redacted[1].strip(), redacted[2]
    skill = Skill(
        skill_id=skill_id_of(name, description, body),
        name=name,
        description=description,
        body=body,
        source=storable(source),
        path=storable(path),
        source_id=source_id or None,
        license=cut_text(redact(_as_text(fields.get("license"), mended))[0], MAX_NAME) or None,
        near_duplicate_of=None,
    )
    return ParsedSkill(skill, tuple(dict.fromkeys(mended)), counts)


def _screened(parsed: ParsedSkill, actions: Mapping[RiskCode, RiskAction]) -> ParsedSkill:
    """The skill with its risks, found in the texts as they are stored."""
    skill = parsed.skill
    risks = screen_skill(skill.name, skill.description, skill.body)
    action = gravest(risks, actions)
    if action == "reject":
        raise _Unusable("risk", "; ".join(_where(risk, skill) for risk in risks) + "; read it before you trust it")
    marked = skill.model_copy(update={"risks": risks, "routable": action == "keep"})
    return replace(parsed, skill=marked)


def _where(risk: Risk, skill: Skill) -> str:
    if risk.field == "body":
        return f"{risk.code} in line {skill.body.count(chr(10), 0, risk.start) + 1} of the body: {risk.excerpt}"
    return f"{risk.code} in the {risk.field}: {risk.excerpt}"


def _redact_all(*texts: str) -> tuple[list[str], dict[str, int]]:
    counts: Counter[str] = Counter()
    redacted = []
    for text in texts:
        clean, found = redact(text)
        counts.update(found)
        redacted.append(clean)
    return redacted, dict(counts)


def _name(given: str, body: str, path: str, mended: list[Mended]) -> str:
    name = _one_line(given)
    if not name:
        name = _one_line(PurePosixPath(path).parent.name)
        mended.append("name_from_folder" if name else "name_from_heading")
        name = name or _one_line(first_heading(body))
    if not name:
        raise _Unusable("missing_name", "no name, no folder and no heading to take it from; add `name:`")
    if len(name) > MAX_NAME:
        mended.append("long_name")
    return cut_text(name, MAX_NAME)


def _one_line(text: str) -> str:
    """The words of a text; folder names and Markdown entities hold what `_clean` has not seen."""
    return " ".join(storable(CONTROL_CHARACTERS.sub("", text.replace("\0", ""))).split())


def _description(given: str, body: str, mended: list[Mended]) -> str:
    if not given:
        mended.append("description_from_body")
        given = cut_text(_one_line(first_paragraph(body)), PARAGRAPH)
    if not given:
        raise _Unusable("missing_description", "no description and no paragraph to take it from; add `description:`")
    if len(given) > MAX_DESCRIPTION:
        mended.append("long_description")
    return cut_text(given, MAX_DESCRIPTION)


def _as_text(value: Any, mended: list[Mended]) -> str:
    """A field as a person would read it: lists joined by commas, mappings as `key: value`."""
    if isinstance(value, str):
        return re.sub(r"\r\n?", "\n", _clean(value, mended)).strip()
    if isinstance(value, bytes):
        return _text_of_bytes(value, mended).strip()
    return _clean(_joined(value, 0), mended).strip()


def _joined(value: Any, depth: int) -> str:
    if isinstance(value, (list, tuple)) and depth < MAX_NESTING:
        return ", ".join(filter(None, (_joined(item, depth + 1) for item in value)))
    if isinstance(value, dict) and depth < MAX_NESTING:
        return ", ".join(f"{key}: {_joined(item, depth + 1)}" for key, item in value.items())
    return str(value) if isinstance(value, (str, int, float)) else ""
