"""scipy's own tests of these functions, with faltung's in their place: at most 2% are excluded, each for a reason."""
import os
import re
import subprocess
import sys

import pytest

HERE = os.path.dirname(os.path.abspath(__file__))
MODULES = ["scipy.ndimage.tests.test_filters", "scipy.signal.tests.test_signaltools", "scipy.signal.tests.test_upfirdn"]


@pytest.mark.parametrize("module", MODULES)
def test_scipy_s_own_tests_pass(module):
    path = os.pathsep.join([HERE, *filter(None, [os.environ.get("PYTHONPATH")])])
    options = ["-p", "scipy_plugin", "-p", "no:cacheprovider", "-q", "--tb=short", "--pyargs", module]
    command = [sys.executable, "-m", "pytest", *options]
    run = subprocess.run(command, capture_output=True, text=True, env={**os.environ, "PYTHONPATH": path}, cwd="/")
    assert run.returncode == 0, run.stdout[-6000:]
    ours, excluded = map(int, re.search(r"faltung: (\d+) tests name its functions, (\d+) excluded", run.stdout).groups())
    assert ours > 100 and excluded <= 0.02 * ours
