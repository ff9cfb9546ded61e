"""Models with scikit-learn's interface: one PCEGP, a mixture of several, and their files."""

from pcegp.estimators.advice import warn_about_data
from pcegp.estimators.columns import labels_of, names_of, warn_about_order
from pcegp.estimators.composite import Composite
from pcegp.estimators.fitted_model import FittedModel, Output
from pcegp.estimators.mixture import PCEGPMixture, drawn_once, load, recommended, trained
from pcegp.estimators.presets import ALL_COVARIANCES, PAPER, PRESETS
from pcegp.estimators.regressor import PCEGPRegressor, fit_cached, fit_named, fitted_output
from pcegp.estimators.scoring import Scored
from pcegp.estimators.seeds import checked_state
from pcegp.estimators.settings import default_noise_delay, resolve

__all__ = [
    "ALL_COVARIANCES", "PAPER", "PRESETS", "Composite", "FittedModel", "Output", "PCEGPMixture",
    "PCEGPRegressor", "Scored", "checked_state", "default_noise_delay", "drawn_once", "fit_cached",
    "fit_named", "fitted_output", "labels_of", "load", "names_of", "recommended", "resolve",
    "trained", "warn_about_data", "warn_about_order",
]
