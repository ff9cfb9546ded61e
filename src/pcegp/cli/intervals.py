"""Lower and upper ends beside predictions, of two kinds.

    band       the central share of the model's own predictive distribution, taken as normal
    interval   `predict_interval`: it holds its share of new values even if the model is wrong
"""

import warnings
from collections.abc import Callable
from dataclasses import dataclass

import numpy as np
from scipy.special import ndtri

from pcegp._typing import FloatArray
from pcegp.cli.table_models import Model
from pcegp.errors import PCEGPWarning, SettingError
from pcegp.estimators import members_of

#: Lower and upper ends (m,) at X (m, D), where the model predicts mean and std (m,).
EndsAt = Callable[[FloatArray, FloatArray, FloatArray], tuple[FloatArray, FloatArray]]

_BAND, _INTERVAL = "band", "interval"
_USUAL = 0.95
_NUMBERS = 4_000_000  # of training rows times new rows that are in memory at a time


@dataclass(frozen=True)
class Ends:
    """The ends that a user asks for: the option, and the share of values between them."""

    option: str
    share: float

    @property
    def trains(self) -> bool:
        """Tell whether models are trained for them."""
        return self.option == _INTERVAL

    def of(self, model: Model, show: bool) -> tuple[EndsAt, str]:
        """Do what has to be done once for a model, with a bar if `show`, and say what ends are."""
        return _calibrated(model, self.share, show) if self.trains else _band(self.share)


def chosen(interval: float | None, band: float | None) -> Ends:
    """Choose the ends that the options ask for."""
    if interval is not None and band is not None:
        raise SettingError(f"--interval {interval:g} and --band {band:g} would fill the same "
                           "columns: give one of them")
    option, share = (_BAND, _USUAL if band is None else band) if interval is None else (
        _INTERVAL, interval)
    if not 0.0 < share < 1.0:
        raise SettingError(f"--{option} {share:g} must lie between 0 and 1: write 0.9 for 90 %")
    return Ends(option, share)


def _band(share: float) -> tuple[EndsAt, str]:
    factor = float(ndtri(0.5 + share / 2))

    def at(_: FloatArray, mean: FloatArray, std: FloatArray) -> tuple[FloatArray, FloatArray]:
        return mean - factor * std, mean + factor * std

    return at, f"lower and upper hold {share:.4g} of what the model itself believes"


def _calibrated(model: Model, share: float, show: bool) -> tuple[EndsAt, str]:
    members = members_of(model)
    rows = members[0].model_.training_inputs()
    for member in members:
        member.set_params(verbose=show)
    # This trains without each fold, and the model remembers it. Warnings, as of too few rows, come
    # with every call: only those of this one are passed on.
    are_finite = bool(np.isfinite(model.predict_interval(rows[:1], share)).all())
    for member in members:
        member.set_params(verbose=False)
    size = max(1, _NUMBERS // len(rows))

    def at(X: FloatArray, *_: FloatArray) -> tuple[FloatArray, FloatArray]:
        with warnings.catch_warnings(action="ignore", category=PCEGPWarning):
            parts = [model.predict_interval(X[k : k + size], share)
                     for k in range(0, len(X), size)]
        lower, upper = (np.concatenate(part) for part in zip(*parts, strict=True))
        return lower, upper

    if not are_finite:  # nothing was trained
        return at, (f"lower and upper are infinite: the model has too few rows to hold {share:.4g} "
                    "of new values between others")
    return at, (f"lower and upper hold {share:.4g} of new values, by models that were trained "
                "without a part of the rows each")
