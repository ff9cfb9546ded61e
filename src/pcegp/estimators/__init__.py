"""Models with scikit-learn's interface: one PCEGP, a mixture of several, and their files."""

from pcegp.estimators.mixture import PCEGPMixture, load
from pcegp.estimators.regressor import PCEGPRegressor

__all__ = ["PCEGPMixture", "PCEGPRegressor", "load"]
