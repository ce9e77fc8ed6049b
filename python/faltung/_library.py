"""The C library: where it lies, its structs and its functions, by ctypes. Calls release the GIL."""
from __future__ import annotations

import ctypes
import os
import sys
from ctypes import (
    CFUNCTYPE,
    POINTER,
    Structure,
    c_bool,
    c_char,
    c_char_p,
    c_double,
    c_int,
    c_int64,
    c_size_t,
    c_uint64,
    c_void_p,
)
from typing import Any

TYPES = ("u8", "s8", "u16", "s16", "s32", "f16", "bf16", "f32", "f64")
U8, S8, U16, S16, S32, F16, BF16, F32, F64 = range(9)
SIZES = (1, 1, 2, 2, 4, 2, 2, 4, 8)
BOUNDARIES = ("constant", "edge", "symmetric", "reflect101", "wrap")
OPERATIONS = ("forward", "backward-data", "backward-filter", "maxpool", "avgpool", "backward-maxpool",
              "backward-avgpool")
FORWARD, BACKWARD_DATA, BACKWARD_FILTER, MAXPOOL, AVGPOOL, BACKWARD_MAXPOOL, BACKWARD_AVGPOOL = range(7)
ACTIVATIONS = ("identity", "relu", "relu6", "leaky", "silu", "gelu", "sigmoid", "tanh", "clip")


class Tensor(Structure):
    """falt_tensor."""

    _fields_ = [("type", c_int), ("size", c_int64 * 6), ("stride", c_int64 * 6), ("offset", c_int64)]


class Axis(Structure):
    """falt_axis."""

    _fields_ = [("stride", c_int64), ("dilation", c_int64), ("pad", c_int64 * 2), ("boundary", c_int * 2)]


class ProblemStruct(Structure):
    """falt_problem."""

    _fields_ = [
        ("operation", c_int), ("is_filter", c_bool), ("space", c_int),
        ("input", Tensor), ("filter", Tensor), ("output", Tensor), ("residual", Tensor),
        ("axis", Axis * 3), ("boundary_value", c_double), ("accumulator", c_int), ("rank", c_int),
        ("alpha", c_double), ("beta", c_double),
        ("has_scale", c_bool), ("has_bias", c_bool), ("has_residual", c_bool),
        ("activation", c_int), ("act_a", c_double), ("act_b", c_double), ("count_pad", c_bool),
        ("pool", c_int64 * 3), ("filter_when", c_int), ("factors", c_int), ("reserved", c_uint64 * 4),
    ]


class BudgetStruct(Structure):
    """falt_budget."""

    _fields_ = [
        ("max_workspace", c_int64), ("tune_seconds", c_double), ("max_error", c_double),
        ("deterministic", c_bool), ("allow_tf32", c_bool), ("method", c_char * 32),
        ("no_transforms", c_bool), ("reserved", c_uint64 * 8),
    ]


class Operands(Structure):
    """falt_operands."""

    _fields_ = [(name, c_void_p) for name in
                ("input", "filter", "output", "bias", "scale", "residual", "workspace", "stream")]


class CpuOptions(Structure):
    """falt_cpu_options."""

    _fields_ = [("threads", c_int), ("isa", c_char * 16), ("pool", c_void_p), ("pool_data", c_void_p),
                ("reserved", c_uint64 * 8)]


class CudaOptions(Structure):
    """falt_cuda_options."""

    _fields_ = [("ordinal", c_int), ("context", c_void_p), ("threads", c_int), ("max_memory", c_int64),
                ("described", c_char * 32), ("compile", c_bool), ("reserved", c_uint64 * 8)]


class CandidateStruct(Structure):
    """falt_candidate."""

    _fields_ = [
        ("solver", c_char_p), ("plan", c_char_p), ("rejected", c_char_p), ("chosen", c_bool),
        ("predicted_seconds", c_double), ("seconds_median", c_double), ("seconds_min", c_double),
        ("flops", c_double), ("bytes", c_double), ("gbytes_per_s", c_double), ("gflops", c_double),
        ("limit_share", c_double), ("bound", c_char_p), ("workspace_bytes", c_size_t), ("error", c_double),
        ("out_of_scope", c_bool),
    ]


class VerdictStruct(Structure):
    """falt_verdict."""

    _fields_ = [("solver", c_char_p), ("max_abs_error", c_double), ("max_rel_error", c_double),
                ("tolerance", c_double), ("ok", c_bool), ("seed", c_uint64)]


REPORT_CANDIDATE = CFUNCTYPE(None, c_void_p, POINTER(CandidateStruct))
REPORT_VERDICT = CFUNCTYPE(None, c_void_p, POINTER(VerdictStruct))

_PROTOTYPES = {
    "falt_status_name": (c_char_p, c_int),
    "falt_message": (c_char_p,),
    "falt_version": (c_char_p,),
    "falt_problem_default": (None, POINTER(ProblemStruct)),
    "falt_budget_default": (None, POINTER(BudgetStruct)),
    "falt_problem_parse": (c_int, POINTER(ProblemStruct), POINTER(BudgetStruct), c_char_p),
    "falt_problem_print": (c_size_t, POINTER(ProblemStruct), POINTER(BudgetStruct), c_char_p, c_size_t),
    "falt_problem_check": (c_int, POINTER(ProblemStruct)),
    "falt_problem_hash": (c_uint64, POINTER(ProblemStruct)),
    "falt_cpu_options_default": (None, POINTER(CpuOptions)),
    "falt_device_cpu": (c_int, POINTER(c_void_p), POINTER(CpuOptions)),
    "falt_cuda_count": (c_int, POINTER(c_int)),
    "falt_cuda_options_default": (None, POINTER(CudaOptions)),
    "falt_device_cuda": (c_int, POINTER(c_void_p), POINTER(CudaOptions)),
    "falt_device_destroy": (None, POINTER(c_void_p)),
    "falt_device_name": (c_char_p, c_void_p),
    "falt_device_threads": (c_int, c_void_p),
    "falt_device_synchronize": (c_int, c_void_p),
    "falt_device_interrupt": (None, c_void_p),
    "falt_device_resume": (None, c_void_p),
    "falt_plan_create": (c_int, POINTER(c_void_p), c_void_p, POINTER(ProblemStruct), POINTER(BudgetStruct), c_void_p),
    "falt_plan_destroy": (None, POINTER(c_void_p)),
    "falt_execute": (c_int, c_void_p, c_void_p),
    "falt_execute_host": (c_int, c_void_p, c_void_p),
    "falt_plan_bytes": (c_size_t, c_void_p, c_char_p),
    "falt_plan_workspace": (c_size_t, c_void_p),
    "falt_plan_print": (c_size_t, c_void_p, c_char_p, c_size_t),
    "falt_plan_solver": (c_char_p, c_void_p),
    "falt_explain": (c_int, c_void_p, POINTER(ProblemStruct), POINTER(BudgetStruct), c_void_p, c_double,
                     REPORT_CANDIDATE, c_void_p),
    "falt_verify": (c_int, c_void_p, POINTER(ProblemStruct), POINTER(BudgetStruct), c_uint64, REPORT_VERDICT,
                    c_void_p),
    "falt_tensor_span": (c_int64, POINTER(Tensor)),
    "falt_solver_name": (c_char_p, c_int),
    "falt_solver_about": (c_char_p, c_int),
    "falt_wisdom_load": (c_int, c_void_p, c_char_p),
    "falt_wisdom_save": (c_int, c_void_p, c_char_p),
    "falt_wisdom_forget": (None, c_void_p),
}


def _open() -> ctypes.CDLL:
    """FALTUNG_LIBRARY if it is set, else the library inside the package."""
    path = os.environ.get("FALTUNG_LIBRARY") or os.path.join(os.path.dirname(__file__), "lib", "libfaltung.so")
    library = ctypes.CDLL(path)
    for name, (result, *arguments) in _PROTOTYPES.items():
        function = getattr(library, name)
        function.restype, function.argtypes = result, arguments
    return library


def cuda_directories() -> list[str]:
    """Directories of NVIDIA's wheels and of conda that hold NVRTC."""
    import glob

    prefixes = [p for p in sys.path if p] + [p for p in (os.environ.get("CONDA_PREFIX"), sys.prefix) if p]
    found: list[str] = []
    for prefix in prefixes:
        for pattern in ("nvidia/*/lib/libnvrtc.so*", "lib/libnvrtc.so*"):
            found += [os.path.dirname(path) for path in sorted(glob.glob(os.path.join(prefix, pattern)), reverse=True)]
    return list(dict.fromkeys(found))


def add_cuda_directories() -> None:
    """Appends those directories to FALTUNG_CUDA_PATH, which the library reads when it first needs NVRTC."""
    known = [p for p in os.environ.get("FALTUNG_CUDA_PATH", "").split(":") if p]
    paths = known + [p for p in cuda_directories() if p not in known]
    if paths != known:
        os.environ["FALTUNG_CUDA_PATH"] = ":".join(paths)


lib = _open()


def text_of(function: Any, *arguments: Any) -> str:
    """The text of a function that writes as snprintf does."""
    size = function(*arguments, None, 0)
    buffer = ctypes.create_string_buffer(size + 1)
    function(*arguments, buffer, size + 1)
    return buffer.value.decode()
