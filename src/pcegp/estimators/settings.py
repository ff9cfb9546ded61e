"""The user's parameters, checked and resolved to objects before anything is computed."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
from numpy.typing import NDArray

from pcegp.errors import SettingError, unknown_name
from pcegp.kernels import functions as covariance
from pcegp.kernels import transforms
from pcegp.kernels.functions import CovarianceFunction
from pcegp.kernels.process import SCALES, Structure
from pcegp.kernels.transforms import Transform
from pcegp.polynomials import families as polynomials
from pcegp.polynomials.expansion import make_basis
from pcegp.polynomials.families import Polynomials
from pcegp.preprocessing.validation import check_integer, check_number
from pcegp.training.optimiser import Options
from pcegp.training.starts import initial_scales

FloatArray = NDArray[np.float64]

NOISES = ("constant", "expansion")


@dataclass(frozen=True)
class Settings:
    """The user's settings, checked and resolved; see `PCEGPRegressor`."""

    covariances: tuple[CovarianceFunction, ...]
    scale: str
    families: tuple[Polynomials, ...]
    degree: int
    hyperbolic: float
    max_interaction: int | None
    transform: Transform
    noise_degree: int
    noise_transform: Transform
    noise_floor: float
    initial_scale: float | Sequence[float] | None
    n_restarts: int
    n_draws: int
    warm_up_rows: int | None
    max_basis_gb: float
    n_jobs: int | None
    training: Options

    def hurried(self) -> Settings:
        """The same settings for a model that must be made at once."""
        return replace(self, n_draws=0, training=replace(self.training, max_iter=1, checkpoints=()))

    def structure(self, X: FloatArray) -> Structure:
        """The model's structure for scaled training inputs X (n, d)."""
        fields = len(self.covariances) * (X.shape[1] if self.scale == "per_input" else 1)
        basis = make_basis(self.families, X, self.degree, self.hyperbolic, self.max_interaction,
                           self.max_basis_gb, fields)
        noise_basis = make_basis(self.families, X, self.noise_degree, self.hyperbolic,
                                 self.max_interaction, self.max_basis_gb)
        return Structure(self.covariances, self.scale, self.transform, basis, noise_basis,
                         self.noise_transform, self.noise_floor)


def resolve(parameters: Mapping[str, Any]) -> Settings:
    """Settings from the parameters of `PCEGPRegressor`, or an error that names one."""
    p = parameters
    if p["scale"] not in SCALES:
        raise unknown_name("scale", p["scale"], SCALES)
    if p["noise"] not in NOISES:
        raise unknown_name("noise", p["noise"], NOISES)
    _check_range(p["input_range"])
    expanded = p["noise"] == "expansion"
    covariances = covariance.resolve(p["covariance"])
    initial_scales(p["initial_scale"], len(covariances), 1)
    noise_transform = transforms.get(p["noise_transform"], "noise_transform")
    return Settings(
        covariances=covariances,
        scale=p["scale"],
        families=polynomials.resolve(p["basis"]),
        degree=check_integer("degree", p["degree"], 0),
        hyperbolic=check_number("hyperbolic", p["hyperbolic"], 0.0, 1.0, open_low=True),
        max_interaction=_optional_integer("max_interaction", p["max_interaction"]),
        transform=transforms.get(p["scale_transform"], "scale_transform"),
        noise_degree=check_integer("noise_degree", p["noise_degree"], 0) if expanded else 0,
        # A constant is kept positive by its logarithm, whatever the expansion would use.
        noise_transform=noise_transform if expanded else transforms.get("exponential"),
        noise_floor=check_number("noise_floor", p["noise_floor"], 0.0),
        initial_scale=p["initial_scale"],
        n_restarts=check_integer("n_restarts", p["n_restarts"], 0),
        n_draws=check_integer("n_draws", p["n_draws"], 0),
        warm_up_rows=_optional_integer("warm_up_rows", p["warm_up_rows"]),
        max_basis_gb=check_number("max_basis_gb", p["max_basis_gb"], 0.0, open_low=True),
        n_jobs=None if p["n_jobs"] == -1 else _optional_integer("n_jobs", p["n_jobs"]),
        training=_training_options(p),
    )


def _training_options(p: Mapping[str, Any]) -> Options:
    max_iter = check_integer("max_iter", p["max_iter"], 1)
    if not isinstance(p["checkpoints"], Iterable):
        raise SettingError(f"checkpoints={p['checkpoints']!r} must be a list of steps")
    steps = tuple(check_integer("checkpoints", step, 0) for step in p["checkpoints"])
    if steps and max(steps) > max_iter:
        raise SettingError(
            f"checkpoints={list(steps)} goes beyond max_iter={max_iter}: raise max_iter"
        )
    return Options(
        learning_rate=check_number("learning_rate", p["learning_rate"], 0.0, open_low=True),
        max_iter=max_iter,
        penalty=check_number("penalty", p["penalty"], 0.0),
        l1_ratio=check_number("l1_ratio", p["l1_ratio"], 0.0, 1.0),
        prior=check_number("prior", p["prior"], 0.0),
        averaging=check_integer("averaging", p["averaging"], 1),
        noise_delay=_noise_delay(p["noise_delay"], max_iter),
        patience=_optional_integer("patience", p["patience"]),
        checkpoints=steps,
    )


def _noise_delay(value: Any, max_iter: int) -> int:
    return min(200, max_iter // 2) if value is None else check_integer("noise_delay", value, 0)


def _optional_integer(name: str, value: Any) -> int | None:
    return None if value is None else check_integer(name, value, 1)


def _check_range(value: Any) -> None:
    numbers = isinstance(value, (tuple, list, np.ndarray)) and all(
        isinstance(v, (int, float, np.number)) for v in value
    )
    if not numbers or len(value) != 2 or not -np.inf < value[0] < value[1] < np.inf:
        raise SettingError(f"input_range={value!r} must be two numbers, the lower one first")
