#!/usr/bin/env python3
"""Times a training step of five networks by faltung.torch beside torch; prints a JSON line for each and their mean.

    python/bench/training.py [--models NAME,...] [--device cuda|cpu] [--small] [--compile] [--steps 50] [--rounds 9]
                             [--parallel [--limit SECONDS]] [--verbose] >bench/results/MACHINE-training-gpu.jsonl

AMP (f16 on a GPU, bf16 on a CPU), channels last, SGD, cudnn.benchmark. Both train a network from the same weights on the
same batches: steps are timed in turns, then --steps losses compared (0: none). --compile times torch.compile of both, too.
--parallel plans the networks in processes of their own, which use the device one after the other, and ends after --limit
seconds with the records that are there. --small takes tiny networks. Needs torch, and faltung installed or
PYTHONPATH=python with FALTUNG_LIBRARY.
"""
import argparse
import contextlib
import copy
import datetime
import json
import math
import os
import queue
import statistics
import subprocess
import sys
import time

import torch
from models import NETWORKS
from torch.nn import functional as F  # noqa: N812

import faltung
from faltung.torch import _measure, nn, optimize

BATCHES = 4
STEPS_OF_A_ROUND = 3
CONVOLUTIONS = ("aten::convolution", "aten::convolution_backward", "faltung::conv", "faltung::conv_data", "faltung::conv_weight")


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


def compare_curves(start, ours, rate, device, batches, steps):
    """Losses of faltung beside torch's, and how far torch's are from its own in f32: what the type's rounding does."""
    def curve(network, amp=True):
        return Trainer(copy.deepcopy(network), rate, device, amp).curve(batches, steps)

    theirs, mine, exact = curve(start), curve(ours), curve(start, amp=False)
    return {"loss_steps": steps, "loss_first": theirs[0], "loss_last": theirs[-1], "loss_last_faltung": mine[-1],
            "loss_difference": difference(theirs, mine), "loss_difference_f32": difference(theirs, exact),
            "losses": [round(v, 4) for v in theirs], "losses_faltung": [round(v, 4) for v in mine]}


def say(name, text):
    print(f"{time.strftime('%T')} {name}: {text}", file=sys.stderr, flush=True)


def measure(name, options, alone):
    """The record of a network, then that of its losses. alone: a context in which nobody else uses the device."""
    network, device = NETWORKS[name], options.device
    shape = network.small if options.small else network.shape
    torch.manual_seed(1)
    start = (network.make_small if options.small else network.make)().to(device)
    for parameter in start.parameters():
        parameter.data = last(parameter.data)
    with alone:
        batches = data(shape, network.classes, device, name.startswith("unet"))
        theirs = Trainer(copy.deepcopy(start), network.rate, device)
        with torch.autocast(device, theirs.half):
            sites = _measure.sites_of(start, (batches[0][0],), tuple(nn.CLASSES), True)
    say(name, f"planning {len(sites)} layers")
    _measure.plan(sites, True)
    say(name, "planned")
    with alone:
        theirs.step(*batches[0])  # cudnn.benchmark's choice
        say(name, "torch has stepped")
        with torch.autocast(device, theirs.half):
            chosen = optimize(start, batches[0][0], verbose=options.verbose)
        say(name, "layers are chosen")
        trainers = [theirs, Trainer(copy.deepcopy(chosen), network.rate, device)]
        seconds = step_seconds(trainers, batches, device, options.rounds)
        shares = [convolution_share(trainer, batches[0], device) for trainer in trainers]
    rows = chosen.measurements
    wins = {way: [sum(len(r.names) for r in rows if r.direction == way and r.wins),
                  sum(len(r.names) for r in rows if r.direction == way)] for way in sorted({r.direction for r in rows})}
    about = {"training": name, "size": "x".join(map(str, shape)), "type": str(theirs.half).removeprefix("torch.")}
    yield about | {"seconds_median": seconds[1], "torch_seconds_median": seconds[0], "ratio": seconds[0] / seconds[1],
                   "convolution_share_torch": shares[0], "convolution_share": shares[1], "by_faltung": wins}
    del trainers
    if options.steps:
        with alone:
            report = compare_curves(start, chosen, network.rate, device, batches, options.steps)
        yield about | report
    if options.compile:
        trainers = [Trainer(copy.deepcopy(network_), network.rate, device) for network_ in (start, chosen)]
        for trainer in trainers:
            trainer.call = torch.compile(trainer.network)
            trainer.step(*batches[0])
        with alone:
            seconds = step_seconds(trainers, batches, device, options.rounds)
        yield about | {"compiled_seconds_median": seconds[1], "torch_compiled_seconds_median": seconds[0],
                       "compiled_ratio": seconds[0] / seconds[1]}


def work(name, options, lock, results):
    """A network in a process of its own; None at its end."""
    torch.backends.cudnn.benchmark = True
    try:
        for record in measure(name, options, lock):
            results.put(record)
    except Exception as error:
        results.put({"training": name, "error": f"{type(error).__name__}: {error}"[:400]})
        raise
    finally:
        results.put(None)


def records(names, options):
    """Records of all networks as they come, in processes or one after the other."""
    if not options.parallel:
        torch.backends.cudnn.benchmark = True
        for name in names:
            yield from measure(name, options, contextlib.nullcontext())
        return
    spawn = torch.multiprocessing.get_context("spawn")
    lock, results = spawn.Lock(), spawn.Queue()
    processes = [spawn.Process(target=work, args=(name, options, lock, results), daemon=True) for name in names]
    for process in processes:
        process.start()
    end, working = time.monotonic() + options.limit, len(names)
    try:
        while working:
            record = results.get(timeout=max(end - time.monotonic(), 0.01))
            if record is None:
                working -= 1
            else:
                yield record
    except queue.Empty:
        say("all", f"--limit {options.limit}: {working} networks have not ended")
    finally:
        for process in processes:
            process.terminate()


def mean(ratios):
    return math.exp(statistics.fmean(map(math.log, ratios)))


def main(words):
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--models", default=",".join(NETWORKS))
    parser.add_argument("--device", choices=("cuda", "cpu"), default="cuda" if torch.cuda.is_available() else "cpu")
    parser.add_argument("--steps", type=int, default=50)
    parser.add_argument("--rounds", type=int, default=9)
    parser.add_argument("--limit", type=float, default=900)
    for flag in ("small", "compile", "parallel", "verbose"):
        parser.add_argument(f"--{flag}", action="store_true")
    options = parser.parse_args(words)
    names = options.models.split(",")
    if unknown := [name for name in names if name not in NETWORKS]:
        parser.error(f"--models: {', '.join(unknown)}: no such network; take {', '.join(NETWORKS)}")
    tree = os.path.dirname(os.path.abspath(__file__))
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
