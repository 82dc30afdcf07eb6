"""The nouns of skillfeed as pydantic models. The wire contract (`schemas/`) and the Parquet schemas derive from it."""

import hashlib
import types
import unicodedata
from collections.abc import Iterator
from typing import Annotated, Any, Literal, Union, get_args, get_origin

import pyarrow as pa
from pydantic import BaseModel, ConfigDict, Field, StringConstraints, field_validator, model_validator

Text = Annotated[str, StringConstraints(strip_whitespace=True, min_length=1)]
ChannelName = Literal["task_dense", "bm25", "profile_chunk_dense", "profile_dense"]

STANDARD_PROFILE_KEYS = ("country_region", "language", "preferred_platforms", "payment_methods", "other_constraints")


class Record(BaseModel):
    model_config = ConfigDict(frozen=True, extra="forbid", populate_by_name=True)


RiskCode = Literal[
    "piped_remote_code",
    "encoded_code",
    "password_protected_download",
    "raw_host_download",
    "credential_harvesting",
    "hidden_unicode",
    "agent_override",
    "secret_pasting",
]


class Risk(Record):
    """What in a skill could harm the one who follows it, and where."""

    code: RiskCode
    field: Literal["name", "description", "body"] = Field(description="The text of the skill that holds it")
    start: int = Field(description="First character of the span in that text, from 0")
    end: int = Field(description="Behind its last character")
    excerpt: str = Field(description="At most 160 characters of the span, credentials redacted, unseen ones as escapes")


class Skill(Record):
    """One reusable skill and where it came from."""

    skill_id: str = Field(description="First 16 hex digits of the sha256 of name, description and body")
    name: Text
    description: Text
    body: str = Field(description="Markdown without front matter, line ends as \\n, credentials redacted")
    source: str = Field(description="URI of the source it was read from")
    path: str = Field(description="Path inside the source; for row sources the row number, `#17`")
    source_id: str | None = Field(None, description="The id the source itself gave, where it gave one")
    license: str | None = None
    near_duplicate_of: str | None = Field(None, description="skill_id of the first skill of its near-duplicate group")
    risks: tuple[Risk, ...] = Field((), description="What could harm the one who follows it, and where it says so")
    routable: bool = Field(True, description="False: kept in the skill table, but in no index, for its risks")


class Rejected(Record):
    """An input that did not become a row of the output."""

    source: str = Field(description="URI of the source")
    path: str = Field(description="Path, archive member, or row number `#17`")
    reason: str = Field(description="Reason code, snake_case")
    detail: str = Field("", description="What a person needs to mend it; never the text of a credential")


class Chunk(Record):
    """One Markdown-structured passage of a skill's body."""

    chunk_id: str = Field(description="skill_id, a hyphen, and the position in the body from 0000")
    skill_id: str
    name: str
    description: str
    section_path: str = Field(description="Headings from the outermost, joined by ` > `; merged sections by ` / `")
    text: str
    token_count: int = Field(description="Tokens of `text` by the retriever's tokenizer, without special tokens")
    text_hash: str = Field(description="32 hex digits of the sha256 of the passage as the model reads it")


class Task(Record):
    """What the user wants done."""

    model_config = ConfigDict(frozen=True, extra="ignore")

    name: str = ""
    description: str = ""
    core_requirements: tuple[str, ...] = ()

    @model_validator(mode="before")
    @classmethod
    def _without_nulls(cls, given: Any) -> Any:
        """A Parquet struct has a null for every key that another row has."""
        if not isinstance(given, dict):
            return given
        task = {key: value for key, value in given.items() if value is not None}
        needs = task.get("core_requirements")
        if isinstance(needs, str):
            task["core_requirements"] = (needs,) if needs.strip() else ()
        elif isinstance(needs, (list, tuple)):
            task["core_requirements"] = tuple(need for need in needs if need is not None)
        return task

    @model_validator(mode="after")
    def _says_something(self) -> "Task":
        if not (_can_be_seen(self.name) or _can_be_seen(self.description)):
            raise ValueError("a task needs a name or a description")
        return self


# Categories of characters that show nothing by themselves, and letters and symbols that are blank all the same.
_UNSEEN = {"Cc", "Cf", "Cs", "Zs", "Zl", "Zp", "Mn", "Me"}
_BLANK = "\u115f\u1160\u2800\u3164\uffa0"


def _can_be_seen(text: str) -> bool:
    return any(unicodedata.category(character) not in _UNSEEN and character not in _BLANK for character in text)


class Profile(BaseModel):
    """The user's constraints; any key beside the five standard ones is kept. May be empty.

    Values are a text, a number or a list of texts. Empty values say nothing and are dropped.
    """

    model_config = ConfigDict(frozen=True, extra="allow")

    country_region: str | None = None
    language: str | None = None
    preferred_platforms: tuple[str, ...] = ()
    payment_methods: tuple[str, ...] = ()
    other_constraints: tuple[str, ...] = ()

    @model_validator(mode="before")
    @classmethod
    def _plain_values(cls, given: Any) -> Any:
        if given is None:
            return {}
        if not isinstance(given, dict):
            return given
        return {key: _plain_value(key, value) for key, value in given.items() if value not in (None, "", [], {}, ())}

    def lines(self) -> Iterator[tuple[str, str]]:
        """(key, value) pairs: the standard keys first, then the others by name, so that equal profiles read equal."""
        values = dict(self)
        for key in (*STANDARD_PROFILE_KEYS, *sorted(self.__pydantic_extra__ or {})):
            value = values[key]
            text = ", ".join(value) if isinstance(value, (tuple, list)) else str(value or "")
            if text:
                yield key, text


def _plain_value(key: str, value: Any) -> Any:
    """A profile value as a text or, for lists, a tuple of texts."""
    is_list = key in STANDARD_PROFILE_KEYS[2:]
    if isinstance(value, (list, tuple)):
        texts = tuple(str(item).strip() for item in value if item is not None and str(item).strip())
        return texts if is_list or key not in STANDARD_PROFILE_KEYS else ", ".join(texts)
    if isinstance(value, (str, int, float, bool)):
        text = str(value).strip()
        return ((text,) if text else ()) if is_list else text
    raise ValueError(f"{key}: expected a text, a number or a list of texts, got {type(value).__name__}")


class RoutingRequest(Record):
    """A task and the profile of the user who asks. Unknown keys of a log line are ignored."""

    model_config = ConfigDict(frozen=True, extra="ignore", populate_by_name=True)

    request_id: Text
    task: Task
    profile: Profile = Field(default_factory=Profile, alias="user_context_constraints")

    @field_validator("request_id", mode="before")
    @classmethod
    def _id_as_text(cls, value: Any) -> Any:
        if isinstance(value, float) and value.is_integer() and abs(value) < 2**53:  # beyond, the number is not exact
            value = int(value)  # a column of numbers with a null becomes one of floats
        return str(value) if isinstance(value, int) and not isinstance(value, bool) else value


class ChannelRank(Record):
    """Where one channel placed a skill."""

    channel: ChannelName
    rank: int = Field(description="From 1")
    score: float = Field(description="Cosine, BM25 or aggregated chunk score, by channel; not comparable across them")


class Evidence(Record):
    """A passage of the skill's body that speaks to the profile."""

    chunk_id: str
    section_path: str
    text: str
    score: float = Field(description="Cosine to the profile, or to the task where there is no profile")


class RoutedSkill(Record):
    """One line of a route."""

    rank: int = Field(description="From 1")
    skill_id: str
    name: str
    score: float = Field(description="What the list is sorted by: the rerank score, else the fused one")
    fused_score: float
    rerank_score: float | None = Field(None, description="Null without a reranker")
    channels: tuple[ChannelRank, ...] = ()
    evidence: tuple[Evidence, ...] = Field((), description="Best passage first")


class Route(Record):
    """The final ranked list for one request."""

    request_id: str
    snapshot_id: str
    skills: tuple[RoutedSkill, ...]


WIRE_RECORDS: tuple[type[BaseModel], ...] = (
    Skill,
    Risk,
    Rejected,
    Chunk,
    Task,
    Profile,
    RoutingRequest,
    RoutedSkill,
    Route,
)


def skill_id_of(name: str, description: str, body: str) -> str:
    """16 hex digits, the same for the same content anywhere."""
    return hashlib.sha256("\0".join((name, description, body)).encode()).hexdigest()[:16]


def text_hash_of(text: str) -> str:
    """32 hex digits (128 bits: a collision among 10^9 texts has a chance below 10^-20)."""
    return hashlib.sha256(text.encode()).hexdigest()[:32]


def arrow_schema(model: type[BaseModel]) -> pa.Schema:
    """The Parquet schema of a record: one column a field, in order; optional fields are nullable."""
    return pa.schema([_arrow_field(name, field.annotation) for name, field in model.model_fields.items()])


_SCALARS: dict[Any, pa.DataType] = {str: pa.string(), int: pa.int32(), float: pa.float32(), bool: pa.bool_()}


def _arrow_field(name: str, annotation: Any) -> pa.Field:
    options = [option for option in get_args(annotation) if option is not type(None)]
    if get_origin(annotation) in (Union, types.UnionType):
        return pa.field(name, _arrow_type(options[0]), nullable=True)
    return pa.field(name, _arrow_type(annotation), nullable=False)


def _arrow_type(annotation: Any) -> pa.DataType:
    origin = get_origin(annotation)
    if origin is tuple:
        return pa.list_(_arrow_type(get_args(annotation)[0]))
    if origin is Literal:
        return pa.string()
    if origin is Annotated:
        return _arrow_type(get_args(annotation)[0])
    if isinstance(annotation, type) and issubclass(annotation, BaseModel):
        return pa.struct(list(arrow_schema(annotation)))
    return _SCALARS[annotation]
