"""Checks of what a user passes, and maps between the units of a user and of a model."""

from pcegp.preprocessing import validation
from pcegp.preprocessing.maps import AffineScaler, InputMap, TargetScaler, fit_inputs, standardise

__all__ = [
    "AffineScaler", "InputMap", "TargetScaler", "fit_inputs", "standardise", "validation",
]
