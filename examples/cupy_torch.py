"""Filters a torch, CuPy or NumPy array where it lies, on the framework's current stream, through the C library alone.

    python3 cupy_torch.py [libfaltung.so]

A problem is a line of text, an array is a pointer, a stream is a pointer: Python needs to know one struct, falt_operands,
which is eight pointers. torch and CuPy are used if they see a GPU; otherwise the same runs on the CPU.
"""
import ctypes
import os
import sys

OPERANDS = ("input", "filter", "output", "bias", "scale", "residual", "workspace", "stream")
CUDA, CPU = "cuda", "cpu"


class Operands(ctypes.Structure):
    _fields_ = [(name, ctypes.c_void_p) for name in OPERANDS]


def load(path):
    library = ctypes.CDLL(path)
    library.falt_message.restype = library.falt_device_name.restype = library.falt_plan_solver.restype = ctypes.c_char_p
    library.falt_plan_bytes.restype = library.falt_plan_workspace.restype = ctypes.c_size_t
    return library


class Filter:
    """A plan for one problem line. __call__ takes addresses and returns when the work is on the stream."""

    def __init__(self, library, kind, line, taps):
        self.library, self.device, self.plan = library, ctypes.c_void_p(), ctypes.c_void_p()
        make = library.falt_device_cuda if kind == CUDA else library.falt_device_cpu
        self._check(make(ctypes.byref(self.device), None))
        values = (ctypes.c_float * len(taps))(*taps)  # the plan keeps what it needs of them
        self._check(library.falt_plan_create_line(ctypes.byref(self.plan), self.device, line.encode(), values))

    def _check(self, status):
        if status:
            raise RuntimeError(self.library.falt_message().decode())

    def size(self, operand):
        return self.library.falt_plan_bytes(self.plan, operand.encode())

    @property
    def workspace(self):
        return self.library.falt_plan_workspace(self.plan)

    def __str__(self):
        name, solver = self.library.falt_device_name(self.device), self.library.falt_plan_solver(self.plan)
        return f"{name.decode()}, {solver.decode()}"

    def __call__(self, **addresses):
        self._check(self.library.falt_execute(self.plan, ctypes.byref(Operands(**addresses))))

    def close(self):
        self.library.falt_plan_destroy(ctypes.byref(self.plan))
        self.library.falt_device_destroy(ctypes.byref(self.device))


def with_torch(library, line, taps, shape, size):
    import torch

    if not torch.cuda.is_available():
        raise ImportError("torch sees no GPU")
    x = torch.rand(shape, device="cuda")
    y = torch.empty_like(x)
    run = Filter(library, CUDA, line, taps)
    assert run.size("input") == x.numel() * x.element_size() and run.size("output") == y.numel() * y.element_size()
    scratch = torch.empty(run.workspace + 64, dtype=torch.uint8, device="cuda")
    with torch.cuda.stream(torch.cuda.Stream()):
        torch.cuda.current_stream().wait_stream(torch.cuda.default_stream())
        run(input=x.data_ptr(), output=y.data_ptr(), workspace=-(-scratch.data_ptr() // 64) * 64,
            stream=torch.cuda.current_stream().cuda_stream)
        torch.cuda.current_stream().synchronize()
    padded = torch.nn.functional.pad(x[None, None], [size // 2] * 4, mode="replicate").double()
    expected = torch.nn.functional.conv2d(padded, torch.tensor(taps).view(1, 1, size, size).cuda().double())[0, 0]
    report("torch", run, float((y - expected).abs().max()))


def with_cupy(library, line, taps, shape, size):
    import cupy
    from cupyx.scipy import ndimage

    if not cupy.cuda.is_available():
        raise ImportError("CuPy sees no GPU")
    x = cupy.random.random(shape, dtype=cupy.float32)
    y = cupy.empty_like(x)
    run = Filter(library, CUDA, line, taps)
    assert run.size("input") == x.nbytes and run.size("output") == y.nbytes
    scratch = cupy.empty(run.workspace + 64, dtype=cupy.uint8)
    run(input=x.data.ptr, output=y.data.ptr, workspace=-(-scratch.data.ptr // 64) * 64,
        stream=cupy.cuda.get_current_stream().ptr)
    expected = ndimage.correlate(x.astype(cupy.float64), cupy.array(taps).reshape(size, size), mode="nearest")
    report("CuPy", run, float(abs(y - expected).max()))  # the same stream: it waits for the filter


def with_numpy(library, line, taps, shape, size):
    import numpy

    x = numpy.random.default_rng(1).random(shape, dtype=numpy.float32)
    y = numpy.empty_like(x)
    run = Filter(library, CPU, line, taps)
    assert run.size("input") == x.nbytes and run.size("output") == y.nbytes
    scratch = numpy.empty(run.workspace + 64, dtype=numpy.uint8)
    run(input=x.ctypes.data, output=y.ctypes.data, workspace=-(-scratch.ctypes.data // 64) * 64)
    padded = numpy.pad(x.astype(float), size // 2, mode="edge")
    windows = numpy.lib.stride_tricks.sliding_window_view(padded, (size, size))
    report("NumPy", run, float(abs(y - numpy.einsum("hwrs,rs->hw", windows, numpy.reshape(taps, (size, size)))).max()))


def report(framework, run, difference):
    print(f"{framework} on {run}: largest difference {difference:.1e}")
    run.close()
    if difference > 1e-5:
        sys.exit("the results differ")


def main():
    here = os.path.dirname(os.path.abspath(__file__))
    library = load(sys.argv[1] if len(sys.argv) > 1 else os.path.join(here, "..", "build", "libfaltung.so"))
    size, shape = 5, (1080, 1920)
    taps = [(1 + i) / 325 for i in range(size * size)]
    line = f"correlate h={shape[0]} w={shape[1]} r={size} s={size} boundary=edge"
    done = 0
    for use in with_torch, with_cupy, with_numpy:
        try:
            use(library, line, taps, shape, size)
            done += 1
        except ImportError as missing:
            print(f"{use.__name__}: {missing}")
    return 0 if done else "none of torch, CuPy and NumPy is there; install one"


if __name__ == "__main__":
    sys.exit(main())
