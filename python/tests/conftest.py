"""Shared by the tests: random numbers, and the installed package in the tree's place."""
import os

import numpy
import pytest

os.environ.setdefault("FALTUNG_THREADS", "2")


@pytest.fixture
def random():
    return numpy.random.default_rng(7)
