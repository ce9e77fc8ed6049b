#!/usr/bin/env python3
"""Runs the command and ends it by a signal, or on a pseudo-terminal, for interrupt.case.

  interrupt.py signal NAME COUNT BINARY ARGUMENTS...   sends SIGNAME after 0.3 s, COUNT times; standard input is a pipe
                                                       that stays open. Prints the seconds until the end, the signal
                                                       that ended the command, and what it said
  interrupt.py terminal BINARY ARGUMENTS...            runs it with standard error on a terminal for at most 3 s, or
                                                       until a bar has stood there for a while; then sends SIGINT;
                                                       prints the terminal's text
  interrupt.py fill FILE SIZE...                       writes an .npy of ones, f32
"""
import math
import os
import pty
import select
import signal
import struct
import subprocess
import sys
import time


def default_signals():
    for number in (signal.SIGINT, signal.SIGTERM, signal.SIGHUP):
        signal.signal(number, signal.SIG_DFL)


def interrupt(name, count, command):
    number = getattr(signal, "SIG" + name)
    process = subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.DEVNULL, stderr=subprocess.PIPE,
                               preexec_fn=default_signals)
    time.sleep(0.3)
    began = time.monotonic()
    for _ in range(count):
        process.send_signal(number)
        time.sleep(0.01)
    process.wait()
    seconds = time.monotonic() - began
    print("%.3f" % seconds, -process.returncode, process.stderr.read().decode(), end="")


def on_terminal(command):
    master, slave = pty.openpty()
    process = subprocess.Popen(command, stdin=subprocess.DEVNULL, stdout=subprocess.DEVNULL, stderr=slave,
                               preexec_fn=default_signals)
    os.close(slave)
    end, text, seen = time.monotonic() + 3, b"", False
    while time.monotonic() < end and process.poll() is None:
        if select.select([master], [], [], 0.1)[0]:
            try:
                text += os.read(master, 4096)
            except OSError:
                break
        if b"%" in text and not seen:
            end, seen = min(end, time.monotonic() + 0.5), True
    process.send_signal(signal.SIGINT)
    process.wait()
    sys.stdout.write(text.decode().replace("\r", "\n"))


def fill(path, sizes):
    shape = "(%s,)" % ",".join(sizes)
    head = ("{'descr': '<f4', 'fortran_order': False, 'shape': %s, }" % shape).encode()
    head += b" " * ((64 - (11 + len(head)) % 64) % 64) + b"\n"
    with open(path, "wb") as file:
        file.write(b"\x93NUMPY\x01\x00" + struct.pack("<H", len(head)) + head)
        file.write(struct.pack("<f", 1) * math.prod(map(int, sizes)))


if sys.argv[1] == "signal":
    interrupt(sys.argv[2], int(sys.argv[3]), sys.argv[4:])
elif sys.argv[1] == "terminal":
    on_terminal(sys.argv[2:])
else:
    fill(sys.argv[2], sys.argv[3:])
