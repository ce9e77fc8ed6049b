"""The comparison of training steps, with tiny networks on the CPU: bench/training.py beside the tests."""
import json
import os
import subprocess
import sys
import threading

import pytest

torch = pytest.importorskip("torch")
BENCH = os.path.join(os.path.dirname(os.path.abspath(__file__)), "..", "..", "bench")
ENVIRONMENT = {**os.environ, "OMP_NUM_THREADS": "1", "FALTUNG_THREADS": "1"}  # tiny layers
NAMES = ["convnext-t", "efficientnet-b0", "r2plus1d-18", "unet3d", "wav2vec2-features"]


@pytest.mark.parametrize("name", NAMES)
def test_training(name):
    words = ["--device", "cpu", "--small", "--steps", "4", "--rounds", "1", "--models", name]
    path = os.pathsep.join(filter(None, [BENCH, os.environ.get("PYTHONPATH")]))
    command = [sys.executable, os.path.join(BENCH, "training.py"), *words]
    run = subprocess.run(command, capture_output=True, text=True, timeout=300, env={**ENVIRONMENT, "PYTHONPATH": path})
    assert run.returncode == 0, run.stderr[-3000:]
    record = json.loads(next(line for line in run.stdout.splitlines() if line.startswith("{")))
    assert record["training"] == name and record["seconds_median"] > 0 and record["torch_seconds_median"] > 0
    assert 0 < record["convolution_share_torch"] < 1 and 0 < record["convolution_share"] < 1
    forward = record["by_faltung"]["forward"]
    assert 0 <= forward[0] <= forward[1] and forward[1] > 0
    assert len(record["losses"]) == len(record["losses_faltung"]) == 4
    assert record["losses"][0] == pytest.approx(record["losses_faltung"][0], rel=1e-2)
    assert record["loss_difference"] <= 2 * record["loss_difference_f32"] + 0.02  # what the type's rounding does


def test_processes_take_turns():
    words = ["--device", "cpu", "--small", "--parallel", "--steps", "1", "--rounds", "1", "--models"]
    path = os.pathsep.join(filter(None, [BENCH, os.environ.get("PYTHONPATH")]))
    run = subprocess.run([sys.executable, os.path.join(BENCH, "training.py"), *words, "convnext-t,wav2vec2-features"],
                         capture_output=True, text=True, timeout=300, env={**ENVIRONMENT, "PYTHONPATH": path})
    records = [json.loads(line) for line in run.stdout.splitlines() if line.startswith("{")]
    assert [r["training"] for r in records] == ["convnext-t", "wav2vec2-features"], run.stderr[-3000:]
    assert run.returncode == 0 and "geometric mean" in run.stderr


def test_a_network_that_fails_leaves_the_others(monkeypatch):
    monkeypatch.syspath_prepend(BENCH)
    training = pytest.importorskip("training")
    barrier, lock, done = threading.Barrier(2), threading.Lock(), []

    def work(fails):
        alone = training.Alone(barrier, lock)
        try:
            with alone():
                pass
            if fails:
                raise ArithmeticError
            with alone():
                done.append(alone.left)
        except ArithmeticError:
            alone.leave()

    threads = [threading.Thread(target=work, args=(fails,)) for fails in (False, True)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join(60)
    assert len(done) == 1 and not any(thread.is_alive() for thread in threads)
