"""Settings of models, chunker and router, validated before any work. Those that ship: `model_settings/*.yaml`."""

from importlib import resources
from pathlib import Path
from typing import Any, Literal, TypeVar

import yaml
from pydantic import BaseModel, ConfigDict, Field, ValidationError, model_validator

from skillfeed.errors import SettingError
from skillfeed.prompts import INSTRUCTION
from skillfeed.records import ChannelName


class Settings(BaseModel):
    model_config = ConfigDict(frozen=True, extra="forbid")


SettingsType = TypeVar("SettingsType", bound=Settings)


class WeightsSettings(Settings):
    """Where a model's files are. The first place given of `path`, `cache`, `package`, `hub` that has them is used."""

    path: str | None = Field(None, description="A directory on every node")
    cache: str | None = Field(None, description="A directory below skillfeed's cache, made by a job")
    package: str | None = Field(None, description="An installed Python package that carries them")
    path_in_package: str = ""
    hub: str | None = Field(None, description="Hugging Face name, used where a hub is reachable")
    revision: str | None = None
    sha256: dict[str, str] = Field({}, description="File name to expected sha256, checked at load")

    @model_validator(mode="after")
    def _named_somewhere(self) -> "WeightsSettings":
        if not (self.path or self.cache or self.package or self.hub):
            raise ValueError("weights need one of path, cache, package, hub")
        return self


class RetrieverSettings(Settings):
    weights: WeightsSettings
    backend: Literal["onnx", "torch", "static"]
    dtype: Literal["float32", "float16", "bfloat16", "int8"] = "float32"
    device: Literal["cpu", "cuda"] = "cpu"
    max_tokens: int = Field(512, gt=0, description="Longer inputs are cut here")
    query_template: str = Field("{instruction}\n{query}", description="Model input of a query")
    document_template: str = "{document}"
    instruction: str = INSTRUCTION
    tokens_per_batch: int = Field(2048, gt=0, description="Padded tokens of one forward pass")


class RerankerSettings(Settings):
    weights: WeightsSettings
    kind: Literal["cross_encoder", "generative"]
    backend: Literal["onnx", "torch"] = "torch"
    dtype: Literal["float32", "float16", "bfloat16", "int8"] = "float32"
    device: Literal["cpu", "cuda"] = "cpu"
    max_tokens: int = Field(512, gt=0, description="Query and document together; only the document is cut")
    max_query_tokens: int = Field(192, gt=0, description="A longer query is cut so that the document keeps its room")
    query: Literal["full", "short"] = Field(
        "full", description="Whole task and profile, or task name and profile values"
    )
    document: Literal["head", "evidence"] = Field(
        "evidence", description="Body from its head, or passages that fit the profile first"
    )
    instruction: str = "Given a user's task and constraints, judge whether the skill is the most appropriate one."
    tokens_per_batch: int = Field(4096, gt=0)


class ChunkerSettings(Settings):
    min_tokens: int = Field(200, gt=0, description="Neighbouring sections are merged until they reach this")
    target_tokens: int = Field(500, gt=0, description="Sections are split to stay under this")
    max_tokens: int = Field(800, gt=0, description="A code fence or table may grow a chunk up to this, never past it")
    overlap_tokens: int = Field(40, ge=0, description="Repeated from the previous chunk when a section is split")
    description_tokens: int = Field(48, ge=0, description="How much of the description each chunk carries")

    @model_validator(mode="after")
    def _ordered(self) -> "ChunkerSettings":
        if not self.overlap_tokens < self.min_tokens <= self.target_tokens <= self.max_tokens:
            raise ValueError("need overlap_tokens < min_tokens <= target_tokens <= max_tokens")
        return self


class ModelSettings(Settings):
    name: str
    retriever: RetrieverSettings
    reranker: RerankerSettings | None = None
    chunker: ChunkerSettings = ChunkerSettings()


class ChannelSettings(Settings):
    weight: float = Field(gt=0)
    depth: int = Field(gt=0, description="Skills recalled per request")
    with_profile: bool


class AggregationSettings(Settings):
    """Chunk scores to a skill score: max_weight·max + mean_weight·mean of top M + count_weight·log(1 + n)."""

    max_weight: float = 0.70
    mean_weight: float = 0.25
    count_weight: float = 0.05
    top_m: int = Field(3, gt=0)
    chunks: int = Field(300, gt=0, description="Chunks retrieved per request")


class RerankSettings(Settings):
    depth: int = Field(50, gt=0, description="Fused skills that are reranked; top_k where that is more")
    with_profile: bool = True
    passages: int = Field(3, gt=0, description="Evidence passages put first in the document")


class RouterSettings(Settings):
    """Every ablation is a change here: drop a channel, drop the reranker, drop the profile."""

    channels: dict[ChannelName, ChannelSettings] = {
        "task_dense": ChannelSettings(weight=0.40, depth=100, with_profile=False),
        "profile_chunk_dense": ChannelSettings(weight=0.40, depth=100, with_profile=True),
        "bm25": ChannelSettings(weight=0.20, depth=100, with_profile=True),
    }
    aggregation: AggregationSettings = AggregationSettings()
    index_device: Literal["cpu", "cuda"] = Field("cpu", description="cuda: exact dense search in GPU memory")
    rrf_k: int = Field(60, gt=0)
    rerank: RerankSettings | None = RerankSettings()
    top_k: int = Field(10, gt=0)

    @model_validator(mode="after")
    def _recalls_something(self) -> "RouterSettings":
        if not self.channels:
            raise ValueError("channels: at least one is needed")
        return self


def shipped_models() -> list[str]:
    return sorted(path.name.removesuffix(".yaml") for path in _shipped().iterdir() if path.name.endswith(".yaml"))


def load_models(name_or_file: str) -> ModelSettings:
    """Model settings by shipped name, or from a YAML file.

    Raises:
        SettingError: unknown name, unreadable file, or a field that does not hold.
    """
    path: Any = Path(name_or_file).expanduser()
    if name_or_file in shipped_models():
        path = _shipped() / f"{name_or_file}.yaml"
    elif path.suffix not in (".yaml", ".yml") or not path.is_file():
        raise SettingError(f"models: no '{name_or_file}'; give one of {', '.join(shipped_models())} or a YAML file")
    try:
        values = yaml.safe_load(path.read_text(encoding="utf-8"))
    except (OSError, UnicodeDecodeError, yaml.YAMLError) as error:
        raise SettingError(f"models: {path} cannot be read as YAML: {' '.join(str(error).split())}") from error
    return checked(ModelSettings, values, str(path))


def checked(kind: type[SettingsType], values: Any, where: str) -> SettingsType:
    """Settings from plain values.

    Raises:
        SettingError: a field does not hold, named with the reason.
    """
    try:
        return kind.model_validate(values)
    except ValidationError as error:
        raise SettingError(f"{where}: {describe(error)}") from error


def describe(error: ValidationError) -> str:
    """One line for all that a pydantic check found, each with its field."""
    return "; ".join(f"{'.'.join(map(str, item['loc'])) or 'settings'}: {item['msg']}" for item in error.errors())


def _shipped() -> Any:
    return resources.files("skillfeed") / "model_settings"
