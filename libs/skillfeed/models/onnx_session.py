"""Opens an ONNX graph on the CPU."""

import os
from pathlib import Path

import onnx
import onnxruntime


def open_session(path: Path, threads: int | None) -> onnxruntime.InferenceSession:
    """A session with that many threads inside an operator.

    None means every core this process may use; ONNX Runtime's own default counts physical cores, half of them on
    most cloud machines.
    """
    options = onnxruntime.SessionOptions()
    options.intra_op_num_threads = threads or len(os.sched_getaffinity(0))
    options.inter_op_num_threads = 1
    # Threads that spin between operators: 4-8 % slower on two idle cores, and many times on busy ones.
    options.add_session_config_entry("session.intra_op.allow_spinning", "0")
    return onnxruntime.InferenceSession(str(path), options, providers=["CPUExecutionProvider"])


def is_quantized(path: Path) -> bool:
    """True for dynamically quantized graphs.

    They take the scale of their activations from the whole input tensor, so a text's result depends on its
    neighbours in the batch and on padding: run them one text a call.
    """
    graph = onnx.load(str(path), load_external_data=False).graph
    return any(node.op_type in ("DynamicQuantizeLinear", "DynamicQuantizeMatMul") for node in graph.node)
