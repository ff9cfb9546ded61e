"""Compiled code is kept on disk: for the user where the package is read-only."""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

import pcegp

# The loops of a likelihood and a covariance function; prints how often code came from the disk.
EVALUATE = """
import numpy
from pcegp.kernels import COVARIANCES
from pcegp.numerics import pairwise
kernel = COVARIANCES["matern32"].kernel
parts = pairwise.Components(numpy.array([kernel.address], numpy.uint64), numpy.zeros(1),
                            numpy.ones(1))
C = numpy.zeros((4, 4))
pairwise.fill(numpy.arange(4.0).reshape(1, 1, 4), parts, numpy.zeros(4), C)
assert C[1, 0] == COVARIANCES["matern32"].evaluate(numpy.ones(1))[0]
print(sum(pairwise._fill_tasks.stats.cache_hits.values()))
"""


@pytest.fixture(scope="module")
def read_only(tmp_path_factory):
    """A copy of the package beside which nothing can be kept, even by an administrator."""
    root = tmp_path_factory.mktemp("site")
    shutil.copytree(Path(pcegp.__file__).parent, root / "pcegp",
                    ignore=shutil.ignore_patterns("__pycache__"))
    for init in root.rglob("__init__.py"):
        blocked = init.parent / "__pycache__"
        blocked.write_text("a file where the folder would be", encoding="utf-8")
    return root


def cache_hits(root, cache):
    environment = {k: v for k, v in os.environ.items() if not k.startswith("NUMBA_")}
    environment |= {"PYTHONPATH": str(root), "XDG_CACHE_HOME": str(cache), "HOME": str(cache)}
    done = subprocess.run([sys.executable, "-c", EVALUATE], env=environment, check=True,
                          capture_output=True, text=True)
    return int(done.stdout)


def test_a_read_only_package_keeps_its_code_in_the_user_s_cache(read_only, tmp_path):
    assert cache_hits(read_only, tmp_path) == 0
    assert list(tmp_path.rglob("*.nbi"))
    assert cache_hits(read_only, tmp_path) == 1


def test_without_any_place_to_write_it_works_all_the_same(read_only):
    assert cache_hits(read_only, "/dev/null/nowhere") == 0


def test_importing_the_package_loads_nothing_heavy():
    code = "import sys, pcegp; print(*sys.modules)"
    done = subprocess.run([sys.executable, "-c", code], check=True, capture_output=True, text=True)
    heavy = ("numpy", "scipy", "numba", "sklearn", "optuna", "matplotlib")
    assert not [name for name in done.stdout.split() if name.startswith(heavy)]
