"""Training of the parameters: objective, priors, optimisers, starts and stages."""

from pcegp.training.objective import PRIORS, ElasticNet, Normal, Objective, Prior, Term
from pcegp.training.optimiser import Descent, History, Options
from pcegp.training.stages import Fit, at_once, condition, fit

__all__ = [
    "PRIORS", "Descent", "ElasticNet", "Fit", "History", "Normal", "Objective", "Options", "Prior",
    "Term", "at_once", "condition", "fit",
]
