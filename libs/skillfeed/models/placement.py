"""Which backend runs in which number format on which device; what cannot run is a setting error, never a fallback."""

import os
from typing import TYPE_CHECKING

from skillfeed.errors import SettingError

if TYPE_CHECKING:
    import torch

RUNS = {
    ("torch", "cpu"): ("float32", "bfloat16", "float16"),
    ("torch", "cuda"): ("float32", "bfloat16", "float16"),
    ("onnx", "cpu"): ("float32", "int8"),
    ("static", "cpu"): ("float32",),
}


def check_placement(backend: str, dtype: str, device: str) -> None:
    """Nothing, when this machine can run it.

    Raises:
        SettingError: the combination does not exist, or a GPU is asked for and there is none.
    """
    dtypes = RUNS.get((backend, device))
    if dtypes is None:
        raise SettingError(f"device: backend '{backend}' does not run on '{device}'; set device: cpu or backend: torch")
    if dtype not in dtypes:
        raise SettingError(f"dtype: backend '{backend}' on {device} runs {', '.join(dtypes)}, not {dtype}")
    if device == "cuda":
        import torch

        if not torch.cuda.is_available():
            raise SettingError("device: PyTorch sees no GPU here for cuda; set device: cpu or run on a GPU node")


def check_local_gpu(device: str) -> None:
    """Nothing, when this machine can give what is asked, or when a cluster (RAY_ADDRESS) is to give it.

    Raises:
        SettingError: `cuda` on a machine without a GPU.
    """
    if device == "cuda" and not os.environ.get("RAY_ADDRESS"):
        check_placement("torch", "float32", device)


def torch_dtype(dtype: str) -> "torch.dtype":
    import torch

    return {"float32": torch.float32, "bfloat16": torch.bfloat16, "float16": torch.float16}[dtype]


def prepare_torch(threads: int | None) -> None:
    """Caps PyTorch's threads in this process (None leaves them), and keeps loading quiet.

    A bar for each loaded file of each worker would tear the job's own progress line.
    """
    import torch
    from transformers.utils.logging import disable_progress_bar

    disable_progress_bar()  # type: ignore[no-untyped-call]
    if threads is not None:
        torch.set_num_threads(threads)
