"""Backends, and one test a row of the table."""

import os
import sys

sys.path.insert(0, os.path.dirname(__file__))

import pytest
from support import DTYPES, Eager
from table import ROWS

import cpuops


def pytest_generate_tests(metafunc):
    if "row" in metafunc.fixturenames:
        choose = getattr(metafunc.function, "rows", lambda row: True)
        metafunc.parametrize("row", [pytest.param(r, id=n) for n, r in ROWS.items() if choose(r)])
    if "dtype" in metafunc.fixturenames:
        metafunc.parametrize("dtype", DTYPES)


@pytest.fixture(scope="session")
def serial():
    return cpuops.CpuBackend()


@pytest.fixture(scope="session")
def threaded():
    return cpuops.ThreadedCpuBackend(num_threads=2)


@pytest.fixture(scope="session")
def eager():
    """Three threads, even for a single element."""
    return Eager(3)


@pytest.fixture(params=["CpuBackend", "ThreadedCpuBackend"])
def backend(request, serial, threaded):
    return serial if request.param == "CpuBackend" else threaded
