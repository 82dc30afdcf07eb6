import pytest
import torch

from skillfeed.errors import SettingError
from skillfeed.models.placement import check_placement


@pytest.mark.skipif(torch.cuda.is_available(), reason="there is a GPU here")
def test_cuda_without_a_gpu_is_a_setting_error_and_no_fallback():
    with pytest.raises(SettingError, match="no GPU"):
        check_placement("torch", "float16", "cuda")


@pytest.mark.parametrize(
    ("backend", "dtype", "device"),
    [("torch", "int8", "cpu"), ("onnx", "float16", "cpu"), ("onnx", "float32", "cuda"), ("static", "int8", "cpu")],
)
def test_what_no_backend_runs_is_a_setting_error(backend, dtype, device):
    with pytest.raises(SettingError, match=r"dtype|device"):
        check_placement(backend, dtype, device)
