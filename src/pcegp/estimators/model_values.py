"""Checks of the values in a model file, before anything is computed from them.

Anyone can compute the digest of a forged file, so a whole file may still hold wrong values. What
passes here gives a model that predicts numbers and describes a training that is possible.
"""

from collections.abc import Callable, Mapping, Sequence
from math import isfinite
from typing import Any

import numpy as np

from pcegp._typing import FloatArray
from pcegp.errors import ModelFileError
from pcegp.kernels import Process
from pcegp.preprocessing import MONOTONE, AffineScaler, InputMap, TargetScaler
from pcegp.training import Options

# Of arrays of one output.
_KINDS = ("theta", "y", "member", "map", "usual", "unexplained", "draw", "history", "checkpoint")
_HISTORY = {"loss", "nll", "loo_rmse", "loo_nll"}
_INPUTS = ("lower", "upper", "exponent", "center", "factor")
_LARGEST_EXPONENT = 1100  # of the power of two of a float64, its smallest ones included
_LARGEST_POWER = 10.0  # of a monotone map
_ROUNDING = 1e-6  # by which a row may lie outside its own box


def check(right: bool, what: str) -> None:
    """Refuse a file if a condition does not hold; `what` names what the file has."""
    if not right:
        raise ModelFileError(f"it has {what}")


def _is_number(value: Any) -> bool:
    return isinstance(value, (int, float)) and not isinstance(value, bool) and isfinite(value)


def _is_positive(value: Any) -> bool:
    return _is_number(value) and value > 0


def _is_count(value: Any) -> bool:
    return isinstance(value, int) and not isinstance(value, bool) and value >= 0


def _is_bool(value: Any) -> bool:
    return isinstance(value, bool)


def _is_exponent(value: Any) -> bool:
    return _is_count(abs(value)) and abs(value) <= _LARGEST_EXPONENT


_TARGET: dict[str, Callable[[Any], bool]] = {
    "exponent": _is_exponent, "center": _is_number, "width": _is_positive, "origin": _is_number,
}
_MOST_BENT = 1e3
_LATER = {"target_bend"}  # came with format 8
_MAP_ROWS = 5  # of the columns of a monotone map
_MOST_MEMBERS = 100
_MEMBER: dict[str, Callable[[Any], bool]] = {
    "covariance": lambda value: isinstance(value, (list, tuple)) and all(
        isinstance(name, str) for name in value),
    "input_map": lambda value: value in MONOTONE,
    "noise_degree": _is_count,
    "target_bend": lambda value: _is_number(value) and abs(value) <= _MOST_BENT,
    "penalty": lambda value: value is None or _is_positive(value),
    "noise_penalty": lambda value: value is None or _is_positive(value),
    "varying": lambda value: value is None or (
        isinstance(value, (list, tuple)) and all(_is_count(each) for each in value)),
    "log_evidence": lambda value: value is None or _is_number(value),
    "weight": lambda value: _is_number(value) and 0.0 <= value <= 1.0,
    "converged": _is_bool,
}


def _are_members(value: Any) -> bool:
    """Tell whether these are descriptions of candidates, as a fit gives them."""
    return isinstance(value, list) and all(
        isinstance(each, dict) and each.keys() | _LATER == _MEMBER.keys()
        and all(_MEMBER[key](each[key]) for key in each) for each in value
    )


_INFO: dict[str, Callable[[Any], bool]] = {
    "condition_number": lambda value: value is None or _is_positive(value),
    "jitter": lambda value: _is_number(value) and value >= 0,
    "n_jittered_steps": _is_count,
    "n_rate_reductions": _is_count,
    "n_factorisations": _is_count,
    "fell_back_to_best": _is_bool,
    "noise_free": _is_bool,
    "interrupted": _is_bool,
    "converged": _is_bool,
    "members": _are_members,
    "compared": _are_members,
}


def check_parameters(params: Mapping[str, Any]) -> None:
    """Check the settings that only a fit or a drawing would look at."""
    seed = params["random_state"]
    check(seed is None or (_is_count(seed) and seed < 2**32), f"random_state={seed!r}")
    check(isinstance(params["verbose"], (bool, int)), f"verbose={params['verbose']!r}")
    check(params["input_scaler"] in ("minmax", "standard", "none"),
          f"input_scaler={params['input_scaler']!r}")


def by_output(
    arrays: Mapping[str, FloatArray], header: Mapping[str, Any]
) -> list[dict[str, dict[str, FloatArray]]]:
    """Sort the arrays of each output: by kind, and by what follows its number in the name."""
    count = header["n_outputs"]
    check(_is_count(count) and count == len(header["targets"]) == len(header["fit_info"]) > 0,
          "no outputs, or not those it describes")
    check(_is_bool(header["one_output"]) and (count == 1 or not header["one_output"]),
          "another number of outputs")
    found: list[dict[str, dict[str, FloatArray]]] = [
        {kind: {} for kind in _KINDS} for _ in range(count)
    ]
    others = {"X", "weights", "active", "constants", *_INPUTS}
    for name, array in arrays.items():
        kind, _, rest = name.partition(".")
        if kind in _KINDS:
            number, _, rest = rest.partition(".")
            check(number.isdecimal() and int(number) < count, f"an array {name!r} of no output")
            found[int(number)][kind][rest] = array
        else:
            check(name in others, f"an array {name!r} that no model has")
    return found


def check_training(
    header: Mapping[str, Any], of_outputs: Sequence[Mapping[str, Mapping[str, FloatArray]]],
    options: Options,
) -> None:
    """Check steps: those made, those of the histories and those of the checkpoints."""
    n_iter, longest = header["n_iter"], 0
    check(_is_count(n_iter) and n_iter <= options.max_iter,
          f"n_iter={n_iter!r} beside max_iter={options.max_iter}")
    for parts in of_outputs:
        check(set(parts["history"]) == _HISTORY, "no history")
        shapes = {values.shape for values in parts["history"].values()}
        check(len(shapes) == 1, "histories of different lengths")
        (shape,) = shapes
        check(len(shape) == 1 and shape[0] > 0, "no history")
        longest = max(longest, shape[0] - 1)
        steps = [step for step in parts["checkpoint"]
                 if not step.isdecimal() or int(step) not in options.checkpoints]
        check(not steps, f"a checkpoint {steps[:1]} that was not asked for")
    check(longest == n_iter, f"n_iter={n_iter} beside a history of {longest} steps")


def check_descriptions(header: Mapping[str, Any]) -> None:
    """Check what is told to the user, and names."""
    for info in header["fit_info"]:
        check(isinstance(info, dict) and "interrupted" in info and all(
            key in _INFO and _INFO[key](value) for key, value in info.items()
        ), "a fit_info that no fit gives")
    for names in (header["features"], header.get("labels")):
        if names is not None:
            check(isinstance(names, list) and all(isinstance(name, str) for name in names),
                  "names that are no text")
            "".join(names).encode()  # a UnicodeEncodeError, as any ValueError, is a refusal
    encoding = header.get("encoding")
    if encoding is not None:
        check(all(_is_number(value) for value in encoding["medians"].values()),
              "a median that is no number")
        from pcegp.io import encoding_from_dict  # few models come from tables

        names = encoding_from_dict(encoding).names
        check(header["features"] in (None, names), "an encoding of other columns")


def inputs(header: Mapping[str, Any], arrays: Mapping[str, FloatArray]) -> InputMap:
    """Make the map of the inputs from sound values."""
    active = arrays["active"] == 1.0
    check(active.ndim == 1 and bool((active | (arrays["active"] == 0.0)).all()),
          "columns that are neither used nor ignored")
    for name in _INPUTS:
        check(arrays[name].shape == (max(int(active.sum()), 1),), f"{name!r} of another shape")
    check(arrays["constants"].shape == active.shape, "constants of another shape")
    lower, upper, exponent, center, factor = (arrays[name] for name in _INPUTS)
    check(bool((np.abs(exponent) <= _LARGEST_EXPONENT).all() and (exponent % 1.0 == 0.0).all()),
          "exponents out of range")
    check(bool((factor > 0.0).all()), "inputs of no width")
    check(bool((lower <= upper).all()), "a box whose lower corner is above")
    shift = header["shift"]
    check(_is_number(shift), f"shift={shift!r}")
    scaler = AffineScaler(exponent.astype(np.int64), center, factor, float(shift))
    return InputMap(active, arrays["constants"], scaler, lower, upper)


def check_rows(X: FloatArray, weights: FloatArray, inputs: InputMap) -> None:
    """Check scaled rows (n, d) and their weights (n,)."""
    check(X.ndim == 2 and len(X) > 0 and X.shape[1] == len(inputs.lower), "inputs of another shape")
    slack = _ROUNDING * np.maximum(np.abs(inputs.lower), np.abs(inputs.upper))
    check(bool(((inputs.lower - slack <= X) & (inputs.upper + slack >= X)).all()),
          "rows outside their own box")
    check(weights.shape == (len(X),) and bool((weights > 0.0).all()), "weights that cannot be")


def target(described: Mapping[str, Any], y: FloatArray, n: int) -> TargetScaler:
    """Make the scaler of standardised targets y (n,) from sound values."""
    t = {"origin": 0.0, **described}  # the origin came with format 3
    check(y.shape == (n,), "targets of another number")
    for name, is_right in _TARGET.items():
        check(is_right(t[name]), f"a target of {name} {t[name]!r}")
    scaler = TargetScaler(t["exponent"], float(t["center"]), float(t["width"]), float(t["origin"]))
    check(bool(np.isfinite(scaler.mean(y)).all() and np.isfinite(scaler.deviation(np.ones(1))[0])),
          "targets beyond all numbers")
    return scaler


def check_structures(
    structures: Any, parts: Mapping[str, Mapping[str, FloatArray]], d: int
) -> None:
    """Check the members that predict one output together: maps, weights and numbers."""
    check(isinstance(structures, list) and 0 < len(structures) <= _MOST_MEMBERS,
          "no members that predict")
    for number, structure in enumerate(structures):
        check(isinstance(structure, dict) and structure.keys() | _LATER == {
            "covariance", "input_map", "noise_degree", "target_bend", "weight"
        } and all(_MEMBER[key](structure[key]) for key in structure), "a member of no known kind")
        columns = parts["map"].get(str(number))
        check((columns is None) == (structure["input_map"] == "linear"), "a map without its values")
        if columns is not None:
            check(columns.shape == (_MAP_ROWS, d), "a map of another shape")
            _, unit, power, lowest, highest = columns
            check(bool((unit > 0.0).all() and (lowest <= highest).all()
                       and (np.abs(power) <= _LARGEST_POWER).all()), "a map that is none")
    check(abs(sum(structure["weight"] for structure in structures) - 1.0) < _ROUNDING,
          "weights that do not add up to 1")
    check({int(i) for i in parts["member"]} == set(range(1, len(structures)))
          and {int(i) for i in parts["map"]} <= set(range(len(structures))),
          "another number of members")


def check_theta(theta: FloatArray, process: Process) -> None:
    """Check a parameter vector."""
    check(theta.shape == (process.n_parameters,), "parameters of another number")
    lower, upper = process.bounds()
    check(bool(((lower <= theta) & (theta <= upper)).all()), "parameters outside their bounds")
