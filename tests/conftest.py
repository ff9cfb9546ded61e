"""Shared by several test modules."""

from __future__ import annotations

import os
import signal
from collections.abc import Iterator

# Read once, when SciPy is imported: lets scikit-learn check array-API input as well.
os.environ.setdefault("SCIPY_ARRAY_API", "1")

import pytest
from hypothesis import settings

pytest.register_assert_rewrite("laws")

# Compiled code and two shared cores make single examples slow now and then.
settings.register_profile("pcegp", deadline=None, max_examples=50, derandomize=True)
settings.load_profile("pcegp")


@pytest.fixture
def interruptible() -> Iterator[None]:
    """A process started in the background may ignore Ctrl-C, and pass that on."""
    before = signal.signal(signal.SIGINT, signal.default_int_handler)
    yield
    signal.signal(signal.SIGINT, before)
