"""Training of the parameters: objectives, priors, optimisers, and the choice by evidence."""

from pcegp.training.fitted import Fit, at_once, condition
from pcegp.training.large import FEWEST_ROWS, fit_by_terms
from pcegp.training.latent import LatentObjective, Strengths
from pcegp.training.objective import PRIORS, ElasticNet, Normal, Objective, Prior, Term
from pcegp.training.optimiser import Descent, History, Options
from pcegp.training.quasi_newton import minimise
from pcegp.training.selection import BENDS, PATH, TRAINING, fit_by_evidence, refitted
from pcegp.training.stages import fit
from pcegp.training.structures import Choices, Form

__all__ = [
    "BENDS", "FEWEST_ROWS", "PATH", "PRIORS", "TRAINING", "Choices", "Descent", "ElasticNet", "Fit",
    "Form", "History", "LatentObjective", "Normal", "Objective", "Options", "Prior", "Strengths",
    "Term", "at_once", "condition", "fit", "fit_by_evidence", "fit_by_terms", "minimise",
    "refitted",
]
