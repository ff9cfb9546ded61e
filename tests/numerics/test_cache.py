"""Compiled code is kept on disk: for the user where the package is read-only."""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

import pcegp

FIT = """
from time import perf_counter
import numpy, scipy.linalg, sklearn.base, numba
begin = perf_counter()
from pcegp import PCEGPRegressor
X = numpy.linspace(0, 1, 20)[:, None]
PCEGPRegressor(max_iter=2).fit(X, X[:, 0]).predict(X, return_std=True)
print(perf_counter() - begin)
"""


@pytest.fixture(scope="module")
def read_only(tmp_path_factory):
    """A copy of the package beside which nothing can be kept, even by an administrator."""
    root = tmp_path_factory.mktemp("site")
    shutil.copytree(Path(pcegp.__file__).parent, root / "pcegp",
                    ignore=shutil.ignore_patterns("__pycache__"))
    for folder in (root / "pcegp", root / "pcegp" / "experiments"):
        (folder / "__pycache__").write_text("a file where the folder would be", encoding="utf-8")
    return root


def seconds(root, cache):
    environment = {k: v for k, v in os.environ.items() if not k.startswith("NUMBA_")}
    environment |= {"PYTHONPATH": str(root), "XDG_CACHE_HOME": str(cache), "HOME": str(cache)}
    done = subprocess.run([sys.executable, "-c", FIT], env=environment, check=True,
                          capture_output=True, text=True)
    return float(done.stdout)


def test_a_read_only_package_keeps_its_code_in_the_user_s_cache(read_only, tmp_path):
    first = seconds(read_only, tmp_path)
    assert list(tmp_path.rglob("*.nbi"))
    second = min(seconds(read_only, tmp_path) for _ in range(3))
    assert second < first / 2


def test_without_any_place_to_write_it_works_all_the_same(read_only):
    assert seconds(read_only, "/dev/null/nowhere") > 0


def test_importing_the_package_is_quick():
    code = "from time import perf_counter as t; a = t(); import pcegp; print(t() - a)"
    runs = [subprocess.run([sys.executable, "-c", code], check=True, capture_output=True, text=True)
            for _ in range(3)]
    assert min(float(run.stdout) for run in runs) < 1.0
