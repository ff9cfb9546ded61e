"""A fitted model as JSON and arrays, and back.

Kept are the settings, the scaling, the data and the parameters; the Cholesky factor is
computed again on loading, with the same bits.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

from pcegp import __version__
from pcegp.errors import ModelFileError, PCEGPError, SettingError
from pcegp.estimators import settings
from pcegp.inference.exact import Posterior
from pcegp.io.encoding import from_dict
from pcegp.polynomials.families import FAMILIES, Jacobi
from pcegp.preprocessing.inputs import InputMap
from pcegp.preprocessing.scaling import AffineScaler, TargetScaler
from pcegp.training.fit import rebuilt

FloatArray = NDArray[np.float64]
State = tuple[dict[str, Any], dict[str, FloatArray]]


# Attributes of a fitted model that `restore` sets.
RESTORED = frozenset({
    "feature_names_in_", "n_features_in_", "encoding_", "_inputs", "_targets", "active_columns_",
    "_one_output", "posteriors_", "_checkpoints", "n_iter_", "history_", "fit_info_",
    "log_marginal_likelihood_",
})


def _plain(name: str, value: Any) -> Any:
    """A parameter as JSON."""
    if isinstance(value, Jacobi):
        return {"jacobi": [value.alpha, value.beta]}
    for family in FAMILIES.values():
        if isinstance(value, family):
            return family.name
    if isinstance(value, tuple):
        return {"tuple": [_plain(name, item) for item in value]}
    if isinstance(value, list):
        return [_plain(name, item) for item in value]
    if isinstance(value, np.generic):
        value = value.item()
    if value is None or isinstance(value, (bool, int, float, str)):
        return value
    raise SettingError(
        f"{name}={value!r} cannot be kept in a model file: keep such a model with joblib"
    )


def _parameter(value: Any) -> Any:
    """A parameter from JSON."""
    if isinstance(value, dict):
        if "tuple" in value:
            return tuple(_parameter(item) for item in value["tuple"])
        return Jacobi(*map(float, value["jacobi"]))
    return [_parameter(item) for item in value] if isinstance(value, list) else value


def state_of(model: Any) -> State:
    """Header and arrays of a fitted model."""
    inputs: InputMap = model._inputs
    params = {k: _plain(k, v) for k, v in model.get_params(deep=False).items()}
    scaler = inputs.scaler
    if not isinstance(scaler, AffineScaler):
        raise SettingError("a fitted input_scaler of your own cannot be kept in a model file")
    first: Posterior = model.posteriors_[0]
    names = getattr(model, "feature_names_in_", None)
    histories = [model.history_] if model._one_output else model.history_
    infos = [model.fit_info_] if model._one_output else model.fit_info_
    arrays = {
        "X": first.X, "weights": first.weights, "active": inputs.active.astype(float),
        "constants": inputs.constants, "lower": inputs.lower, "upper": inputs.upper,
        "exponent": scaler.exponent.astype(float), "center": scaler.center,
        "factor": scaler.factor,
    }
    for k, posterior in enumerate(model.posteriors_):
        arrays |= {f"theta.{k}": posterior.theta, f"y.{k}": posterior.y}
        if posterior.draws is not None:
            arrays |= {f"draw.{k}.{i}": v for i, v in enumerate(posterior.draws.thetas)}
            arrays[f"usual.{k}"] = np.array([posterior.draws.usual])
        arrays |= {f"history.{k}.{name}": values for name, values in histories[k].items()}
        arrays |= {f"checkpoint.{k}.{step}": theta
                   for step, theta in model._checkpoints[k].items()}
    header = {
        "pcegp": __version__,
        "params": params,
        "features": None if names is None else [str(name) for name in names],
        "one_output": model._one_output,
        "n_outputs": len(model.posteriors_),
        "n_iter": int(model.n_iter_),
        "encoding": encoding.as_dict() if (encoding := getattr(model, "encoding_", None)) else None,
        "shift": float(scaler.shift),
        "targets": [{"exponent": int(t.exponent), "center": t.center, "width": t.width,
                     "origin": t.origin}
                    for t in model._targets],
        "fit_info": [{key: _plain(key, value) for key, value in info.items()} for info in infos],
    }
    return header, arrays


def joined(states: Sequence[State]) -> State:
    """Several models as one state."""
    arrays = {f"{k}.{name}": array for k, (_, part) in enumerate(states)
              for name, array in part.items()}
    return {"members": [header for header, _ in states]}, arrays


def separated(header: Mapping[str, Any], arrays: Mapping[str, FloatArray]) -> list[State]:
    """The states that `joined` put together."""
    members = header["members"]
    if not isinstance(members, list) or not members:
        raise ModelFileError("the file does not hold a whole model: it has no members")
    return [
        (member, {name.removeprefix(f"{k}."): array for name, array in arrays.items()
                  if name.startswith(f"{k}.")})
        for k, member in enumerate(members)
    ]


def parameters_of(header: Mapping[str, Any]) -> dict[str, Any]:
    """What the model was made with."""
    # Up to format 4 every step of training saw every row.
    params = {"warm_up_rows": None, **header["params"]}
    return {name: _parameter(value) for name, value in params.items()}


def restore(
    model: Any, header: Mapping[str, Any], arrays: Mapping[str, FloatArray], max_gb: float
) -> None:
    """Make a fitted model of one that was made with `parameters_of(header)`.

    A model that needs more than some `max_gb` to be computed again is refused.
    """
    try:
        with np.errstate(all="ignore"):
            _restore(model, header, arrays, max_gb)
    except PCEGPError as error:
        raise ModelFileError(f"the file does not hold a model that works: {error}") from error
    except (ValueError, KeyError, TypeError, IndexError, AttributeError, OverflowError) as error:
        raise ModelFileError(
            f"the file does not hold a whole model: {type(error).__name__} {error}"
        ) from error


def _restore(
    model: Any, header: Mapping[str, Any], arrays: Mapping[str, FloatArray], max_gb: float
) -> None:
    params = model.get_params(deep=False)
    resolved = settings.resolve({**params, "max_basis_gb": min(params["max_basis_gb"], max_gb)})
    X, weights = np.asfortranarray(arrays["X"]), arrays["weights"]
    _check(all(np.isfinite(array).all() for name, array in arrays.items()
               if not name.startswith("history")), "numbers that are not finite")
    active = arrays["active"] == 1.0
    width = max(int(active.sum()), 1)
    _check(X.ndim == 2 and len(X) > 0 and X.shape[1] == width, "inputs of another shape")
    _check(len(X) ** 2 * 8 <= max_gb * 1e9, f"{len(X):,} rows, too many for max_gb={max_gb:g}")
    for name in ("lower", "upper", "exponent", "center", "factor"):
        _check(arrays[name].shape == (width,), f"{name!r} of another shape")
    _check(arrays["constants"].shape == active.shape, "constants of another shape")
    _check(weights.shape == (len(X),) and bool((weights > 0).all()), "weights that cannot be")
    structure = resolved.structure(X)
    posteriors, histories, checkpoints = [], [], []
    for k in range(header["n_outputs"]):
        theta, y = arrays[f"theta.{k}"], arrays[f"y.{k}"]
        kept = {int(name.split(".")[2]): values for name, values in arrays.items()
                if name.startswith(f"checkpoint.{k}.")}
        drawn = [arrays[f"draw.{k}.{i}"] for i in range(len(arrays)) if f"draw.{k}.{i}" in arrays]
        for vector in (theta, *kept.values(), *drawn):
            _check(vector.shape == (structure.n_parameters,), "parameters of another number")
        _check(y.shape == (len(X),), "targets of another number")
        usual = float(arrays[f"usual.{k}"].item()) if f"usual.{k}" in arrays else None
        _check(usual is None or usual >= 0.0, "a negative variance")
        posteriors.append(rebuilt(structure, X, y, weights, theta, resolved.n_jobs, drawn, usual))
        checkpoints.append(kept)
        histories.append({name.split(".", 2)[2]: values for name, values in arrays.items()
                          if name.startswith(f"history.{k}.")})
    scaler = AffineScaler(arrays["exponent"].astype(np.int64), arrays["center"],
                          arrays["factor"], float(header["shift"]))
    targets = [TargetScaler(int(t["exponent"]), float(t["center"]), float(t["width"]),
                            float(t.get("origin", 0.0)))
               for t in header["targets"]]
    for posterior, target in zip(posteriors, targets, strict=False):
        _check(bool(np.isfinite(target.mean(posterior.y)).all()), "targets beyond all numbers")
    one = bool(header["one_output"])
    _check(len(targets) == len(posteriors) > 0 and (not one or len(targets) == 1), "no outputs")
    if header["features"] is not None:
        _check(len(header["features"]) == len(active), "names of another number")
        model.feature_names_in_ = np.array([str(n) for n in header["features"]], dtype=object)
    if header.get("encoding") is not None:
        model.encoding_ = from_dict(header["encoding"])
        _check(len(model.encoding_.names) == len(active), "an encoding of other columns")
    model.n_features_in_ = len(active)
    model._inputs = InputMap(active, arrays["constants"], scaler, arrays["lower"], arrays["upper"])
    model._targets, model.active_columns_, model._one_output = targets, active, one
    model.posteriors_, model._checkpoints = posteriors, checkpoints
    model.n_iter_ = int(header["n_iter"])
    model.history_ = histories[0] if one else histories
    model.fit_info_ = header["fit_info"][0] if one else header["fit_info"]
    model._set_likelihood()


def _check(right: bool, what: str) -> None:
    if not right:
        raise ModelFileError(f"it has {what}")
