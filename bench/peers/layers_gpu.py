"""torch as the peer of layers on a GPU: cuDNN where it applies, torch's own kernels otherwise. Both memory orders are
timed for every problem, since a user would choose the faster one. The weights are given with each call, as with
filter=given."""
from layers import by_transforms, is_long, tensor_of, torch_made
from libraries_gpu import cudnn_version


def orders(torch, space):
    """The memory orders that torch knows, by their names there."""
    known = {2: torch.channels_last, 3: torch.channels_last_3d}
    return {"contiguous": torch.contiguous_format} | ({"channels_last": known[space]} if space in known else {})


def comparison(torch, p, order, device):
    """Compares on the GPU: bringing hundreds of megabytes back would take longer than all else."""
    def differ(y, expected):
        there = tensor_of(torch, expected, "bf16" if expected.dtype.kind == "V" else expected.dtype.name).to(device)
        got = order(y).reshape(there.shape)
        return float((got.double() - there.double()).abs().max()), float(there.abs().max())

    return differ


def torch_layer(modules, p, Peer):
    torch = modules["cudnn"]
    if not torch:
        return
    torch.backends.cudnn.allow_tf32 = p.has("tf32")
    device = f"cuda:{modules['driver'].ordinal}"
    for order, form in orders(torch, p.space).items():
        def place(tensor):
            there = tensor.to(device)
            return there.contiguous(memory_format=form) if there.ndim == p.space + 2 else there

        made = torch_made(torch, p, place)
        if made:
            name, run, logical = made
            yield Peer("cudnn", f"cudnn {name} {order}", cudnn_version(torch), run,
                       differ=comparison(torch, p, logical, device))


def torch_fft(modules, p, Peer):
    """Long layers by cuFFT."""
    torch = modules["cudnn"]
    if torch and is_long(p):
        device = f"cuda:{modules['driver'].ordinal}"
        name, run, order = by_transforms(torch, p, lambda tensor: tensor.to(device))
        yield Peer("torch", f"torch {name}", torch.__version__, run, differ=comparison(torch, p, order, device))


PEERS = (torch_layer, torch_fft)
