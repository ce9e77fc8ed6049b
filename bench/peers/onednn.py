"""oneDNN through its C API as the peer of layers on the CPU: forward, gradients and pooling.

If the problem's filter is known, weights are in oneDNN's preferred format, reordered before the timed part as in a plan.
If it is given, they stay in the problem's layout, and oneDNN's reorder is part of the time, as in torch. Data is in the
problem's layout and, as a separate implementation, in oneDNN's preferred formats, reordered outside the timed part: the
speed of a network that keeps them from layer to layer.

https://uxlfoundation.github.io/oneDNN/"""
import contextlib
import ctypes
import glob
import os
import re
import sys

import numpy as np

from layers import is_layer, merged_shape

CPU, IN_ORDER, ANY_FORMAT, ALLOCATE, MAX_AXES = 1, 1, 1, ctypes.c_void_p(-1), 12
FORWARD_TRAINING, FORWARD_INFERENCE, AUTO = 64, 96, 3
SRC, DST, WEIGHTS, BIAS, DIFF_SRC, DIFF_DST, DIFF_WEIGHTS, POST_OP_SRC = 1, 17, 33, 41, 129, 145, 161, 32770
QUERY_MD = 255  # of an argument of the execution
MAX, AVERAGE_PADDED, AVERAGE, ADD = 0x1ff, 0x2ff, 0x3ff, 0x1fff0
TYPES = {"float16": 1, "bf16": 2, "float32": 3, "int32": 4, "int8": 5, "uint8": 6, "float64": 7}
ACTIVATIONS = {"relu": (0x20, 0, 0), "tanh": (0x21, 0, 0), "sigmoid": (0x29, 0, 0), "silu": (0x2c, 1, 0),
               "relu6": (0x2f, 0, 6), "gelu": (0x31, 0, 0)}
STATUS = ("success", "out of memory", "invalid arguments", "unimplemented", "last implementation reached",
          "runtime error", "not required")


class Version(ctypes.Structure):
    _fields_ = [("major", ctypes.c_int), ("minor", ctypes.c_int), ("patch", ctypes.c_int), ("hash", ctypes.c_char_p),
                ("cpu_runtime", ctypes.c_uint), ("gpu_runtime", ctypes.c_uint)]


class Argument(ctypes.Structure):
    _fields_ = [("number", ctypes.c_int), ("memory", ctypes.c_void_p)]


def load_with_neighbours(path, mode=ctypes.DEFAULT_MODE):
    """Loads a library whose own libraries may lie beside it, where the loader does not look."""
    while True:
        try:
            return ctypes.CDLL(path, mode)
        except OSError as error:
            missing = re.match(r"(\S+): cannot open shared object", str(error))
            beside = missing and os.path.join(os.path.dirname(path), missing.group(1))
            if not beside or beside == path or not os.path.exists(beside):
                raise
            load_with_neighbours(beside, ctypes.RTLD_GLOBAL)


@contextlib.contextmanager
def seen_processors(count):
    """A runtime without a setting for it makes as many threads as it sees processors when it starts."""
    allowed = os.sched_getaffinity(0)
    os.sched_setaffinity(0, sorted(allowed)[:count])
    try:
        yield
    finally:
        for task in os.listdir("/proc/self/task"):  # where its threads run is again for the system to decide
            try:
                os.sched_setaffinity(int(task), allowed)
            except ProcessLookupError:
                pass


class Library:
    """libdnnl, an engine on the CPU and a stream."""

    def __init__(self, threads):
        found = sorted(glob.glob(os.path.join(sys.prefix, "lib", "libdnnl.so*")), key=len)
        path = os.environ.get("FALTUNG_ONEDNN") or (found[0] if found else "libdnnl.so.3")
        neighbour = os.path.join(os.path.dirname(path), "libintelocl.so")
        if os.path.exists(neighbour):  # builds on SYCL find the CPU through it
            os.environ.setdefault("OCL_ICD_FILENAMES", neighbour)
        with seen_processors(threads):
            self.dll = load_with_neighbours(path)
            self.engine = self.make("dnnl_engine_create", CPU, ctypes.c_size_t(0))
            self.stream = self.make("dnnl_stream_create", self.engine, IN_ORDER)
        self.dll.dnnl_version.restype = ctypes.POINTER(Version)
        self.dll.dnnl_primitive_desc_query_md.restype = ctypes.c_void_p
        version = self.dll.dnnl_version().contents
        self.__version__ = f"{version.major}.{version.minor}.{version.patch}"

    def call(self, name, *arguments):
        status = getattr(self.dll, name)(*arguments)
        if status:
            raise RuntimeError(f"{name}: {STATUS[status] if status < len(STATUS) else status}")

    def make(self, name, *arguments):
        made = ctypes.c_void_p()
        self.call(name, ctypes.byref(made), *arguments)
        return made

    def bind(self, primitive, memories):
        """A function that runs a primitive on memories by argument's number."""
        arguments = (Argument * len(memories))(*[(number, memory.value) for number, memory in memories.items()])
        count, execute, wait = len(memories), self.dll.dnnl_primitive_execute, self.dll.dnnl_stream_wait

        def run():
            if execute(primitive, self.stream, count, arguments) or wait(self.stream):
                raise RuntimeError("dnnl_primitive_execute failed")

        return run


def axes(values):
    return (ctypes.c_int64 * MAX_AXES)(*values)


def dense_strides(shape, order):
    """Strides of a dense array, from the outermost axis of the order in. Computed, as NumPy's mean nothing where an axis
    has one element, and there oneDNN tells layouts apart by them."""
    strides, step = [0] * len(shape), 1
    for axis in reversed(order):
        strides[axis], step = step, step * shape[axis]
    return strides


def data_order(p):
    """The axes of the problem's data, (n, channels, space), from the outermost in."""
    channels_last = p.words.get("layout", "").endswith("c")
    return [0, *range(2, p.space + 2), 1] if channels_last else list(range(p.space + 2))


class Work:
    """What one problem holds of the library; all is given back when Python forgets it."""

    def __init__(self, library):
        self.library, self.held = library, []

    def __del__(self):
        for kind, handle in reversed(self.held):
            getattr(self.library.dll, f"dnnl_{kind}_destroy")(handle)

    def make(self, kind, name, *arguments):
        handle = self.library.make(name, *arguments)
        self.held.append((kind, handle))
        return handle

    def layout(self, array, kind, order=None):
        """A descriptor of an array's shape and type: dense in an order of the axes, that of the shape without one."""
        return self.make("memory_desc", "dnnl_memory_desc_create_with_strides", array.ndim, axes(array.shape),
                         TYPES[kind], axes(dense_strides(array.shape, order or range(array.ndim))))

    def any_layout(self, array, kind):
        return self.make("memory_desc", "dnnl_memory_desc_create_with_tag", array.ndim, axes(array.shape), TYPES[kind],
                         ANY_FORMAT)

    def memory(self, layout):
        return self.make("memory", "dnnl_memory_create", layout, self.library.engine, ALLOCATE)

    def reordering(self, source, source_layout, target, target_layout):
        """A function that brings one memory's values into another."""
        engine = self.library.engine
        pd = self.make("primitive_desc", "dnnl_reorder_primitive_desc_create", source_layout, engine, target_layout,
                       engine, None)
        return self.library.bind(self.make("primitive", "dnnl_primitive_create", pd), {SRC: source, DST: target})

    def reorder(self, source, source_layout, target, target_layout):
        self.reordering(source, source_layout, target, target_layout)()

    def mapped(self, memory, nbytes):
        """The bytes of a memory, until unmapped."""
        address = ctypes.c_void_p()
        self.library.call("dnnl_memory_map_data", memory, ctypes.byref(address))
        return np.ctypeslib.as_array(ctypes.cast(address, ctypes.POINTER(ctypes.c_uint8)), (nbytes,)), address

    def given(self, array, kind, wanted):
        """A memory with an array's values in the wanted layout."""
        dense = np.ascontiguousarray(array)
        layout = self.layout(dense, kind)
        memory = self.memory(layout)
        there, address = self.mapped(memory, dense.nbytes)
        there[:] = dense.reshape(-1).view(np.uint8)
        self.library.call("dnnl_memory_unmap_data", memory, address)
        target = self.memory(wanted)
        self.reorder(memory, layout, target, wanted)
        return target

    def taken(self, memory, layout, like, kind):
        """The values of a memory as an array of a shape and type."""
        dense = np.empty(like.shape, like.dtype)
        plain = self.layout(dense, kind)
        target = self.memory(plain)
        self.reorder(memory, layout, target, plain)
        there, address = self.mapped(target, dense.nbytes)
        dense.reshape(-1).view(np.uint8)[:] = there
        self.library.call("dnnl_memory_unmap_data", target, address)
        return dense


class Operand:
    """An array of the problem and the numbers of its arguments forward and as a gradient."""

    def __init__(self, array, kind, forward, gradient, free=False):
        self.array, self.kind, self.forward, self.gradient = array, kind, forward, gradient
        self.free = free  # in any format


def operands(p, blocked):
    """Data and weights, as oneDNN has shapes: (n, channels, space) and (groups, k, c, taps)."""
    found = {}
    for name, forward, gradient in (("input", SRC, DIFF_SRC), ("output", DST, DIFF_DST)):
        found[name] = Operand(merged_shape(p.operands[name], p.space), p.type_of(name), forward, gradient, blocked)
    if p.operands["filter"] is not None:
        taps = p.operands["filter"]
        k, g, c = taps.shape[:3]
        by_group = np.moveaxis(taps, 1, 0).reshape(g, k, c, *taps.shape[6 - p.space:])
        found["filter"] = Operand(by_group if g > 1 else by_group[0], p.type_of("filter"), WEIGHTS, DIFF_WEIGHTS, True)
    return found


def geometry(p, window=None):
    """Strides, window, dilations as oneDNN counts them, and the padding on either side."""
    stride = p.axes("stride", "x".join(map(str, window)) if window else 1)
    dilation = [step - 1 for step in p.axes("dilation", 1)]
    pad = [tuple(map(int, one.split(":"))) for one in p.words.get("pad", "0").split("x")] * p.space
    before, after = ([one[side] for one in pad[:p.space]] for side in (0, -1))
    return (axes(stride), *([axes(window)] if window else []), axes(dilation), axes(before), axes(after))


def weight_order(p, ndim):
    """The axes of the problem's weights, (groups, k, c, taps) or without groups, from the outermost in."""
    named = p.words.get("weight-layout", "ohwi" if p.words.get("layout", "").endswith("c") else "oihw")
    first = list(range(ndim - p.space - 1))  # groups and k, which together are o
    c, taps = ndim - p.space - 1, list(range(ndim - p.space, ndim))
    if named.endswith("o"):
        return [*taps, c, *first]
    return [*first, *taps, c] if named.endswith("i") else [*first, c, *taps]


def reorder_weights(work, p, one, wanted, memory):
    """A function that brings given weights into the wanted layout, in the memory that the primitive reads; None where
    they are in it."""
    plain = work.layout(one.array, one.kind, weight_order(p, one.array.ndim))
    if work.library.dll.dnnl_memory_desc_equal(plain, wanted):
        return None
    return work.reordering(work.given(one.array, one.kind, plain), plain, memory, wanted)


def in_turn(first, second):
    def both():
        first()
        second()

    return both


def attributes(work, p):
    """The activation and the residual's layout as post-operations, None without."""
    residual, activation = p.operands["residual"], p.words.get("act")
    if residual is None and not activation:
        return None, None
    ops, layout = work.make("post_ops", "dnnl_post_ops_create"), None
    if residual is not None:
        layout = work.layout(merged_shape(residual, p.space), p.type_of("residual"), data_order(p))
        work.library.call("dnnl_post_ops_append_binary", ops, ADD, layout)
    if activation:
        kind, alpha, beta = ACTIVATIONS[activation]
        work.library.call("dnnl_post_ops_append_eltwise", ops, kind, ctypes.c_float(alpha), ctypes.c_float(beta))
    made = work.make("primitive_attr", "dnnl_primitive_attr_create")
    work.library.call("dnnl_primitive_attr_set_post_ops", made, ops)
    return made, layout


def describe_convolution(work, p, layouts, bias, attr):
    """The primitive's descriptor; gradients ask for that of the forward primitive as a hint."""
    engine, (x, y, w) = work.library.engine, (layouts[name] for name in ("input", "output", "filter"))
    make = lambda which, *arguments: work.make(
        "primitive_desc", f"dnnl_convolution_{which}_primitive_desc_create", engine, *arguments)
    where = geometry(p)
    if p.verb == "forward":
        return make("forward", FORWARD_INFERENCE, AUTO, x, w, bias, y, *where, attr)
    hint = make("forward", FORWARD_TRAINING, AUTO, x, w, None, y, *where, None)
    if p.verb == "backward-data":
        return make("backward_data", AUTO, x, w, y, *where, hint, None)
    return make("backward_weights", AUTO, x, w, None, y, *where, hint, None)


def describe_pooling(work, p, layouts):
    average = AVERAGE_PADDED if p.has("count-pad") else AVERAGE
    return work.make("primitive_desc", "dnnl_pooling_forward_primitive_desc_create", work.library.engine,
                     FORWARD_INFERENCE, MAX if p.verb == "maxpool" else average, layouts["input"], layouts["output"],
                     *geometry(p, p.taps()), None)


RESULTS = {"forward": "output", "backward-data": "input", "backward-filter": "filter", "maxpool": "output",
           "avgpool": "output"}


def argument_of(p, name, operand):
    """A gradient's number for the result of a gradient and for the output's gradient that it reads."""
    is_gradient = p.verb.startswith("backward") and name in (RESULTS[p.verb], "output")
    return operand.gradient if is_gradient else operand.forward


def prepare(library, p, blocked):
    """A function that runs the problem once and one that gives its result as an array in logical order."""
    work, data = Work(library), operands(p, blocked)
    attr, residual = attributes(work, p)
    bias = None if p.bias is None else work.layout(p.bias, p.bias.dtype.name)
    layouts = {name: work.any_layout(one.array, one.kind) if one.free else
               work.layout(one.array, one.kind, data_order(p)) for name, one in data.items()}
    pd = (describe_convolution(work, p, layouts, bias, attr) if "filter" in data else describe_pooling(work, p, layouts))
    memories, chosen, result = {}, {}, RESULTS[p.verb]
    for name, one in data.items():
        number = argument_of(p, name, one)
        chosen[name] = ctypes.c_void_p(library.dll.dnnl_primitive_desc_query_md(pd, QUERY_MD, number))
        memories[number] = (work.memory(chosen[name]) if name == result else
                            work.given(one.array, one.kind, chosen[name]))
    if bias:
        memories[BIAS] = work.given(p.bias, p.bias.dtype.name, bias)
    if residual:
        memories[POST_OP_SRC] = work.given(merged_shape(p.operands["residual"], p.space), p.type_of("residual"),
                                               residual)
    run = library.bind(work.make("primitive", "dnnl_primitive_create", pd), memories)
    one = data[result]
    if "filter" in data and result != "filter" and not p.filter_known:
        weights = data["filter"]
        reorder = reorder_weights(work, p, weights, chosen["filter"], memories[argument_of(p, "filter", weights)])
        run = run if not reorder else in_turn(reorder, run)

    def finish(_):
        values = work.taken(memories[argument_of(p, result, one)], chosen[result], one.array, one.kind)
        if result != "filter":
            return values
        k, g = p.operands["filter"].shape[:2]
        return np.moveaxis(values.reshape(g, k, *values.shape[values.ndim - p.space - 1:]), 0, 1)

    return run, finish


def can_do(p):
    supported = p.type_of("input") in TYPES and p.words.get("act", "relu") in ACTIVATIONS
    if p.verb not in RESULTS or not supported or p.has("alpha", "beta", "scale", "out", "rank", "pool"):
        return False
    return p.verb == "forward" or (p.bias is None and not p.has("act", "residual"))


def onednn_layer(modules, p, Peer):
    library = modules["onednn"]
    if not library or not is_layer(p) or not can_do(p):
        return
    layouts = (("in this layout", False), ("in its own layout", True))
    for name, blocked in layouts if p.operands["filter"] is not None else layouts[:1]:  # pooling likes none better
        run, finish = prepare(library, p, blocked)
        yield Peer("onednn", f"onednn {name}", library.__version__, run, finish)


PEERS = (onednn_layer,)
