"""Checks of what a user passes, and maps between the units of a user and of a model."""

from pcegp.preprocessing import validation
from pcegp.preprocessing.maps import AffineScaler, InputMap, TargetScaler, fit_inputs, standardise
from pcegp.preprocessing.monotone import LINEAR, MONOTONE, MonotoneMap, fit_monotone
from pcegp.preprocessing.target_map import TargetMap

__all__ = [
    "LINEAR", "MONOTONE", "AffineScaler", "InputMap", "MonotoneMap", "TargetMap", "TargetScaler",
    "fit_inputs", "fit_monotone", "standardise", "validation",
]
