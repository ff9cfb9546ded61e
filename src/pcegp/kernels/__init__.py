"""Covariance of a PCEGP: covariance functions, transforms, local scale, warp and noise."""

from pcegp.kernels.functions import COVARIANCES, CovarianceFunction, compiled
from pcegp.kernels.functions import register as register_covariance
from pcegp.kernels.process import LEAST_NOISE, LOG_BOUND, SCALES, Design, Parameters, Process
from pcegp.kernels.transforms import TRANSFORMS, Exponential, Transform
from pcegp.kernels.transforms import register as register_transform

__all__ = [
    "COVARIANCES", "LEAST_NOISE", "LOG_BOUND", "SCALES", "TRANSFORMS", "CovarianceFunction",
    "Design", "Exponential", "Parameters", "Process", "Transform", "compiled",
    "register_covariance", "register_transform",
]
