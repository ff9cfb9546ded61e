"""Covariance of a PCEGP: covariance functions, transforms, local scale, warp and noise."""
