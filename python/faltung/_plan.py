"""Plans: kept by the caller, or by the cache that array functions use."""
from __future__ import annotations

import ctypes
import sys
import threading
import time
from collections import OrderedDict
from collections.abc import Callable
from typing import Any

import numpy as np

from . import _arrays
from ._arrays import View
from ._device import Device, cpu, cuda
from ._errors import check, error_of
from ._library import SIZES, TYPES, Operands, lib, text_of
from ._problem import ROLES, Problem
from ._settings import DEFAULT, Settings, current

LONG_WORK = 1 << 29  # multiply-adds after which an execution may take tens of milliseconds
CANCELLED = 150
_main = threading.main_thread()


class _Lease:
    """Operands and workspace of one execution at a time."""

    __slots__ = ("operands", "address", "workspace", "owner")

    def __init__(self, bytes_: int):
        self.operands = Operands()
        self.address = ctypes.addressof(self.operands)
        self.workspace: int | None = None
        self.owner: Any = None
        if bytes_:
            self.workspace, self.owner = _arrays.aligned(bytes_)


def interruptible(device: Device, call: Callable[[list[Any]], int]) -> None:
    """call(stop) in a thread of its own while the main thread waits: Ctrl-C fills stop, cancels the call and raises
    KeyboardInterrupt. In other threads, which Python never interrupts, it is called at once."""
    stop: list[bool] = []
    if threading.current_thread() is not _main:
        check(call(stop))
        return
    failure: list[Exception | None] = []

    def work() -> None:
        status = call(stop)
        failure.append(error_of(status) if status else None)

    thread = threading.Thread(target=work, daemon=True)
    thread.start()
    try:
        thread.join()
    except BaseException:
        stop.append(True)
        while thread.is_alive():
            lib.falt_device_interrupt(device.handle)
            thread.join(0.05)
        lib.falt_device_resume(device.handle)
        raise
    if failure[0] is not None:
        raise failure[0]


class Plan:
    """How to compute a problem on a device: made once, called often, from any thread.

    plan(x), plan(x, w), plan(x, w, bias=b, residual=r, out=y). What is read comes in the order of the operation:
    forward (input, filter), backward-data (dy, filter), backward-filter (input, dy), pools (input). A filter that
    was given to `faltung.plan` is in the plan, and no call takes one. Shapes are in the order of memory:
    (n, c, h, w) for layers, (n, h, w, c) with layout=nhwc; filters leave out n and c where they are 1.

    device, problem, solver (a name), workspace (bytes). `str` gives the plan as an s-expression.
    """

    def __init__(self, device: Device, problem: Problem, values: Any = None):
        handle = ctypes.c_void_p()
        self._handle = 0
        self.device = device
        self.problem = problem

        def create(_stop: list[Any] | None = None) -> int:
            return int(lib.falt_plan_create(handle, device.handle, problem.struct, problem.budget, values))

        if problem.budget.tune_seconds > 0:
            interruptible(device, create)
        else:
            check(create())
        self._handle = handle.value or 0
        self.workspace: int = lib.falt_plan_workspace(handle)
        self.long = problem.work > LONG_WORK and device.kind == "cpu"
        self._leases: list[_Lease] = []
        self._specs: dict[str, tuple[Any, ...]] = {}
        self._one: tuple[Any, ...] | None = None
        reads, self._writes, described = ROLES[problem.struct.operation]
        self._reads = [name for name in reads if lib.falt_plan_bytes(handle, name.encode())]
        self._output = self._spec(described)

    def __del__(self, _ends: Any = sys.is_finalizing) -> None:
        if self._handle and not _ends():
            lib.falt_plan_destroy(ctypes.c_void_p(self._handle))
            self._handle = 0

    def __str__(self) -> str:
        return text_of(lib.falt_plan_print, self._handle)

    def __repr__(self) -> str:
        return f"<faltung.Plan {self.problem} on {self.device.name}: {self}>"

    @property
    def solver(self) -> str:
        """The solver's name."""
        name: bytes = lib.falt_plan_solver(self._handle)
        return name.decode()

    def run(self, input: int | None, filter: int | None, output: int | None, bias: int | None = None,
            scale: int | None = None, residual: int | None = None, stream: int = 0,
            workspace: int | None = None) -> None:
        """Executes on addresses; host memory for a CPU, device memory for a GPU, where the caller gives a workspace."""
        try:
            lease = self._leases.pop()
        except IndexError:
            lease = _Lease(self.workspace if self.device.kind == "cpu" else 0)
        operands = lease.operands
        operands.input = input
        operands.filter = filter
        operands.output = output
        operands.bias = bias
        operands.scale = scale
        operands.residual = residual
        operands.workspace = workspace or lease.workspace
        operands.stream = stream
        if self.long:
            interruptible(self.device, lambda stop: self._execute(lease.address, stop))
        else:
            status = lib.falt_execute(self._handle, lease.address)
            if status:
                check(self._execute(lease.address, []) if status == CANCELLED else status)
        self._leases.append(lease)

    def _execute(self, address: int, stop: list[Any]) -> int:
        """Executes; once more after the Ctrl-C that ended another call on the device, unless that was in place."""
        operands = Operands.from_address(address)
        in_place = operands.residual is not None and operands.residual == operands.output
        status: int = lib.falt_execute(self._handle, address)
        while status == CANCELLED and not stop and not in_place:
            time.sleep(0.01)
            status = lib.falt_execute(self._handle, address)
        return status

    def _spec(self, name: str) -> tuple[Any, ...]:
        """(code, shape, strides, numpy dtype) of a tensor's array."""
        spec = self._specs.get(name)
        if spec is None:
            if name in ("bias", "scale"):
                out = self.problem.struct.output
                code = 8 if out.type == 8 else 7
                dims = [(out.size[1] * out.size[2], 1)]
            else:
                code = getattr(self.problem.struct, name).type
                dims = self.problem.dims(name)
            shape, strides = tuple(n for n, _ in dims), tuple(s for _, s in dims)
            dtype = _arrays.DTYPES[code]
            bytes_ = tuple(s * SIZES[code] for s in strides)
            spec = self._specs[name] = (code, shape, strides, dtype, bytes_)
        return spec

    def _pointer(self, name: str, tensor: str, array: Any, writes: bool = False) -> tuple[int, Any]:
        """(address, owner) of an operand's array, copied first if it is read and lies otherwise."""
        code, shape, strides, dtype, bytes_ = self._spec(tensor)
        if type(array) is np.ndarray and array.dtype is dtype and array.shape == shape and array.strides == bytes_:
            if writes and not array.flags.writeable:
                raise ValueError(f"{name}: is read-only")
            return _arrays.address_of(array), array
        library, array = _arrays.take(array)
        view = library.view(array)
        if _squeezed(view.shape) != _squeezed(shape):
            raise ValueError(f"{name}: has shape {view.shape}; the plan needs {shape}")
        if (view.device is None) != (self.device.kind == "cpu"):
            raise ValueError(f"{name}: is not in the memory of {self.device.name}")
        if view.code == code and _walks(view.shape, view.strides, shape, strides):
            return view.pointer, array
        if writes or view.device is not None or (view.code is not None and view.code != code):
            raise ValueError(f"{name}: type {view.code if view.code is None else TYPES[view.code]}, strides {view.strides}; the "
                             f"plan needs {TYPES[code]} with strides {strides}")
        copy = np.ascontiguousarray(library.host(array), dtype).reshape(shape)
        if not _walks(copy.shape, library.view(copy).strides, shape, strides):
            raise ValueError(f"{name}: the plan needs strides {strides} (elements); give an array that has them")
        return _arrays.Numpy.view(copy).pointer, copy

    def __call__(self, *arrays: Any, out: Any = None, bias: Any = None, scale: Any = None, residual: Any = None) -> Any:
        """Computes; returns `out`, or a new array of the first argument's library. GPU work is then on its stream.

        Raises ValueError for a wrong shape, type or place, and what the C library reports.
        """
        if len(arrays) == 1 and bias is None and scale is None and residual is None:
            result = self._quick(arrays[0], out)
            if result is not None:
                return result
        if len(arrays) != len(self._reads):
            raise TypeError(f"the plan reads {len(self._reads)} arrays ({', '.join(self._reads)}), not {len(arrays)}")
        named: dict[str, int | None] = {}
        owners = []
        for name, array in zip(self._reads, arrays):
            named[name], owner = self._pointer(name, name, array)
            owners.append(owner)
        for name, array in (("bias", bias), ("scale", scale), ("residual", residual)):
            if array is not None:
                named[name], owner = self._pointer(name, name, array)
                owners.append(owner)
        library = _arrays.library_of(owners[0])
        code, shape = self._output[0], self._output[1]
        result = library.empty(shape, code, owners[0]) if out is None else out
        tensor = {"residual": "input"}.get(self._writes, self._writes)
        named[self._writes], owner = self._pointer("out", tensor, result, writes=True)
        owners.append(owner)
        stream, workspace, held = self._place(library, owners[0])
        self.run(named.get("input"), named.get("filter"), named.get("output"), named.get("bias"), named.get("scale"),
                 named.get("residual"), stream, workspace)
        del held
        return library.finish(result, owners[0]) if out is None else out

    def _quick(self, array: Any, out: Any) -> Any:
        """The result for numpy arrays that lie as planned, one read and one written; else None."""
        if self._one is None:
            self._one = self._only()
        if not self._one or type(array) is not np.ndarray:
            return None
        code, shape, bytes_, code_out, shape_out, bytes_out = self._one
        if array.dtype is not code or array.shape != shape or array.strides != bytes_:
            return None
        if out is None:
            out = np.empty(shape_out, code_out)
        elif type(out) is not np.ndarray or out.dtype is not code_out or out.shape != shape_out:
            return None
        if out.strides != bytes_out or not out.flags.writeable:
            return None
        self.run(_arrays.address_of(array), None, _arrays.address_of(out))
        return out

    def _only(self) -> tuple[Any, ...]:
        """Types, shapes and byte strides of input and output, if the plan reads and writes nothing else."""
        if self.device.kind != "cpu" or self._reads != ["input"] or self._writes != "output":
            return ()
        (_, shape, _, dtype, bytes_), (_, result, _, result_dtype, result_bytes) = self._spec("input"), self._output
        if dtype is None or result_dtype is None or 1 in shape or 1 in result:
            return ()
        return dtype, shape, bytes_, result_dtype, result, result_bytes

    def _place(self, library: Any, like: Any) -> tuple[int, int | None, Any]:
        """(stream, workspace, its owner): on a GPU the workspace is the array library's, ordered by the stream.

        The caller keeps the owner until the work is started: another thread's arrays may get its memory then."""
        if self.device.kind == "cpu":
            return 0, None, None
        if not self.workspace:
            return library.stream(self.device.ordinal), None, None
        address, owner = library.scratch(self.workspace + 64, like)
        return library.stream(self.device.ordinal), address + (-address) % 64, owner


def _squeezed(shape: tuple[int, ...]) -> tuple[int, ...]:
    return tuple(n for n in shape if n != 1)


def _walks(shape: tuple[int, ...], strides: tuple[int, ...], wanted: tuple[int, ...], steps: tuple[int, ...]) -> bool:
    """Whether both walk memory alike; dimensions of one element do not count."""
    return ([s for n, s in zip(shape, strides) if n != 1] == [s for n, s in zip(wanted, steps) if n != 1])


# ------------------------------------------------------------------------------------------------ the cache


class Cache:
    """Plans by key, the least recently used dropped first."""

    def __init__(self, most: int = 1024):
        self._plans: OrderedDict[Any, Plan] = OrderedDict()
        self._lock = threading.Lock()
        self.most = most

    def get(self, key: Any, make: Callable[[], Any]) -> Any:
        """The value of a key, made and kept if it is not there and is not None."""
        with self._lock:
            value = self._plans.get(key)
            if value is not None:
                self._plans.move_to_end(key)
                return value
        value = make()
        if value is not None:
            self.put(key, value)
        return value

    def put(self, key: Any, value: Any) -> None:
        """Keeps a value."""
        with self._lock:
            self._plans[key] = value
            dropped = [self._plans.popitem(last=False)[1] for _ in range(len(self._plans) - self.most)]
        del dropped  # destroyed outside the lock

    def clear(self) -> None:
        """Drops all plans."""
        with self._lock:
            plans, self._plans = self._plans, OrderedDict()
        plans.clear()

    def __len__(self) -> int:
        return len(self._plans)


cache = Cache()


def device_of(settings: Settings, view: View | None) -> Device:
    """Where an array's problem runs."""
    if view is None or view.device is None:
        return cpu(settings.threads, settings.isa)
    return cuda(view.device)


def plan(line: str | Problem, filter: Any = None, *, device: Device | None = None) -> Plan:
    """A plan that the caller keeps, for a problem line.

    filter: the values, if they are known now: packed once, and used for what they are (low rank, integer). They are
    converted to the problem's weight type. device: the CPU with the threads of `faltung.threads` unless said.

    >>> import faltung, numpy
    >>> blur = faltung.plan("correlate h=3 w=4 r=1 s=3 boundary=edge", numpy.full((1, 3), 1 / 3, "f4"))
    >>> blur(numpy.float32([[0, 3, 0, 3]] * 3))[0]
    array([1., 1., 2., 2.], dtype=float32)

    Raises what `Problem` does; InvalidMethod, NoSolver, OverBudget, NoDevice.
    """
    settings = current.get()
    problem = line if isinstance(line, Problem) else Problem(line)
    if settings is not DEFAULT:
        problem = Problem(problem.struct, settings.under(problem.budget))
    device = device or cpu(settings.threads, settings.isa)
    if filter is None:
        return Plan(device, problem)
    dtype = _arrays.DTYPES[problem.struct.filter.type]
    shape = problem.shape("filter")
    library, array = _arrays.take(filter)
    values = np.ascontiguousarray(library.host(array), dtype)
    if _squeezed(values.shape) != _squeezed(shape):
        raise ValueError(f"filter: has shape {values.shape}; the problem needs {shape}")
    return Plan(device, problem, values.ctypes.data)
