"""Engines of inference: from rows and a covariance to a likelihood and a posterior."""

from pcegp.inference.averaged import Averaged, averaged, unexplained_variance
from pcegp.inference.base import (
    ADDITIVE,
    COVARIANCE,
    DRAWS,
    ENGINES,
    EVERY_STEP,
    LEAVE_ONE_OUT,
    Conditioned,
    Data,
    Evaluation,
    Inference,
    Likelihood,
    Posterior,
    from_dict,
)
from pcegp.inference.exact import Exact
from pcegp.inference.mapped_target import MappedTarget, mapped
from pcegp.inference.neighbours import NeighbourLikelihood, NeighbourPosterior, Neighbours
from pcegp.inference.parameter_uncertainty import UncertainParameters, with_uncertainty

# One line for each engine.
ENGINES["exact"] = Exact
ENGINES["neighbours"] = Neighbours

__all__ = [
    "ADDITIVE", "COVARIANCE", "DRAWS", "ENGINES", "EVERY_STEP", "LEAVE_ONE_OUT", "Averaged",
    "Conditioned", "Data", "Evaluation", "Exact", "Inference", "Likelihood", "MappedTarget",
    "NeighbourLikelihood", "NeighbourPosterior", "Neighbours", "Posterior", "UncertainParameters",
    "averaged", "from_dict", "mapped", "unexplained_variance", "with_uncertainty",
]
