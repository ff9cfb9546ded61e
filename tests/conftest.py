"""Shared by several test modules."""

from __future__ import annotations

import os
import signal
from collections.abc import Callable, Iterator

# Read once, when SciPy is imported: lets scikit-learn check array-API input as well.
os.environ.setdefault("SCIPY_ARRAY_API", "1")

import numpy as np
import pytest
from hypothesis import settings

from pcegp.kernels import functions as covariance
from pcegp.kernels import transforms
from pcegp.kernels.process import Structure
from pcegp.polynomials.expansion import make_basis
from pcegp.polynomials.families import Legendre

# Compiled code and two shared cores make single examples slow now and then.
settings.register_profile("pcegp", deadline=None, max_examples=50, derandomize=True)
settings.load_profile("pcegp")


@pytest.fixture
def interruptible() -> Iterator[None]:
    """A process started in the background may ignore Ctrl-C, and pass that on."""
    before = signal.signal(signal.SIGINT, signal.default_int_handler)
    yield
    signal.signal(signal.SIGINT, before)


@pytest.fixture
def make_structure() -> Callable[..., Structure]:
    """Build a structure for training points X with the settings that a test names."""

    def make(
        X: np.ndarray,
        covariances: str | tuple[str, ...] = covariance.names()[:5],
        scale: str = "per_input",
        degree: int = 2,
        transform: str = "identity",
        noise_degree: int = 0,
        noise_transform: str = "exponential",
        noise_floor: float = 1e-6,
    ) -> Structure:
        return Structure(
            covariance.resolve(covariances),
            scale,
            transforms.get(transform),
            make_basis((Legendre(),), X, degree),
            make_basis((Legendre(),), X, noise_degree),
            transforms.get(noise_transform),
            noise_floor,
        )

    return make
