"""Texts to vectors: the protocol that everything else sees, and the loader that picks the backend."""

from collections.abc import Sequence
from typing import Protocol

import numpy as np
import numpy.typing as npt

from skillfeed.models.placement import check_placement
from skillfeed.models.weights import resolve
from skillfeed.settings import RetrieverSettings

Vectors = npt.NDArray[np.float32]


class Retriever(Protocol):
    """A bi-encoder. Vectors are [B, D] float32, L2-normalised, in the order given; B = 0 gives [0, D].

    Each distinct text is computed once. A text without any token (possible for static models) gets zeros.
    """

    dimension: int
    fingerprint: str  # 16 hex digits: vectors of equal fingerprints may be compared
    tokens_seen: int  # tokens of all texts so far, after cutting, special tokens included, padding not

    def encode_queries(self, texts: Sequence[str]) -> Vectors: ...

    def encode_documents(self, texts: Sequence[str]) -> Vectors: ...


def query_inputs(settings: RetrieverSettings, texts: Sequence[str]) -> list[str]:
    """Queries as the model reads them: in its template, with its instruction."""
    return [settings.query_template.format(instruction=settings.instruction, query=text) for text in texts]


def document_inputs(settings: RetrieverSettings, texts: Sequence[str]) -> list[str]:
    """Documents as the model reads them."""
    return [settings.document_template.format(document=text) for text in texts]


def load_retriever(settings: RetrieverSettings, threads: int | None = None) -> Retriever:
    """The retriever of the settings, ready to run on `threads` cores (None: all).

    Raises:
        SettingError: weights are missing or damaged, or this machine cannot run them so.
    """
    check_placement(settings.backend, settings.dtype, settings.device)
    directory = resolve(settings.weights)
    # Imported here: the backends bring PyTorch and sentence-transformers, seconds that a check of settings can spare.
    if settings.backend == "static":
        from skillfeed.models.static_retriever import load_static

        return load_static(settings, directory, threads)
    from skillfeed.models.transformer_retriever import load_transformer

    return load_transformer(settings, directory, threads)
