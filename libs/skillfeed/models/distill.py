"""Distils a transformer retriever into a static one: one vector a token, so that millions of texts fit on CPUs."""

import os
import shutil
import uuid
from dataclasses import dataclass
from pathlib import Path

from skillfeed.errors import SettingError
from skillfeed.models.weights import resolve
from skillfeed.settings import RetrieverSettings
from skillfeed.storage import sha256_of

DIMENSION = 256


@dataclass(frozen=True)
class Distilled:
    path: Path
    tokens: int
    dimension: int
    sha256: str  # of model.safetensors


def distill_static(source: RetrieverSettings, output: Path) -> Distilled:
    """Distils the source (model2vec: token outputs, PCA to 256, SIF weights) into the directory `output`.

    `output` is replaced as a whole when everything is written. Equal sources give equal bytes on one machine; about
    20 s for MiniLM on 2 cores.

    Raises:
        SettingError: the source's weights are missing, or model2vec is.
    """
    directory = resolve(source.weights)
    try:
        from model2vec.distill import distill
    except ImportError as error:
        raise SettingError(f"distilling needs more: `pip install 'skillfeed[static]'` ({error})") from error
    model = distill(str(directory), device="cpu", pca_dims=DIMENSION, trust_remote_code=False)
    # By default the source's path on this machine, which would make the same model differ from machine to machine.
    model.config["tokenizer_name"] = model.base_model_name = _public_name(source, directory)
    partial = output.with_name(f"{output.name}.partial-{uuid.uuid4().hex}")
    try:
        model.save_pretrained(partial)
        _replace_directory(partial, output)
    finally:
        shutil.rmtree(partial, ignore_errors=True)
    return Distilled(output, len(model.tokens), model.dim, sha256_of(output / "model.safetensors"))


def _public_name(source: RetrieverSettings, directory: Path) -> str:
    return source.weights.hub or source.weights.package or directory.name


def _replace_directory(new: Path, target: Path) -> None:
    """Renames `new` to `target`; an older target is moved aside first and then deleted."""
    if not target.exists():
        os.rename(new, target)
        return
    old = target.with_name(f"{target.name}.partial-{uuid.uuid4().hex}")
    os.rename(target, old)
    os.rename(new, target)
    shutil.rmtree(old)
