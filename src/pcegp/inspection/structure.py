"""What a fitted model is made of, in words: chosen by the evidence, or given by the user."""

from typing import Any

import numpy as np

from pcegp.estimators import Output
from pcegp.inference import Conditioned

# Of the deviation of the target: twice the least that the default allows.
_LEAST_NOISE = 2e-3


def structure_text(out: Output) -> str:
    """Name covariance functions, map of the inputs, scale and noise, in one or two lines.

    Of an average, they are those of the member with the largest weight.
    """
    process, members = out.base.process, out.info.get("members") or [{}]
    covariances = " + ".join(covariance.name for covariance in process.covariances)
    text = "; ".join([covariances, f"{process.input_map.name} input map",
                      _scale(out.base, members[0]), _noise(out)])
    if len(members) == 1:
        return text
    others = "another model" if len(members) == 2 else f"{len(members) - 1} other models"
    text += f"\naveraged with {others}; this one weighs {members[0]['weight']:.0%}"
    free = sum(member["weight"] for member in members if member["penalty"] is not None)
    some = any(member["penalty"] is None for member in members)
    return f"{text}, those whose scale varies {free:.0%}" if free and some else text


def _varies(base: Conditioned) -> bool:
    """Tell whether the local scale is anything but constant."""
    return bool(base.parameters.coefficients[:, :, ~base.process.basis.is_constant].any())


def _scale(base: Conditioned, member: dict[str, Any]) -> str:
    if not _varies(base):
        return "constant scale"
    degree, penalty = base.process.basis.degree, member.get("penalty")
    return f"scale of degree {degree}" + ("" if penalty is None else f" (penalty {penalty:g})")


def _noise(out: Output) -> str:
    """Describe the noise by its deviation at the training rows, in units of the target."""
    deviations = np.sqrt(out.base.noise)
    if deviations.max() < _LEAST_NOISE:
        return "next to no noise"
    low, high = (float(out.target.deviation(end)) for end in (deviations.min(), deviations.max()))
    basis = out.base.process.noise_basis
    if not out.base.parameters.noise[~basis.is_constant].any():
        return f"constant noise (deviation {high:.3g})"
    return f"noise of degree {basis.degree} (deviation {low:.3g} to {high:.3g})"
