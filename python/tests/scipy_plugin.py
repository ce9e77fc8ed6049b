"""A plugin for pytest: scipy's own tests with faltung's functions in the place of scipy's, whose bodies raise.

    python -m pytest -p scipy_plugin --pyargs scipy.ndimage.tests.test_filters
"""
import collections
import importlib
import inspect
import os
import sys

import pytest

from faltung import _patch

EXCLUDED = os.path.join(os.path.dirname(__file__), "scipy_excluded.txt")
table = {}
inner = {}
counts = collections.Counter()


def excluded():
    """Names of tests that do not run, and why: lines "name: reason"."""
    with open(EXCLUDED) as file:
        lines = [line.rstrip("\n") for line in file if line.strip() and not line.startswith("#")]
    return dict(line.split(": ", 1) for line in lines)


def ours(value):
    """The value with scipy's functions replaced, in tuples and lists too."""
    if isinstance(value, (tuple, list)) and type(value) in (tuple, list):
        return type(value)(ours(v) for v in value)
    try:
        return table.get(value, value)
    except TypeError:
        return value


def names_ours(item):
    """Whether a test names one of our functions: in its parameters, or in its source or its class's."""
    values = list(getattr(item, "callspec", None).params.values()) if hasattr(item, "callspec") else []
    if any(ours(v) is not v and ours(v) != v for v in values):
        return True
    source = inspect.getsource(item.function)
    return any(f.__name__ + end in source for f in table for end in "(,)")


def pytest_collection_modifyitems(config, items):
    table.update(_patch.pairs())
    why = excluded()
    for item in items:
        if not names_ours(item):
            continue
        counts["ours"] += 1
        name = item.nodeid.split("::", 1)[1]
        reason = why.get(name) or why.get(name.split("[")[0])
        if reason:
            counts["excluded"] += 1
            item.add_marker(pytest.mark.skip(reason=f"excluded: {reason}"))
        if hasattr(item, "callspec"):
            for key, value in item.callspec.params.items():
                item.callspec.params[key] = ours(value)


    inner.update((inspect.unwrap(f), g) for f, g in table.items())
    _patch.patch()
    _patch_tests()
    _forbid()


def _forbid():
    """scipy's functions raise, whoever calls them: their code is exchanged."""

    def forbidden(*arguments, **named):
        raise AssertionError("scipy's own function was called")

    for function in table:
        body = inspect.unwrap(function)
        if inspect.isfunction(body) and not body.__code__.co_freevars:
            body.__code__ = forbidden.__code__


def _patch_tests():
    """Names that the tests' modules imported, and those by which scipy's other functions call these."""
    for name, module in list(sys.modules.items()):
        if name.startswith(("scipy.signal.", "scipy.ndimage.")):
            for key, value in list(vars(module).items()):
                replacement = ours(value) if callable(value) else value
                if replacement is value and inspect.isfunction(value):
                    replacement = inner.get(value, value)
                if replacement is not value:
                    setattr(module, key, replacement)


def pytest_configure(config):
    config.addinivalue_line("markers", "excluded: not run with faltung")


def pytest_sessionstart(session):
    for name in ("ndimage", "signal"):
        importlib.import_module(f"scipy.{name}")


def pytest_terminal_summary(terminalreporter):
    terminalreporter.write_line(f"faltung: {counts['ours']} tests name its functions, {counts['excluded']} excluded")
