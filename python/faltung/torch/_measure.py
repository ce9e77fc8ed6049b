"""Measures a model's layers beside torch's, each convolution in each direction, on random data of the model's sizes."""
from __future__ import annotations

import contextvars
import copy
import math
import os
import statistics
import time
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor, wait
from typing import Any, NamedTuple

import torch
from torch.utils._pytree import tree_leaves

from . import _ops
from ._direct import Call
from ._problems import BACKWARD_DATA, BACKWARD_FILTER, FORWARD, Layer

CONVS = (torch.nn.Conv1d, torch.nn.Conv2d, torch.nn.Conv3d)
ROUNDS = 3
LONG = 1e-3  # seconds of a round
GAIN = 0.98  # torch keeps what is not at least this much faster
STEPS = 5  # of the whole model
QUEUED = 300_000  # GPU clocks to wait for before a round, a call, so that the calls follow each other without gaps


class Measurement(NamedTuple):
    """Seconds of one direction of equal layers. direction: "forward", "data", "weight", or "whole" for layers that are
    measured with their gradients at once. faltung, torch: of a call, the host's where they are longer than the kernels'.
    torch: infinity where its results are wrong, which exact sums decide. kernels: (faltung, torch) of the GPU alone. gain:
    torch keeps what is not faster than its time times this. alone: the kernels' times decide."""

    names: list[str]
    layer: str
    direction: str
    faltung: float
    torch: float
    kernels: tuple[float, float] | None = None
    gain: float = GAIN
    alone: bool = False

    @property
    def wins(self) -> bool:
        """Whether faltung computes it."""
        mine, theirs = self.kernels if self.alone and self.kernels else (self.faltung, self.torch)
        return math.isinf(self.torch) or mine < self.gain * theirs


class Site(NamedTuple):
    """A module and what its input is."""

    module: Any  # a torch.nn.Module with what its kind has
    shape: tuple[int, ...]
    strides: tuple[int, ...]
    dtype: torch.dtype
    device: torch.device
    learns: bool  # whether the input has a gradient

    def key(self) -> tuple[Any, ...]:
        """Equal for layers that compute alike."""
        own = {name: str(value) for name, value in vars(self.module).items() if not name.startswith("_") and name != "training"}
        shapes = [(tuple(p.shape), p.stride()) for p in self.module.parameters()]
        return (type(self.module), *sorted(own.items()), *shapes, *self[1:])

    def work(self) -> int:
        """Multiplications of a convolution."""
        m = self.module
        pixels = math.prod((n + 2 * p - d * (k - 1) - 1) // s + 1 for n, p, d, k, s in
                           zip(self.shape[2:], m.padding, m.dilation, m.kernel_size, m.stride))
        return int(self.shape[0] * pixels * m.weight.numel())

    def data(self, values: bool = True) -> torch.Tensor:
        """A tensor like the input; values: random ones."""
        size = 1 + sum((n - 1) * s for n, s in zip(self.shape, self.strides))
        flat = torch.empty(size, dtype=self.dtype, device=self.device)
        return (flat.normal_() if values else flat).as_strided(self.shape, self.strides)


def sites_of(model: torch.nn.Module, arguments: tuple[Any, ...], kinds: tuple[type, ...],
             learns: bool) -> dict[str, Site]:
    """The modules of some kinds that a call of the model reaches, by their names. The model stays as it is."""
    found: dict[str, Site] = {}
    own = copy.deepcopy(model)
    originals = dict(model.named_modules())
    device_type = next((a.device.type for a in arguments if isinstance(a, torch.Tensor)), "cpu")
    half = torch.get_autocast_dtype(device_type) if torch.is_autocast_enabled(device_type) else None

    def watch(name: str) -> Callable[..., Any]:
        def hook(module: Any, given: tuple[Any, ...]) -> None:
            x = given[0]
            dtype = half if half is not None and isinstance(module, CONVS) and x.dtype == torch.float32 else x.dtype
            found[name] = Site(originals[name], tuple(x.shape), x.stride(), dtype, x.device, learns and x.requires_grad)

        return hook

    for name, module in own.named_modules():
        if type(module) in kinds:
            module.register_forward_pre_hook(watch(name))
    with torch.random.fork_rng(enabled=learns), torch.set_grad_enabled(learns):
        own(*arguments)
    return found


def seconds(device: torch.device, calls: list[Callable[[], Any]]) -> list[tuple[float, float]]:
    """Medians of the calls, taken in turns: (the kernels', the host's); on a CPU twice the same."""
    run = _gpu_round if device.type == "cuda" else _cpu_round
    for call in calls:
        call()
    counts = [max(1, min(20, round(LONG / max(*run(call, 1), 1e-7)))) for call in calls]
    rounds = [[run(call, count) for call, count in zip(calls, counts)] for _ in range(ROUNDS)]
    return [(statistics.median(a for a, _ in times), statistics.median(b for _, b in times)) for times in zip(*rounds)]


def _gpu_round(call: Callable[[], Any], count: int) -> tuple[float, float]:
    """The kernels' time without the gaps that launches leave, and the host's."""
    cuda: Any = torch.cuda  # whose functions have no types
    start, end = (cuda.Event(enable_timing=True) for _ in range(2))
    cuda._sleep(QUEUED * (count + 1))
    start.record()
    begin = time.perf_counter()
    for _ in range(count):
        call()
    host = time.perf_counter() - begin
    end.record()
    end.synchronize()
    return float(start.elapsed_time(end)) * 1e-3 / count, host / count


def _cpu_round(call: Callable[[], Any], count: int) -> tuple[float, float]:
    start = time.perf_counter()
    for _ in range(count):
        call()
    took = (time.perf_counter() - start) / count
    return took, took


class Conv:
    """A convolution's three directions, by faltung and by torch. The weights' gradient has the module's type."""

    def __init__(self, site: Site, activation: str | None, unfused: Callable[..., Any] | None, values: bool = True):
        m = site.module
        self.unfused, self.learns, self.weight_type = unfused, site.learns, m.weight.dtype
        layer = Layer(m.stride, [p for p in m.padding for _ in range(2)], m.dilation, m.groups)
        self.x = site.data(values)
        self.w = m.weight.detach().to(site.dtype)
        self.bias = None if m.bias is None else m.bias.detach()
        self.ours = Call(self.x, self.w, layer, site.dtype, activation or "identity")
        self.theirs = Call(self.x, self.w, layer, site.dtype, ways=sum(_ops.BY_TORCH.values()))
        self.y = self.ours.y.empty(site.dtype, site.device)
        if values:
            self.y.normal_(std=1e-2)

    def plan(self, training: bool) -> None:
        """Plans the directions; may run in any thread."""
        self.ours.plan(FORWARD, self.x, self.w, self.y, self.bias is not None)
        if training:
            if self.learns:
                self.ours.plan(BACKWARD_DATA, self.ours.x.empty(self.x.dtype, self.x.device), self.w, self.y)
            dw = self.ours.w.empty(self.weight_type, self.x.device)
            self.ours.plan(BACKWARD_FILTER, self.x, dw, self.y, self.bias is not None and _ops.sums_bias(self.x))

    def directions(self, training: bool) -> dict[str, tuple[Callable[[], Any], Callable[[], Any]]]:
        """(by faltung, by torch) of each direction that is needed."""
        found = {"forward": (self._forward, self._torch_forward)}
        if training and self.learns:
            found["data"] = (lambda: self._gradient(0, self.ours), lambda: self._gradient(0, self.theirs))
        if training:
            found["weight"] = (lambda: self._gradient(1, self.ours), lambda: self._gradient(1, self.theirs))
        return found

    def _forward(self) -> torch.Tensor:
        return self.ours.forward(self.x, self.w, self.bias)

    def _torch_forward(self) -> torch.Tensor:
        y = self.theirs.forward(self.x, self.w, self.bias)
        return y if self.unfused is None else self.unfused(y)

    def exact(self, direction: str) -> torch.Tensor:
        """What the direction is, by torch in f64."""
        wide = copy.copy(self)
        wide.x, wide.w, wide.y = (t.double() for t in (self.x, self.w, self.y))
        wide.bias = None if self.bias is None else self.bias.double()
        wide.weight_type = torch.float64
        with torch.backends.cudnn.flags(enabled=torch.backends.cudnn.enabled, benchmark=False):
            sums: torch.Tensor = wide.directions(True)[direction][1]()
            return sums.to(self.weight_type if direction == "weight" else self.x.dtype)

    def _gradient(self, which: int, call: Call) -> torch.Tensor:
        bias_type = None if self.bias is None else self.bias.dtype
        needs = (which == 0, which == 1, which == 1)
        gradient: torch.Tensor = call.gradients(self.y, self.x, self.w, needs, self.weight_type, bias_type)[which]
        return gradient


def is_plain(module: torch.nn.Module) -> bool:
    """A convolution of which torch computes each direction alone."""
    return isinstance(module, CONVS) and module.padding_mode == "zeros" and not isinstance(module.padding, str)


def plan(sites: dict[str, Site], training: bool, limit: float | None = None,
         threads: int = 0) -> tuple[set[tuple[Any, ...]], int]:
    """Plans the convolutions, in threads, those of most work first: the cache has the plans then. limit: seconds, after
    which no other is begun or waited for. Returns the keys of those that are planned, and how many there are."""
    counts: dict[tuple[Any, ...], int] = {}
    different: dict[tuple[Any, ...], Site] = {}
    for site in sites.values():
        if is_plain(site.module):
            key = site.key()
            different[key], counts[key] = site, counts.get(key, 0) + 1
    order = sorted(different, key=lambda key: -counts[key] * different[key].work())
    context = contextvars.copy_context()
    pool = ThreadPoolExecutor(threads or os.cpu_count())
    jobs = {key: pool.submit(context.copy().run, lambda s=different[key]: Conv(s, _activation(s), None, False).plan(training))
            for key in order}
    wait(jobs.values(), limit)
    pool.shutdown(wait=False, cancel_futures=True)
    done = {key for key, job in jobs.items() if job.done() and not job.cancelled()}
    for key in done:
        jobs[key].result()
    return done, len(jobs)


def measured(sites: dict[str, Site], training: bool, activations: dict[Any, Any], ours: Callable[..., Any],
             limit: float | None = None) -> list[Measurement]:
    """Plans all layers, then measures them, those of most work first. activations: torch's functions by name. ours: makes
    a layer faltung's. limit: seconds, after which layers are left out."""
    end = math.inf if limit is None else time.perf_counter() + limit
    groups: dict[tuple[Any, ...], list[str]] = {}
    for name, site in sites.items():
        groups.setdefault(site.key(), []).append(name)
    planned_ones, _ = plan(sites, training, None if limit is None else limit / 2)
    convs = {key: is_plain(sites[names[0]].module) for key, names in groups.items()}
    order = sorted(groups, key=lambda key: -sites[groups[key][0]].work() * len(groups[key]) if convs[key] else 0)
    found = []
    for key in order:
        if time.perf_counter() < end and (key in planned_ones or not convs[key]):
            found += _of_kind(groups[key], sites[groups[key][0]], training, activations, ours)
    return found


def _of_kind(names: list[str], site: Site, training: bool, activations: dict[Any, Any],
             ours: Callable[..., Any]) -> list[Measurement]:
    """Measures equal layers."""
    found = []
    unfused = activations.get(_activation(site))
    off = torch.autocast(site.device.type, enabled=False)
    with off, torch.random.fork_rng(), torch.set_grad_enabled(not is_plain(site.module) and training):
        if is_plain(site.module):
            layer = Conv(site, _activation(site), unfused)
            calls = layer.directions(training)
            exact: Callable[[str], torch.Tensor] | None = layer.exact
        else:
            peer = torch.nn.Sequential(copy.deepcopy(site.module), _Call(unfused or (lambda y: y)))
            exact, calls = None, {"whole": _whole(site, ours(site.module), peer, training)}
        for direction, (mine, theirs) in calls.items():
            right = agrees(mine(), theirs())
            if not right and (exact is None or not agrees(mine(), exact(direction))):
                raise ValueError(f"{names[0]}, {direction}: faltung's results are not torch's; please report it")
            (kernels, host), (their_kernels, their_host) = seconds(site.device, [mine, theirs])
            found.append(Measurement(names, _text(site), direction, max(kernels, host),
                                     max(their_kernels, their_host) if right else math.inf,
                                     (kernels, their_kernels) if site.device.type == "cuda" else None))
    return found


def step_seconds(models: list[torch.nn.Module], arguments: tuple[Any, ...], training: bool) -> list[float]:
    """Medians of a call of each model, with its gradients where it is in training, taken in turns: the host's time is in
    them. The models stay as they are."""
    calls = [_step(copy.deepcopy(model), arguments, training) for model in models]
    cuda = any(isinstance(a, torch.Tensor) and a.is_cuda for a in arguments)
    times: list[list[float]] = [[] for _ in calls]
    with torch.random.fork_rng():
        for i in range(STEPS + 1):
            for call, taken in zip(calls, times):
                begin = time.perf_counter()
                call()
                if cuda:
                    torch.cuda.synchronize()
                if i:
                    taken.append(time.perf_counter() - begin)
    return [statistics.median(taken) for taken in times]


def _step(model: torch.nn.Module, arguments: tuple[Any, ...], training: bool) -> Callable[[], None]:
    leaves = [p for p in model.parameters() if p.requires_grad]

    def call() -> None:
        with torch.set_grad_enabled(training):
            results = [t for t in tree_leaves(model(*arguments)) if isinstance(t, torch.Tensor) and t.requires_grad]
        if training and leaves and results:
            torch.autograd.grad(results, leaves, [torch.ones_like(t) for t in results], allow_unused=True)
        torch.clear_autocast_cache()

    return call


def _activation(site: Site) -> str | None:
    return getattr(site.module, "activation", None)


class _Call(torch.nn.Module):
    """A function as a layer."""

    def __init__(self, function: Callable[..., Any]):
        super().__init__()
        self.forward = function


def _whole(site: Site, ours: torch.nn.Module, theirs: torch.nn.Module,
           training: bool) -> tuple[Callable[[], Any], Callable[[], Any]]:
    """Calls of both modules, with the gradients, on the same data."""
    x = site.data()
    if training and site.learns:
        x.requires_grad_()
    g = torch.randn_like(ours.to(site.dtype)(x)) * 1e-2

    def of(module: torch.nn.Module) -> Callable[[], Any]:
        leaves = [t for t in (x, *module.to(site.dtype).parameters()) if t.requires_grad]

        def call() -> Any:
            y = module(x)
            return (y.detach(), *torch.autograd.grad(y, leaves, g)) if training and leaves else y

        return call

    return of(ours), of(theirs)


def _text(site: Site) -> str:
    m = site.module
    size = "x".join(map(str, site.shape))
    if not hasattr(m, "weight"):
        return f"{type(m).__name__} {size}"
    text = f"{type(m).__name__} {size} -> {m.out_channels}, {'x'.join(map(str, m.kernel_size))}"
    strides = "".join(f" {name}={'x'.join(map(str, getattr(m, name)))}" for name in ("stride", "dilation")
                      if set(getattr(m, name)) != {1})
    return text + strides + (f" groups={m.groups}" if m.groups > 1 else "")


def agrees(got: Any, want: Any) -> bool:
    """Whether results differ by rounding at most."""
    if isinstance(want, torch.Tensor):
        size = {torch.float64: 1e-9, torch.float32: 1e-3}.get(want.dtype, 5e-2)
        largest = float(want.detach().abs().max().clamp(min=1e-6)) if want.numel() else 0.0
        return bool(torch.allclose(got, want, rtol=size, atol=size * largest)) and math.isfinite(largest)
    return not isinstance(want, (tuple, list)) or all(agrees(a, b) for a, b in zip(got, want))


def table(rows: list[Measurement]) -> str:
    """A line for each direction of each kind of layer, and what the winners save."""
    lines = [("layer", "times", "direction", "faltung us", "torch us", "by")]
    for row in rows:
        theirs = f"{1e6 * row.torch:.1f}" if math.isfinite(row.torch) else "wrong"
        lines.append((row.layer, str(len(row.names)), row.direction, f"{1e6 * row.faltung:.1f}", theirs,
                      "faltung" if row.wins else "torch"))
    widths = [max(len(line[i]) for line in lines) for i in range(len(lines[0]))]
    text = "\n".join("  ".join(cell.rjust(w) if i in (1, 3, 4) else cell.ljust(w)
                               for i, (cell, w) in enumerate(zip(line, widths))).rstrip() for line in lines)
    before = math.fsum((row.torch if math.isfinite(row.torch) else row.faltung) * len(row.names) for row in rows)
    after = math.fsum((row.faltung if row.wins else row.torch) * len(row.names) for row in rows)
    return text + f"\nall layers: torch {1e3 * before:.3f} ms, this model {1e3 * after:.3f} ms"


__all__ = ["CONVS", "Measurement", "agrees", "measured", "plan", "sites_of", "step_seconds", "table"]
