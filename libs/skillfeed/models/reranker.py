"""Pairs of query and document to scores: the protocol, and the loader that picks the kind."""

from collections.abc import Sequence
from typing import Protocol

import numpy as np
import numpy.typing as npt

from skillfeed.models.placement import check_placement
from skillfeed.models.weights import resolve
from skillfeed.settings import RerankerSettings

Scores = npt.NDArray[np.float32]
Pair = tuple[str, str]


class Reranker(Protocol):
    """Judges query and document together. Scores are logits: comparable for one query, no probabilities."""

    fingerprint: str  # 16 hex digits

    def score(self, pairs: Sequence[Pair]) -> Scores:
        """[N] float32 in the order of the (query, document) pairs; equal pairs are computed once."""
        ...


def load_reranker(settings: RerankerSettings, threads: int | None = None) -> Reranker:
    """The reranker of the settings, ready to run on `threads` cores (None: all).

    Raises:
        SettingError: weights are missing or damaged, or this machine cannot run them so.
    """
    check_placement(settings.backend, settings.dtype, settings.device)
    directory = resolve(settings.weights)
    # Imported here: the backends bring PyTorch or ONNX Runtime.
    if settings.kind == "generative":
        from skillfeed.models.generative import load_generative

        return load_generative(settings, directory, threads)
    from skillfeed.models.cross_encoder import load_cross_encoder

    return load_cross_encoder(settings, directory, threads)
