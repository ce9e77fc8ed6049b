"""torch as the peer of layers: forward, gradients and pooling, in the memory order of the problem's own arrays."""
import numpy as np


def merged(torch, array):
    """(n, g, c, d, h, w) as torch has data: (n, g*c, space); a view, so that channels that are last stay last."""
    n, g, c, *space = array.shape
    return torch.from_numpy(array.reshape(n, g * c, *space))


def weights(torch, array):
    """(k, g, c, t, r, s) as torch has filters: (g*k, c, taps)."""
    k, g, c, *taps = array.shape
    return torch.from_numpy(np.moveaxis(array, 1, 0).reshape(g * k, c, *taps))


def without_absent_axes(tensor, space):
    return tensor.reshape(*tensor.shape[:2], *tensor.shape[5 - space:])


def activation(torch, name):
    functions = {None: lambda y: y, "relu": torch.relu_, "relu6": torch.nn.functional.relu6, "sigmoid": torch.sigmoid_,
                 "silu": torch.nn.functional.silu, "gelu": torch.nn.functional.gelu, "tanh": torch.tanh_}
    return functions.get(name)


def convolution(torch, p):
    """The function to time and what brings its result into logical order, or None."""
    stride, padding, dilation = p.axes("stride", 1), p.axes("pad", 0), p.axes("dilation", 1)
    groups, act = p.number("groups"), activation(torch, p.words.get("act"))
    if not padding or not act or p.has("alpha", "beta", "scale", "out", "rank"):
        return None
    x, y = (without_absent_axes(merged(torch, p.operands[name]), p.space) for name in ("input", "output"))
    w = without_absent_axes(weights(torch, p.operands["filter"]), p.space)
    bias = None if p.bias is None else torch.from_numpy(p.bias)
    residual = p.operands["residual"]
    if residual is not None:
        residual = without_absent_axes(merged(torch, residual), p.space)
    function = getattr(torch.nn.functional, f"conv{p.space}d")

    def forward():
        result = function(x, w, bias, stride, padding, dilation, groups)
        return act(result if residual is None else result.add_(residual))

    def backward(wanted):
        mask = [wanted == 0, wanted == 1, False]
        return torch.ops.aten.convolution_backward(y, x, w, None, stride, padding, dilation, False, [0] * p.space,
                                                   groups, mask)[wanted]

    def filter_order(dw):
        k, g = p.operands["filter"].shape[:2]
        return np.moveaxis(np.asarray(dw).reshape(g, k, *dw.shape[1:]), 0, 1)

    if p.verb != "forward" and (p.bias is not None or p.has("act", "residual")):
        return None
    return {"forward": (f"conv{p.space}d", forward, None),
            "backward-data": (f"conv{p.space}d input gradient", lambda: backward(0), None),
            "backward-filter": (f"conv{p.space}d weight gradient", lambda: backward(1), filter_order)}[p.verb]


def pooling(torch, p):
    window = list(p.taps())
    stride, padding, dilation = p.axes("stride", "x".join(map(str, window))), p.axes("pad", 0), p.axes("dilation", 1)
    if not padding or p.has("out"):
        return None
    x, functional = without_absent_axes(merged(torch, p.operands["input"]), p.space), torch.nn.functional
    if p.verb == "maxpool":
        function = getattr(functional, f"max_pool{p.space}d")
        return f"max_pool{p.space}d", lambda: function(x, window, stride, padding, dilation), None
    if max(dilation) > 1:
        return None
    function = getattr(functional, f"avg_pool{p.space}d")
    return f"avg_pool{p.space}d", lambda: function(x, window, stride, padding, False, p.has("count-pad")), None


MAKERS = {"forward": convolution, "backward-data": convolution, "backward-filter": convolution, "maxpool": pooling,
          "avgpool": pooling}


def torch_layer(modules, p, Peer):
    torch, make = modules["torch"], MAKERS.get(p.verb)
    if not torch or not make or p.has("boundary", "value") or p.result.dtype.kind != "f":
        return
    if any(word.endswith(("-strides", "-offset", "-type")) for word in p.words):
        return
    made = make(torch, p)
    if made:
        name, function, finish = made

        def run():
            with torch.inference_mode():
                return function()

        yield Peer("torch", f"torch {name}", torch.__version__, run, finish)


PEERS = (torch_layer,)
