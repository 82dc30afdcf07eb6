"""Exports a transformer encoder to ONNX once a machine, into skillfeed's cache."""

import hashlib
import os
import uuid
from pathlib import Path
from typing import Any, Literal

import torch
from filelock import FileLock
from torch import nn

from skillfeed.storage import cache_directory

EXPORT_VERSION = "1"  # raise it when the export below changes, so that cached graphs are made anew


class LastHiddenState(nn.Module):
    def __init__(self, encoder: nn.Module) -> None:
        super().__init__()
        self.encoder = encoder

    def forward(self, input_ids: torch.Tensor, attention_mask: torch.Tensor) -> Any:
        return self.encoder(input_ids=input_ids, attention_mask=attention_mask).last_hidden_state


def exported(encoder: nn.Module, weights: str, dtype: Literal["float32", "int8"]) -> Path:
    """The graph `input_ids, attention_mask [B, T] int64 -> last_hidden_state [B, T, H] float32` of an encoder.

    `weights` names the encoder's files (`weights_hash`). Made under a lock, so processes that start together
    export once; about 5 s for a model of 90 MB.
    """
    key = hashlib.sha256("/".join((weights, dtype, torch.__version__, EXPORT_VERSION)).encode()).hexdigest()[:16]
    path = cache_directory() / "onnx" / f"{key}.onnx"
    path.parent.mkdir(parents=True, exist_ok=True)
    with FileLock(f"{path}.lock"):
        if not path.exists():
            partial = path.with_name(f"{path.name}.partial-{uuid.uuid4().hex}")
            try:
                _export(encoder, partial)
                if dtype == "int8":
                    _quantize(partial)
                os.replace(partial, path)
            finally:
                partial.unlink(missing_ok=True)
    return path


def _export(encoder: nn.Module, path: Path) -> None:
    batch, tokens = torch.export.Dim("batch"), torch.export.Dim("tokens", max=_most_tokens(encoder))
    input_ids = torch.ones(2, 16, dtype=torch.long)
    mask = torch.ones(2, 16, dtype=torch.long)
    mask[1, 10:] = 0  # without a padded row the exporter drops the mask
    torch.onnx.export(
        LastHiddenState(encoder).eval(),
        (input_ids, mask),
        str(path),
        input_names=["input_ids", "attention_mask"],
        output_names=["last_hidden_state"],
        dynamic_shapes={"input_ids": {0: batch, 1: tokens}, "attention_mask": {0: batch, 1: tokens}},
        dynamo=True,
        external_data=False,
        verbose=False,
    )


def _quantize(path: Path) -> None:
    from onnxruntime.quantization import QuantType, quantize_dynamic

    # Per channel keeps cosine .993 to fp32 for MiniLM; per tensor is as fast but .934.
    quantize_dynamic(
        str(path), str(path), weight_type=QuantType.QInt8, per_channel=True, op_types_to_quantize=["MatMul", "Gemm"]
    )


def _most_tokens(encoder: nn.Module) -> int:
    config: Any = encoder.config
    return int(getattr(config, "max_position_embeddings", 512))
