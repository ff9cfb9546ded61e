"""Models with scikit-learn's interface: one PCEGP, a mixture of several, and their files."""

from pcegp.estimators.composite import Composite, members_of
from pcegp.estimators.fitted_model import FittedModel, Output
from pcegp.estimators.mixture import PCEGPMixture, drawn_once, load, recommended, trained
from pcegp.estimators.presets import ALL_COVARIANCES, PAPER, PRESETS
from pcegp.estimators.regressor import (
    PCEGPRegressor,
    checked_state,
    fit_cached,
    fit_named,
    fitted_output,
)
from pcegp.estimators.scoring import Scored
from pcegp.estimators.settings import default_noise_delay, resolve

__all__ = [
    "ALL_COVARIANCES", "PAPER", "PRESETS", "Composite", "FittedModel", "Output", "PCEGPMixture",
    "PCEGPRegressor", "Scored", "checked_state", "default_noise_delay", "drawn_once", "fit_cached",
    "fit_named", "fitted_output", "load", "members_of", "recommended", "resolve", "trained",
]
