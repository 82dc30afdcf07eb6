"""Cross-encoders with one logit, from an ONNX graph or a transformers sequence-classification checkpoint."""

from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

import numpy as np
from tokenizers import Tokenizer

from skillfeed.errors import SettingError
from skillfeed.models.batching import Ints, one_by_one, pad, token_budget_batches
from skillfeed.models.pair_tokens import check_room, pair_layout, pair_tokens
from skillfeed.models.placement import prepare_torch, torch_dtype
from skillfeed.models.reranker import Pair, Scores
from skillfeed.models.tokenizer import load_tokenizer
from skillfeed.models.weights import fingerprint
from skillfeed.settings import RerankerSettings

Forward = Callable[[Ints, Ints, Ints], Scores]  # input_ids, mask, type_ids [B, T] -> logits [B] float32


class CrossEncoder:
    """See `Reranker`."""

    def __init__(
        self, settings: RerankerSettings, fingerprint: str, tokenizer: Tokenizer, pad_id: int, forward: Forward
    ) -> None:
        self.fingerprint = fingerprint
        self._settings = settings
        self._tokenizer = tokenizer
        self._layout = pair_layout(tokenizer)
        self._pad_id = pad_id
        self._forward = forward
        check_room(settings, self._layout.special_tokens)

    def score(self, pairs: Sequence[Pair]) -> Scores:
        unique = list(dict.fromkeys(pairs))
        limits = self._settings.max_tokens, self._settings.max_query_tokens
        tokens = pair_tokens(self._tokenizer, self._layout, unique, *limits)
        scores = np.zeros(len(unique), dtype=np.float32)
        for batch in self._batches([len(ids) for ids, _ in tokens]):
            input_ids, mask = pad([tokens[index][0] for index in batch], self._pad_id, "right")
            type_ids, _ = pad([tokens[index][1] for index in batch], 0, "right")
            scores[batch] = self._forward(input_ids, mask, type_ids)
        place = {pair: index for index, pair in enumerate(unique)}
        return scores[np.fromiter((place[pair] for pair in pairs), np.int64, len(pairs))]

    def _batches(self, lengths: list[int]) -> list[Ints]:
        if self._settings.dtype == "int8":  # see onnx_session.is_quantized
            return one_by_one(lengths)
        return token_budget_batches(lengths, self._settings.tokens_per_batch)


def load_cross_encoder(settings: RerankerSettings, directory: Path, threads: int | None) -> CrossEncoder:
    """From `model.onnx` and `tokenizer.json`, or a transformers checkpoint.

    Raises:
        SettingError: the files are not there, the model has not exactly one logit, or dtype is not the graph's.
    """
    tokenizer = load_tokenizer(directory)
    load = _onnx if settings.backend == "onnx" else _torch
    pad_id, forward = load(settings, directory, threads)
    return CrossEncoder(settings, fingerprint(settings, directory), tokenizer, pad_id, forward)


def _onnx(settings: RerankerSettings, directory: Path, threads: int | None) -> tuple[int, Forward]:
    from skillfeed.models.onnx_session import is_quantized, open_session

    path = directory / "model.onnx"
    if not path.is_file():
        raise SettingError(f"weights: no model.onnx in {directory}; set backend: torch for a transformers checkpoint")
    graph_dtype = "int8" if is_quantized(path) else "float32"
    if settings.dtype != graph_dtype:
        raise SettingError(f"dtype: {path} is {graph_dtype}, the settings say {settings.dtype}")
    session = open_session(path, threads)
    names = {node.name for node in session.get_inputs()}

    def forward(input_ids: Ints, mask: Ints, type_ids: Ints) -> Scores:
        given = {"input_ids": input_ids, "attention_mask": mask, "token_type_ids": type_ids}
        (logits,) = session.run(None, {name: array for name, array in given.items() if name in names})
        return _one_logit(logits, path)

    return 0, forward  # what the mask hides may be any token


def _torch(settings: RerankerSettings, directory: Path, threads: int | None) -> tuple[int, Forward]:
    import torch
    from transformers import AutoModelForSequenceClassification

    prepare_torch(threads)
    model: Any = AutoModelForSequenceClassification.from_pretrained(
        str(directory), dtype=torch_dtype(settings.dtype), use_safetensors=True, trust_remote_code=False
    )
    model = model.to(settings.device).eval()
    takes_type_ids = getattr(model.config, "type_vocab_size", 0) > 1  # RoBERTa has one type, DistilBERT none

    @torch.inference_mode()
    def forward(input_ids: Ints, mask: Ints, type_ids: Ints) -> Scores:
        given = {"input_ids": input_ids, "attention_mask": mask}
        if takes_type_ids:
            given["token_type_ids"] = type_ids
        logits = model(**{name: torch.from_numpy(array).to(settings.device) for name, array in given.items()}).logits
        return _one_logit(logits.float().cpu().numpy(), directory)

    return model.config.pad_token_id or 0, forward


def _one_logit(logits: Any, where: Path) -> Scores:
    """[B, 1] to [B] float32."""
    if logits.ndim != 2 or logits.shape[1] != 1:
        raise SettingError(f"weights: {where} gives logits of shape {logits.shape}; a reranker needs one for each pair")
    scores: Scores = logits[:, 0].astype(np.float32)
    return scores
