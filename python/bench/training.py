#!/usr/bin/env python3
"""Times a training step of five networks by faltung.torch beside torch; prints a JSON line for each and their mean.

    python/bench/training.py [--networks NAME,...] [--device cuda|cpu] [--small] [--compile] [--steps 50] [--rounds 9]
                             [--parallel [--limit SECONDS]] [--verbose] >bench/results/MACHINE-training-gpu.jsonl

AMP (f16 on a GPU, bf16 on a CPU), channels last, SGD, cudnn.benchmark. Both train a network from the same weights on the
same batches: steps are timed in turns, then --steps losses compared (0: none), of which the first --exact-steps with f32's.
--compile times torch.compile of both, too. A record is printed when it is there: torch's step, the ratio, the losses, the
compiled steps. --plan-limit S: layers that are not planned after S seconds stay torch's; so do those that are not measured
after --choose-limit S. --parallel gives each network a process; they use the device one after the other, all ratios before
all losses, and end after --limit seconds with the records that are there. --small takes tiny networks. Needs torch, and
faltung installed or PYTHONPATH=python with FALTUNG_LIBRARY.
"""
import argparse
import concurrent.futures
import copy
import datetime
import json
import math
import os
import statistics
import subprocess
import sys
import time

import torch
import turns as processes
from models import NETWORKS
from torch.nn import functional as F  # noqa: N812

import faltung
from faltung.torch import _measure, nn, optimize

BATCHES = 4
STEPS_OF_A_ROUND = 3
PLANNERS = 2  # networks that plan at a time with --parallel
CONVOLUTIONS = ("aten::convolution", "aten::convolution_backward", "faltung::conv", "faltung::conv_backward",
                "faltung::conv_data", "faltung::conv_weight")


def last(tensor):
    """The tensor with its channels last, where torch has that order."""
    orders = {4: torch.channels_last, 5: torch.channels_last_3d}
    return tensor.contiguous(memory_format=orders[tensor.dim()]) if tensor.dim() in orders else tensor


class Trainer:
    """A network, its optimizer and loss scale."""

    def __init__(self, network, rate, device, amp=True):
        self.network, self.device, self.amp = network, device, amp
        self.half = torch.float16 if device == "cuda" else torch.bfloat16
        self.optimizer = torch.optim.SGD(network.parameters(), rate, momentum=0.9)
        self.scaler = torch.amp.GradScaler(device, init_scale=1024.0, enabled=amp and self.half == torch.float16)
        self.call = network

    def step(self, x, wanted):
        """One step; the loss."""
        with torch.autocast(self.device, self.half, enabled=self.amp):
            loss = F.cross_entropy(self.call(x), wanted)
        self.optimizer.zero_grad(set_to_none=True)
        self.scaler.scale(loss).backward()
        self.scaler.step(self.optimizer)
        self.scaler.update()
        return loss.detach()

    def curve(self, batches, steps):
        """The losses of the first steps."""
        return torch.stack([self.step(*batches[i % len(batches)]) for i in range(steps)]).tolist()


def data(shape, classes, device, per_voxel):
    """Batches of noise with labels: a network learns them by heart."""
    generator = torch.Generator().manual_seed(3)
    batches = []
    for _ in range(BATCHES):
        x = torch.randn(shape, generator=generator)
        wanted = torch.randint(classes, (shape[0], *shape[2:]) if per_voxel else (shape[0],), generator=generator)
        if per_voxel:  # labels that can be seen
            wanted = ((x[:, 0] > 0).long() + (x[:, 0] > 1).long()).clamp(max=classes - 1)
        batches.append((last(x.to(device)), wanted.to(device)))
    return batches


def synchronize(device):
    if device == "cuda":
        torch.cuda.synchronize()


def step_seconds(trainers, batches, device, rounds):
    """Median seconds of a step of each trainer, in turns."""
    for trainer in trainers:
        for batch in batches[:3]:
            trainer.step(*batch)
    times = [[] for _ in trainers]
    for _ in range(rounds):
        for trainer, taken in zip(trainers, times):
            synchronize(device)
            start = time.perf_counter()
            for i in range(STEPS_OF_A_ROUND):
                trainer.step(*batches[i % len(batches)])
            synchronize(device)
            taken.append((time.perf_counter() - start) / STEPS_OF_A_ROUND)
    return [statistics.median(taken) for taken in times]


def convolution_share(trainer, batch, device):
    """The part of a step's time on the device that is inside convolutions and their gradients."""
    activity = torch.profiler.ProfilerActivity
    activities = [activity.CPU] + ([activity.CUDA] if device == "cuda" else [])
    with torch.profiler.profile(activities=activities) as profile:
        trainer.step(*batch)
        synchronize(device)
    total = inside = 0.0
    for event in profile.events():
        if str(event.device_type) != "DeviceType.CPU":
            continue
        total += event.self_device_time_total if device == "cuda" else event.self_cpu_time_total
        parent = event.cpu_parent
        while parent is not None and parent.name not in CONVOLUTIONS:
            parent = parent.cpu_parent
        if event.name in CONVOLUTIONS and parent is None:
            inside += event.device_time_total if device == "cuda" else event.cpu_time_total
    return inside / total if total else 0.0


def difference(a, b):
    """Mean distance of two curves in parts of the first's mean."""
    return statistics.fmean(abs(p - q) for p, q in zip(a, b)) / statistics.fmean(a)


def compare_curves(start, ours, rate, device, batches, options):
    """Losses of faltung beside torch's, and how far torch's are from its own in f32: what the type's rounding does."""
    def curve(network, steps, amp=True):
        return Trainer(copy.deepcopy(network), rate, device, amp).curve(batches, steps)

    steps, few = options.steps, min(options.steps, options.exact_steps)
    theirs, mine, exact = curve(start, steps), curve(ours, steps), curve(start, few, amp=False)
    return {"loss_steps": steps, "loss_first": theirs[0], "loss_last": theirs[-1], "loss_last_faltung": mine[-1],
            "loss_difference": difference(theirs, mine), "loss_difference_few": difference(theirs[:few], mine[:few]),
            "loss_exact_steps": few, "loss_difference_f32": difference(theirs[:few], exact),
            "losses": [round(v, 4) for v in theirs], "losses_faltung": [round(v, 4) for v in mine]}


def say(name, text):
    print(f"{time.strftime('%T')} {name}: {text}", file=sys.stderr, flush=True)


class Comparison:
    """A network beside its optimised copy: each phase makes a record. turn(phase) is a context in which nobody
    else uses the device, turn.planner one in which few others plan."""

    def __init__(self, name, turn, options):
        self.name, self.turn, self.options, self.device = name, turn, options, options.device
        network = NETWORKS[name]
        self.rate = network.rate
        shape = network.small if options.small else network.shape
        torch.manual_seed(1)
        self.start = (network.make_small if options.small else network.make)().to(self.device)
        for parameter in self.start.parameters():
            parameter.data = last(parameter.data)
        self.batches = data(shape, network.classes, self.device, name.startswith("unet"))
        self.theirs = self.trainer(self.start)
        with torch.autocast(self.device, self.theirs.half), torch.backends.cudnn.flags(enabled=True, benchmark=False):
            self.sites = _measure.sites_of(self.start, (self.batches[0][0],), tuple(nn.CLASSES), True)
        self.about = {"training": name, "size": "x".join(map(str, shape)), "type": str(self.theirs.half).removeprefix("torch.")}

    def trainer(self, network):
        return Trainer(copy.deepcopy(network), self.rate, self.device)

    def record(self, values):
        self.turn.record(self.about | values)

    def torch_alone(self):
        """torch's step while layers are planned."""
        with self.turn(1):
            seconds = step_seconds([self.theirs], self.batches, self.device, 1)
        self.record({"torch_alone_seconds": seconds[0], "layers": len(self.sites)})

    def plan(self):
        say(self.name, f"planning {len(self.sites)} layers")
        start = time.perf_counter()
        with self.turn.planner:
            planned, kinds = _measure.plan(self.sites, True, self.options.plan_limit, self.options.threads)
        say(self.name, f"planned {len(planned)} of {kinds} kinds in {time.perf_counter() - start:.1f} s")

    def ratio(self):
        """The choice of layers, and both steps in turns."""
        with self.turn(2):
            with torch.autocast(self.device, self.theirs.half):
                start = time.perf_counter()
                self.chosen = optimize(self.start, self.batches[0][0], verbose=self.options.verbose,
                                       seconds=self.options.choose_limit)
            choosing = time.perf_counter() - start
            say(self.name, f"layers are chosen in {choosing:.1f} s")
            trainers = [self.theirs, self.trainer(self.chosen)]
            seconds = step_seconds(trainers, self.batches, self.device, self.options.rounds)
            self.record({"seconds_median": seconds[1], "torch_seconds_median": seconds[0], "ratio": seconds[0] / seconds[1],
                         "by_faltung": self.wins(), "optimize_seconds": choosing,
                         "layers_ratio": self.layers_ratio(), "optimize_steps": self.chosen.step_seconds})
            shares = [convolution_share(trainer, self.batches[0], self.device) for trainer in trainers]
        self.record({"convolution_share_torch": shares[0], "convolution_share": shares[1]})

    def wins(self):
        """[by faltung, all] of each direction."""
        rows = self.chosen.measurements
        return {way: [sum(len(r.names) for r in rows if r.direction == way and r.wins),
                      sum(len(r.names) for r in rows if r.direction == way)] for way in sorted({r.direction for r in rows})}

    def layers_ratio(self):
        """torch's time in the measured layers through the copy's."""
        rows = [row for row in self.chosen.measurements if math.isfinite(row.torch)]
        mine = math.fsum((r.faltung if r.wins else r.torch) * len(r.names) for r in rows)
        return math.fsum(r.torch * len(r.names) for r in rows) / mine if rows else 1.0

    def losses(self):
        with self.turn(3):
            report = compare_curves(self.start, self.chosen, self.rate, self.device, self.batches, self.options)
        self.record(report)

    def compiled(self):
        """Steps of both by torch.compile; torch's first, so that a record is there if ours is late."""
        pair = [self.trainer(network) for network in (self.start, self.chosen)]
        for key, trainer in zip(("torch_compiled", "compiled"), pair):
            with self.turn(4, alone=False):
                begin = time.perf_counter()
                trainer.call = torch.compile(trainer.network)
                trainer.step(*self.batches[0])
                synchronize(self.device)
                took = time.perf_counter() - begin
            say(self.name, f"{key} after {took:.1f} s")
            self.record({f"{key}_first_step_seconds": took})
        with self.turn(5):
            seconds = step_seconds(pair, self.batches, self.device, self.options.rounds)
        self.record({"compiled_seconds_median": seconds[1], "torch_compiled_seconds_median": seconds[0],
                     "compiled_ratio": seconds[0] / seconds[1]})


def work(name, turn, options):
    """All phases of a network."""
    torch.backends.cudnn.benchmark = True
    with turn(0):
        comparison = Comparison(name, turn, options)
    with concurrent.futures.ThreadPoolExecutor(1) as pool:
        planning = pool.submit(comparison.plan)
        comparison.torch_alone()
        planning.result()
    comparison.ratio()
    if options.steps:
        comparison.losses()
    if options.compile:
        comparison.compiled()


def records(names, options):
    """Records of all networks as they come, in processes or one after the other."""
    if options.parallel:
        yield from processes.run(work, names, (options,), options.limit, options.turn_limit, PLANNERS, say)
        return
    for name in names:
        found = []
        work(name, processes.Alone(found.append), options)
        yield from found


def mean(ratios):
    return math.exp(statistics.fmean(map(math.log, ratios)))


def main(words):
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--networks", "--models", default=",".join(NETWORKS))
    parser.add_argument("--device", choices=("cuda", "cpu"), default="cuda" if torch.cuda.is_available() else "cpu")
    parser.add_argument("--steps", type=int, default=50)
    parser.add_argument("--rounds", type=int, default=9)
    parser.add_argument("--exact-steps", type=int, default=50)
    parser.add_argument("--threads", type=int, default=0, help="that plan a network; 0: half of the cores with --parallel")
    for name, seconds in (("limit", 900), ("turn-limit", 300), ("plan-limit", 600), ("choose-limit", 600)):
        parser.add_argument(f"--{name}", type=float, default=seconds)
    for flag in ("small", "compile", "parallel", "verbose"):
        parser.add_argument(f"--{flag}", action="store_true")
    options = parser.parse_args(words)
    names = options.networks.split(",")
    if unknown := [name for name in names if name not in NETWORKS]:
        parser.error(f"--networks: {', '.join(unknown)}: no such network; take {', '.join(NETWORKS)}")
    tree = os.path.dirname(os.path.abspath(__file__))
    cores = len(os.sched_getaffinity(0))
    options.threads = options.threads or (max(1, (cores - 2) // PLANNERS) if options.parallel else cores)
    commit = subprocess.run(["git", "-C", tree, "rev-parse", "--short=12", "HEAD"], capture_output=True, text=True).stdout.strip()
    gpu = options.device == "cuda"
    common = {"device": torch.cuda.get_device_name() if gpu else faltung.cpu().name, "torch": torch.__version__,
              "cudnn": torch.backends.cudnn.version() if gpu else None, "load": os.getloadavg()[0],
              "commit": os.environ.get("COMMIT", commit)[:12],
              "date": datetime.datetime.now(datetime.timezone.utc).strftime("%FT%TZ")}
    ratios = {"ratio": [], "compiled_ratio": []}
    failed = False
    for record in records(names, options):
        failed |= "error" in record
        for key, values in ratios.items():
            values.extend([record[key]] if key in record else [])
        print(json.dumps(record | common), flush=True)
    for key, values in ratios.items():
        if values:
            print(f"{key}: geometric mean {mean(values):.3f}, least {min(values):.3f}", file=sys.stderr)
    sys.exit(failed)


if __name__ == "__main__":
    main(sys.argv[1:])
