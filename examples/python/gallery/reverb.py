"""Reverb: a plucked melody convolved with a room's response, as spectrograms."""
import numpy as np
from faltung import signal
from panels import save

RATE = 8000
random = np.random.default_rng(2)
seconds = np.arange(int(0.25 * RATE)) / RATE
notes = [220 * 2 ** (step / 12) for step in (0, 4, 7, 12, 7, 4, 0)]
pluck = [sum(np.sin(2 * np.pi * n * f * seconds) / n for n in range(1, 6)) * np.exp(-18 * seconds) for f in notes]
dry = np.concatenate([*pluck, np.zeros(RATE)])
time = np.arange(RATE) / RATE
room = random.normal(0, 1, RATE) * np.exp(-6 * time)
room[0] = 8.0  # the sound itself, before its echoes
wet = signal.oaconvolve(dry, room)[: dry.size]


def spectrogram(sound: np.ndarray) -> np.ndarray:
    """Decibels below the loudest from -70 to 0, as 0 to 1; low frequencies at the bottom."""
    frames = np.lib.stride_tricks.sliding_window_view(sound, 512)[::56] * np.hanning(512)
    power = np.abs(np.fft.rfft(frames)[:, :150]).T[::-1]
    return 1 + 20 * np.log10(power / power.max() + 1e-9) / 70


panels = {"dry": spectrogram(dry), "with the room": spectrogram(wet)}
for name, sound in (("dry", dry), ("wet", wet)):
    tail = sound[7 * seconds.size + RATE // 4:]
    print(f"{name}: the last 0.75 s have {np.sum(tail ** 2) / np.sum(sound ** 2):.1e} of the energy")
save("reverb.png", panels, columns=2)
