#!/usr/bin/env python3
"""libzita-convolver beside `faltung bench convolver`, in turns: CPU time a block of each. Prints a line of JSON.

    bench/peers/zita.py [FALTUNG [ROUNDS [SECONDS]]] >bench/results/MACHINE-convolver.jsonl

By default build/faltung, 3 rounds, 10 seconds of signal each: 64 channels with a response of 2 s at 48 kHz, blocks of 64
samples. Both work without added latency. The times are those of all threads of a process, also of those that zita-convolver
has for its large partitions; its FFTW plans are measured. Its inputs lie in its buffers already: copying them is not timed.

https://kokkinizita.linuxaudio.org/linuxaudio/ (Debian: libzita-convolver4)"""
import ctypes
import json
import statistics
import subprocess
import sys
import time

import numpy as np

CHANNELS, BLOCK, RATE, TAPS = 64, 64, 48000, 96000
FFTW_MEASURE, VECTOR_MODE, MAXPART, MOST_INPUTS = 1, 2, 8192, 64
NAMES = {"create": "C1Ev", "set_options": "11set_optionsEj", "configure": "9configureEjjjjjjf",
         "impulse": "14impdata_createEjjiPfii", "start": "13start_processEii", "process": "7processEb",
         "stop": "12stop_processEv"}


class Fields(ctypes.Structure):
    """The first members of the class Convproc in zita-convolver.h 4.0, and room for the rest."""
    _fields_ = [("state", ctypes.c_uint32), ("inputs", ctypes.c_void_p * MOST_INPUTS),
                ("outputs", ctypes.c_void_p * MOST_INPUTS), ("offsets", ctypes.c_uint32 * 9),
                ("levels", ctypes.c_uint32), ("input_size", ctypes.c_uint32), ("late", ctypes.c_uint32),
                ("rest", ctypes.c_uint64 * 512)]


class Convolver:
    def __init__(self):
        library = ctypes.CDLL("libzita-convolver.so.4")
        self.functions = {name: getattr(library, "_ZN8Convproc" + symbol) for name, symbol in NAMES.items()}
        self.fields = Fields()
        self.call("create")
        self.call("set_options", FFTW_MEASURE | VECTOR_MODE)
        self.call("configure", CHANNELS, CHANNELS, TAPS, BLOCK, BLOCK, MAXPART, ctypes.c_float(0))
        random = np.random.default_rng(1)
        for channel in range(CHANNELS):
            taps = random.standard_normal(TAPS, np.float32)
            self.call("impulse", channel, channel, 1, taps.ctypes.data_as(ctypes.c_void_p), 0, TAPS)
        self.call("start", 0, 0)
        for channel in range(CHANNELS):
            room = (ctypes.c_float * self.fields.input_size).from_address(self.fields.inputs[channel])
            np.frombuffer(room, np.float32)[:] = random.standard_normal(self.fields.input_size, np.float32)

    def call(self, name, *arguments):
        status = self.functions[name](ctypes.byref(self.fields), *arguments)
        if name in ("configure", "impulse", "start") and status:
            sys.exit(f"zita.py: {name} answers {status}")

    def seconds_a_block(self, blocks):
        """CPU time of all threads."""
        process, fields, wait = self.functions["process"], ctypes.byref(self.fields), ctypes.c_bool(True)
        for _ in range(2 * TAPS // BLOCK):  # until the response is full
            process(fields, wait)
        began = time.process_time()
        for _ in range(blocks):
            process(fields, wait)
        return (time.process_time() - began) / blocks


def faltung(binary, seconds):
    line = subprocess.run([binary, "bench", "convolver", "--seconds", str(seconds), "--json"], check=True,
                          capture_output=True, text=True).stdout
    return json.loads(line)


def main(words):
    binary = words[0] if words else "build/faltung"
    rounds = int(words[1]) if len(words) > 1 else 3
    seconds = float(words[2]) if len(words) > 2 else 10
    zita, ours, theirs = Convolver(), [], []
    for _ in range(rounds):
        ours.append(faltung(binary, seconds))
        theirs.append(zita.seconds_a_block(int(seconds * RATE / BLOCK)))
    zita.call("stop")
    row = sorted(ours, key=lambda one: one["seconds_mean"])[rounds // 2]
    assert (row["channels"], row["block"], row["rate"], row["taps"]) == (CHANNELS, BLOCK, RATE, TAPS)
    row |= {"peer": "libzita-convolver 4", "peer_seconds_mean": statistics.median(theirs), "rounds": rounds,
            "levels": zita.fields.levels}
    row["ratio_to_peer"] = row["peer_seconds_mean"] / row["seconds_mean"]
    print(json.dumps(row))


if __name__ == "__main__":
    main(sys.argv[1:])
