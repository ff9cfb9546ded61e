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
    parts = [covariances, f"{process.input_map.name} input map", _scale(out.base, members[0])]
    if out.target_map is not None:
        parts.insert(0, f"of {target_text(out)}")
    text = "; ".join([*parts, _noise(out)])
    if len(members) == 1:
        return text
    others = "another model" if len(members) == 2 else f"{len(members) - 1} other models"
    text += f"\naveraged with {others}; this one weighs {members[0]['weight']:.0%}"
    free = sum(member["weight"] for member in members if member["penalty"] is not None)
    some = any(member["penalty"] is None for member in members)
    return f"{text}, those whose scale varies {free:.0%}" if free and some else text


def target_text(out: Output) -> str:
    """Name what the process describes: the target, or a logarithm of its distance from an end."""
    target_map = out.target_map
    if target_map is None:
        return "the target"
    # log(1 + b t) is, but for a constant, the logarithm of the distance from here.
    low, high = target_map.lowest, target_map.highest
    beyond = (high - low) / abs(target_map.bend)
    if target_map.bend < 0.0:
        return f"-log({float(out.target.mean(np.array(high + beyond))):.4g} - target)"
    origin = float(out.target.mean(np.array(low - beyond)))
    return f"log(target {'+' if origin < 0.0 else '-'} {abs(origin):.4g})"


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
    variances = out.base.noise
    if out.target_map is not None:
        variances = out.posterior.noise_variance(out.base.data.X)
    deviations = np.sqrt(variances)
    if deviations.max() < _LEAST_NOISE:
        return "next to no noise"
    low, high = (float(out.target.deviation(end)) for end in (deviations.min(), deviations.max()))
    basis = out.base.process.noise_basis
    if not out.base.parameters.noise[~basis.is_constant].any():
        if out.target_map is not None:
            return f"noise in proportion (deviation {low:.3g} to {high:.3g})"
        return f"constant noise (deviation {high:.3g})"
    return f"noise of degree {basis.degree} (deviation {low:.3g} to {high:.3g})"
