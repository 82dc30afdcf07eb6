"""A transformer retriever: sentence-transformers' modules on token-budget batches, by PyTorch or ONNX Runtime."""

from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

import numpy as np
import torch
from sentence_transformers import SentenceTransformer
from sentence_transformers.base.modules import Transformer
from torch import nn

from skillfeed.errors import SettingError
from skillfeed.models.batching import Ints, distinct, head, one_by_one, pad, token_budget_batches
from skillfeed.models.placement import prepare_torch, torch_dtype
from skillfeed.models.retriever import Vectors, document_inputs, query_inputs
from skillfeed.models.weights import fingerprint, weights_hash
from skillfeed.settings import RetrieverSettings

TokenEmbedder = Callable[[Ints, Ints], torch.Tensor]  # input_ids, mask [B, T] -> [B, T, H] float32


class TransformerRetriever:
    """See `Retriever`."""

    def __init__(
        self,
        settings: RetrieverSettings,
        fingerprint: str,
        tokenizer: Any,
        embed_tokens: TokenEmbedder,
        tail: nn.Module,
    ) -> None:
        self.settings = settings
        self.fingerprint = fingerprint
        self.tokens_seen = 0
        self._tokenizer = tokenizer
        self._pad_id = int(tokenizer.pad_token_id or 0)
        self._embed_tokens = embed_tokens
        self._tail = tail  # pooling, then dense and normalising modules where the model has them
        self.dimension = int(self._forward(self._token_ids([""])).shape[1])

    def encode_queries(self, texts: Sequence[str]) -> Vectors:
        return self._encode(query_inputs(self.settings, texts))

    def encode_documents(self, texts: Sequence[str]) -> Vectors:
        return self._encode(document_inputs(self.settings, texts))

    def _encode(self, texts: Sequence[str]) -> Vectors:
        unique, inverse = distinct([head(text, self.settings.max_tokens) for text in texts])
        vectors = np.zeros((len(unique), self.dimension), dtype=np.float32)
        rows = self._token_ids(unique)
        lengths = [len(row) for row in rows]
        self.tokens_seen += sum(lengths)
        int8 = self.settings.dtype == "int8"  # see onnx_session.is_quantized
        for batch in one_by_one(lengths) if int8 else token_budget_batches(lengths, self.settings.tokens_per_batch):
            vectors[batch] = self._forward([rows[index] for index in batch])
        return vectors[inverse]

    def _token_ids(self, texts: list[str]) -> list[list[int]]:
        if not texts:
            return []
        encoded = self._tokenizer(
            texts,
            truncation=True,
            max_length=self.settings.max_tokens,
            return_attention_mask=False,
            return_token_type_ids=False,
        )
        # A tokenizer that adds no special tokens leaves nothing of an empty text, and a forward pass needs a token.
        return [ids or [self._pad_id] for ids in encoded["input_ids"]]

    @torch.inference_mode()
    def _forward(self, rows: Sequence[Sequence[int]]) -> Vectors:
        input_ids, mask = pad(rows, self._pad_id, self._tokenizer.padding_side)
        hidden = self._embed_tokens(input_ids, mask)
        features = {"token_embeddings": hidden, "attention_mask": torch.from_numpy(mask).to(hidden.device)}
        pooled = self._tail(features)["sentence_embedding"]
        vectors: Vectors = nn.functional.normalize(pooled, dim=1).cpu().numpy()
        return vectors


def load_transformer(settings: RetrieverSettings, directory: Path, threads: int | None) -> TransformerRetriever:
    """From a sentence-transformers directory, or a transformers one (then pooled by the mean, as that library does).

    Raises:
        SettingError: not a text transformer, or `max_tokens` is beyond its positions.
    """
    prepare_torch(threads)
    model = SentenceTransformer(
        str(directory),
        device=settings.device,
        trust_remote_code=False,
        local_files_only=True,
        model_kwargs={
            "dtype": torch.float32 if settings.backend == "onnx" else torch_dtype(settings.dtype),
            "use_safetensors": True,
        },
    ).eval()
    first, *others = model.children()
    if not isinstance(first, Transformer) or first.tokenizer is None:
        raise SettingError(f"weights: {directory} starts with {type(first).__name__}, not a text transformer")
    positions = getattr(first.config, "max_position_embeddings", None)
    if positions is not None and settings.max_tokens > positions:
        raise SettingError(f"max_tokens: {settings.max_tokens} is beyond the {positions} positions of {directory}")
    embed_tokens = _onnx(first, settings, directory, threads) if settings.backend == "onnx" else _torch(first)
    # Pooling and normalising in float32: a mean over 2,048 tokens in bfloat16 would keep 8 bits.
    tail = nn.Sequential(*others).float()
    return TransformerRetriever(settings, fingerprint(settings, directory), first.tokenizer, embed_tokens, tail)


def _torch(module: Transformer) -> TokenEmbedder:
    device = module.model.device

    def embed_tokens(input_ids: Ints, mask: Ints) -> torch.Tensor:
        features = {"input_ids": torch.from_numpy(input_ids), "attention_mask": torch.from_numpy(mask)}
        embedded = module({name: tensor.to(device) for name, tensor in features.items()})
        hidden: torch.Tensor = embedded["token_embeddings"]
        return hidden.float()

    return embed_tokens


def _onnx(module: Transformer, settings: RetrieverSettings, directory: Path, threads: int | None) -> TokenEmbedder:
    from skillfeed.models.onnx_export import exported
    from skillfeed.models.onnx_session import open_session

    dtype: Any = settings.dtype  # float32 or int8: check_placement let it through
    session = open_session(exported(module.model, weights_hash(directory), dtype), threads)

    def embed_tokens(input_ids: Ints, mask: Ints) -> torch.Tensor:
        (hidden,) = session.run(None, {"input_ids": input_ids, "attention_mask": mask})
        return torch.from_numpy(hidden)

    return embed_tokens
