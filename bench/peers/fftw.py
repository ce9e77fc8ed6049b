"""FFTW in single precision as a peer of long filters of signals on the CPU: the pipeline that an engineer writes with it.

Overlap-save with measured plans of real transforms. The signal is padded once, outside the timed part, as is the filter's
spectrum made. Each segment is transformed out of place, multiplied by the spectrum and transformed back; threads share
the segments. The length is the fastest of a few, by measurement.

https://www.fftw.org/"""
import ctypes
import time
from concurrent.futures import ThreadPoolExecutor

import numpy as np

MEASURE, DESTROY_INPUT = 0, 1
PLANNING_SECONDS = 10  # at most for each plan; only transforms of millions of points need longer to measure
LIBRARY = "libfftw3f.so.3"


def load():
    """The library with the types of its functions."""
    fftw = ctypes.CDLL(LIBRARY)
    for name in ("fftwf_plan_dft_r2c_1d", "fftwf_plan_dft_c2r_1d"):
        getattr(fftw, name).restype = ctypes.c_void_p
        getattr(fftw, name).argtypes = [ctypes.c_int, ctypes.c_void_p, ctypes.c_void_p, ctypes.c_uint]
    for name in ("fftwf_execute_dft_r2c", "fftwf_execute_dft_c2r"):
        getattr(fftw, name).argtypes = [ctypes.c_void_p] * 3
    fftw.fftwf_set_timelimit.argtypes = [ctypes.c_double]
    fftw.fftwf_set_timelimit(PLANNING_SECONDS)
    return fftw


def version_of(fftw):
    text = ctypes.cast(ctypes.addressof(ctypes.c_char.in_dll(fftw, "fftwf_version")), ctypes.c_char_p).value
    return text.decode().removeprefix("fftw-").split("-")[0]


def aligned(count, dtype):
    """An array that begins at a cache line, as all of a plan's arrays have to."""
    size = np.dtype(dtype).itemsize
    room = np.zeros(count * size + 64, np.uint8)
    begin = -room.ctypes.data % 64
    return room[begin:begin + count * size].view(dtype)


class Segments:
    """A correlation in segments of `points` samples."""

    def __init__(self, fftw, x, taps, points, pool, threads):
        self.fftw, self.points, self.pool, self.samples = fftw, points, pool, x.size
        self.kept = (points - taps.size + 1) // 16 * 16  # segments begin aligned
        self.count = -(-x.size // self.kept)
        self.x = aligned(self.count * self.kept + points, np.float32)
        self.x[taps.size // 2:taps.size // 2 + x.size] = x
        self.out = aligned(self.count * self.kept, np.float32)
        self.shares = [range(i * self.count // threads, (i + 1) * self.count // threads) for i in range(threads)]
        self.rooms = [(aligned(points, np.float32), aligned(points // 2 + 1, np.complex64)) for _ in range(threads)]
        samples, spectrum = self.rooms[0]
        self.forward = fftw.fftwf_plan_dft_r2c_1d(points, samples.ctypes.data, spectrum.ctypes.data, MEASURE)
        self.backward = fftw.fftwf_plan_dft_c2r_1d(points, spectrum.ctypes.data, samples.ctypes.data,
                                                   MEASURE | DESTROY_INPUT)
        padded = np.zeros(points)
        padded[:taps.size] = taps
        self.filter = (np.conj(np.fft.rfft(padded)) / points).astype(np.complex64)

    def run_share(self, share, room):
        samples, spectrum = room
        for i in share:
            first = i * self.kept
            self.fftw.fftwf_execute_dft_r2c(self.forward, self.x.ctypes.data + 4 * first, spectrum.ctypes.data)
            np.multiply(spectrum, self.filter, out=spectrum)
            self.fftw.fftwf_execute_dft_c2r(self.backward, spectrum.ctypes.data, samples.ctypes.data)
            self.out[first:first + self.kept] = samples[:self.kept]

    def __call__(self):
        list(self.pool.map(self.run_share, self.shares, self.rooms))
        return self.out[:self.samples]


def lengths(taps):
    """Powers of two from the least that keeps half of a segment on."""
    least = 1 << max(10, (2 * taps - 1).bit_length())
    return [least, 2 * least, 4 * least, 8 * least]


def seconds(run):
    times = []
    for _ in range(3):
        began = time.perf_counter()
        run()
        times.append(time.perf_counter() - began)
    return min(times)


class Library:
    def __init__(self, threads):
        self.fftw, self.threads, self.pool = load(), threads, ThreadPoolExecutor(threads)
        self.__version__ = version_of(self.fftw)

    def correlation(self, x, taps):
        """The fastest of a few lengths."""
        return min((Segments(self.fftw, x, taps, points, self.pool, self.threads) for points in lengths(taps.size)),
                   key=seconds)
