"""Models with scikit-learn's interface: one PCEGP, a mixture of several, and their files."""

from pcegp.estimators.composite import Composite
from pcegp.estimators.fitted_model import FittedModel, Output
from pcegp.estimators.mixture import PCEGPMixture, drawn_once, load, recommended, trained
from pcegp.estimators.presets import ALL_COVARIANCES, PAPER, PRESETS
from pcegp.estimators.regressor import (
    PCEGPRegressor,
    fit_cached,
    fitted_output,
    names_of,
    warn_about_data,
)
from pcegp.estimators.settings import default_noise_delay, resolve

__all__ = [
    "ALL_COVARIANCES", "PAPER", "PRESETS", "Composite", "FittedModel", "Output", "PCEGPMixture",
    "PCEGPRegressor", "default_noise_delay", "drawn_once", "fit_cached", "fitted_output", "load",
    "names_of", "recommended", "resolve", "trained", "warn_about_data",
]
