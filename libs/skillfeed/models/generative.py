"""Generative rerankers (Qwen3-Reranker): the score is the logit of `yes` as the next token."""

from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np
import torch
from transformers import AutoModelForCausalLM

from skillfeed.errors import SettingError
from skillfeed.models.batching import pad, token_budget_batches
from skillfeed.models.pair_tokens import check_room
from skillfeed.models.placement import prepare_torch, torch_dtype
from skillfeed.models.qwen3_template import Qwen3Template, qwen3_template, yes_token
from skillfeed.models.reranker import Pair, Scores
from skillfeed.models.tokenizer import load_tokenizer
from skillfeed.models.weights import fingerprint
from skillfeed.settings import RerankerSettings


class GenerativeReranker:
    """See `Reranker`."""

    def __init__(
        self, settings: RerankerSettings, fingerprint: str, template: Qwen3Template, model: Any, yes: int
    ) -> None:
        self.fingerprint = fingerprint
        self._settings = settings
        self.template = template
        self._decoder = model.get_decoder()
        self._yes = model.get_output_embeddings().weight[yes].detach()  # [H]
        check_room(settings, template.fixed_tokens())

    def score(self, pairs: Sequence[Pair]) -> Scores:
        unique = list(dict.fromkeys(pairs))
        rows = self.template.input_ids(unique)
        scores = np.zeros(len(unique), dtype=np.float32)
        for batch in token_budget_batches([len(row) for row in rows], self._settings.tokens_per_batch):
            scores[batch] = self.yes_logits([rows[index] for index in batch])
        place = {pair: index for index, pair in enumerate(unique)}
        return scores[np.fromiter((place[pair] for pair in pairs), np.int64, len(pairs))]

    @torch.inference_mode()
    def yes_logits(self, rows: Sequence[Sequence[int]]) -> Scores:
        """[B] float32 for token ids of any lengths. Left padding puts every last token in the last column."""
        token_ids, ones = pad(rows, 0, "left")  # what the mask hides may be any token
        device = self._yes.device
        mask = torch.from_numpy(ones).to(device)
        positions = (mask.cumsum(1) - 1).clamp(min=0)  # a row's first token stands at 0, however much padding it has
        hidden = self._decoder(
            input_ids=torch.from_numpy(token_ids).to(device),
            attention_mask=mask,
            position_ids=positions,
            use_cache=False,
        ).last_hidden_state[:, -1]  # [B, H]
        # One row of the output layer: all logits of a batch of 32 x 2,048 tokens would be 40 GB in float32.
        scores: Scores = (hidden.float() @ self._yes.float()).cpu().numpy()
        return scores


def load_generative(settings: RerankerSettings, directory: Path, threads: int | None) -> GenerativeReranker:
    """From a transformers causal-LM checkpoint with Qwen3's chat tokens.

    Raises:
        SettingError: another backend than torch, or the tokenizer is not such a one.
    """
    if settings.backend != "torch":
        raise SettingError(f"backend: a generative reranker runs on torch, not {settings.backend}")
    prepare_torch(threads)
    tokenizer = load_tokenizer(directory)
    template = qwen3_template(tokenizer, settings.instruction, settings.max_tokens, settings.max_query_tokens)
    model: Any = AutoModelForCausalLM.from_pretrained(
        str(directory), dtype=torch_dtype(settings.dtype), use_safetensors=True, trust_remote_code=False
    )
    model = model.to(settings.device).eval()
    return GenerativeReranker(settings, fingerprint(settings, directory), template, model, yes_token(tokenizer))
