"""torch as the peer of layers on the CPU: forward, gradients and pooling, in the memory order of the problem's arrays.

torch's functions take their weights with each call, which corresponds to filter=given for every problem."""
import numpy as np


def merged_shape(array, space):
    """(n, g, c, d, h, w) with the axes that libraries have: (n, g*c, space); a view, so that channels that are last
    stay last."""
    n, g, c, *sizes = array.shape
    return array.reshape(n, g * c, *sizes[3 - space:])


def tensor_of(torch, array, kind):
    return torch.from_numpy(array) if kind != "bf16" else torch.from_numpy(array.view(np.int16)).view(torch.bfloat16)


def data(torch, p, name):
    return tensor_of(torch, merged_shape(p.operands[name], p.space), p.type_of(name))


def weights(torch, p):
    """(k, g, c, t, r, s) as torch has filters: (g*k, c, taps)."""
    k, g, c, *taps = p.operands["filter"].shape
    filters = np.moveaxis(p.operands["filter"], 1, 0).reshape(g * k, c, *taps[3 - p.space:])
    return tensor_of(torch, filters, p.type_of("filter"))


def array_of(torch, tensor):
    """A result as an array; bf16 as two bytes, as NumPy reads it."""
    tensor = tensor.cpu()
    return tensor.view(torch.int16).numpy().view("V2") if tensor.dtype == torch.bfloat16 else tensor.numpy()


def activation(torch, name):
    functions = {None: lambda y: y, "relu": torch.relu_, "relu6": torch.nn.functional.relu6, "sigmoid": torch.sigmoid_,
                 "silu": torch.nn.functional.silu, "gelu": torch.nn.functional.gelu, "tanh": torch.tanh_}
    return functions.get(name)


def convolution(torch, p, place):
    """The function to time and what brings its result into logical order, or None. place puts an operand where torch
    is to compute."""
    stride, padding, dilation = p.axes("stride", 1), p.axes("pad", 0), p.axes("dilation", 1)
    groups, act = p.number("groups"), activation(torch, p.words.get("act"))
    if not padding or not act or p.has("alpha", "beta", "scale", "out", "rank"):
        return None
    x, y, w = place(data(torch, p, "input")), place(data(torch, p, "output")), place(weights(torch, p))
    bias = None if p.bias is None else place(torch.from_numpy(p.bias).to(x.dtype))
    residual = None if p.operands["residual"] is None else place(data(torch, p, "residual"))
    function = getattr(torch.nn.functional, f"conv{p.space}d")
    if p.has("pool"):
        window, activate = p.axes("pool", 1), act
        act = lambda y: getattr(torch.nn.functional, f"max_pool{p.space}d")(activate(y), window)

    def forward():
        result = function(x, w, bias, stride, padding, dilation, groups)
        return act(result if residual is None else result.add_(residual))

    def backward(wanted):
        mask = [wanted == 0, wanted == 1, False]
        return torch.ops.aten.convolution_backward(y, x, w, None, stride, padding, dilation, False, [0] * p.space,
                                                   groups, mask)[wanted]

    def filter_order(dw):
        k, g = p.operands["filter"].shape[:2]
        return dw.reshape(g, k, *dw.shape[1:]).movedim(0, 1)

    if p.verb != "forward" and (p.bias is not None or p.has("act", "residual")):
        return None
    return {"forward": (f"conv{p.space}d", forward, None),
            "backward-data": (f"conv{p.space}d input gradient", lambda: backward(0), None),
            "backward-filter": (f"conv{p.space}d weight gradient", lambda: backward(1), filter_order)}[p.verb]


def pooling(torch, p, place):
    window = list(p.taps())
    stride, padding, dilation = p.axes("stride", "x".join(map(str, window))), p.axes("pad", 0), p.axes("dilation", 1)
    if not padding or p.has("out"):
        return None
    x, functional = place(data(torch, p, "input")), torch.nn.functional
    if p.verb == "maxpool":
        function = getattr(functional, f"max_pool{p.space}d")
        return f"max_pool{p.space}d", lambda: function(x, window, stride, padding, dilation), None
    if max(dilation) > 1:
        return None
    function = getattr(functional, f"avg_pool{p.space}d")
    return f"avg_pool{p.space}d", lambda: function(x, window, stride, padding, False, p.has("count-pad")), None


MAKERS = {"forward": convolution, "backward-data": convolution, "backward-filter": convolution, "maxpool": pooling,
          "avgpool": pooling}
FLOATS = {"float16", "bf16", "float32", "float64"}


def is_layer(p):
    """A layer as all libraries have it: zero beyond the edges, memory without gaps."""
    return (p.verb in MAKERS and not p.has("boundary", "value")
            and not any(word.endswith(("-strides", "-offset")) for word in p.words))


def torch_made(torch, p, place=lambda tensor: tensor):
    """What torch calls it, the function to time and what brings its result into logical order, or None."""
    make = MAKERS.get(p.verb)
    types = {p.type_of(name) for name in ("input", "filter", "output", "residual") if p.operands[name] is not None}
    if not torch or not is_layer(p) or len(types) > 1 or not types <= FLOATS:
        return None
    made = make(torch, p, place)
    if not made:
        return None
    name, function, order = made

    def run():
        with torch.inference_mode():
            return function()

    return name, run, order or (lambda y: y)


LONG, LONG_WORDS = 121, set("n c k w s groups pad type layout filter boundary".split())


def is_long(p):
    """A causal or circular layer of single channels and many taps, as sequence models have it."""
    c, taps = p.number("c"), p.number("s")
    return (p.verb in ("forward", "backward-data", "backward-filter") and p.space == 1 and set(p.words) <= LONG_WORDS
            and p.number("groups") == c == p.number("k") and LONG <= taps <= p.number("w")
            and p.words.get("pad") == f"{taps - 1}:0" and p.words.get("boundary", "wrap") == "wrap")


def by_transforms(torch, p, place):
    """As torch_made, by transforms in f32 of twice the signal's length, or of the circle's. The filter is flipped
    before the time, since such models keep it so."""
    length, taps = p.number("w"), p.number("s")
    points = length if p.has("boundary") else 2 * length
    x, y, w = place(data(torch, p, "input")), place(data(torch, p, "output")), place(weights(torch, p))
    h = w[:, 0].flip(-1).contiguous()

    def spectrum(signal):
        return torch.fft.rfft(signal.float(), n=points)

    def back(product, count):
        return torch.fft.irfft(product, n=points)[..., :count].to(x.dtype)

    function = {"forward": lambda: back(spectrum(x) * spectrum(h), length),
                "backward-data": lambda: back(spectrum(y) * spectrum(h).conj(), length),
                "backward-filter": lambda: back((spectrum(y) * spectrum(x).conj()).sum(0), taps)}[p.verb]

    def run():
        with torch.inference_mode():
            return function()

    return "fft", run, (lambda dw: dw.flip(-1)) if p.verb == "backward-filter" else (lambda y: y)


def torch_fft(modules, p, Peer):
    torch = modules["torch"]
    if torch and is_long(p):
        name, run, order = by_transforms(torch, p, lambda tensor: tensor)
        yield Peer("torch", f"torch {name}", torch.__version__, run, lambda y: array_of(torch, order(y)))


def torch_layer(modules, p, Peer):
    torch = modules["torch"]
    made = torch_made(torch, p)
    if made:
        name, run, order = made
        yield Peer("torch", f"torch {name}", torch.__version__, run, lambda y: array_of(torch, order(y)))


PEERS = (torch_layer, torch_fft)
