"""Models with scikit-learn's interface: one PCEGP, a mixture of several, and their files."""

from pcegp.estimators.fitted_model import FittedModel, Output
from pcegp.estimators.mixture import PCEGPMixture, drawn_once, load, recommended, trained
from pcegp.estimators.presets import ALL_COVARIANCES, PAPER, PRESETS
from pcegp.estimators.regressor import PCEGPRegressor, fit_cached, fitted_output, warn_about_data
from pcegp.estimators.settings import default_noise_delay, resolve

__all__ = [
    "ALL_COVARIANCES", "PAPER", "PRESETS", "FittedModel", "Output", "PCEGPMixture",
    "PCEGPRegressor", "default_noise_delay", "drawn_once", "fit_cached", "fitted_output", "load",
    "recommended", "resolve", "trained", "warn_about_data",
]
