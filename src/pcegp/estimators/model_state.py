"""Fitted models as JSON and arrays, and back; their files.

Kept are the settings, the scaling, the data and the parameters; what inference computes from
them is computed again on loading, with the same bits.
"""

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np

from pcegp import __version__
from pcegp._typing import FloatArray
from pcegp.errors import ModelFileError, PCEGPError, SettingError
from pcegp.estimators.fitted_model import FittedModel, Output
from pcegp.estimators.settings import Settings, resolve
from pcegp.inference import Data, Inference, UncertainParameters, from_dict
from pcegp.kernels import COVARIANCES, TRANSFORMS, Process
from pcegp.polynomials import FAMILIES, Jacobi
from pcegp.preprocessing import AffineScaler, InputMap, TargetScaler
from pcegp.training import condition

# Attributes of a fitted model that `restore` sets.
RESTORED = frozenset({"feature_names_in_", "n_features_in_", "encoding_", "model_"})


class State(NamedTuple):
    """A fitted model as plain data."""

    header: dict[str, Any]  # JSON
    arrays: dict[str, FloatArray]


def write(path: Path, models: Sequence[Any]) -> Path:
    """Write the file of one fitted model, or of the members of a mixture."""
    from pcegp.io import write_archive  # brings the reader of tables, which few models need

    states = [state_of(model) for model in models]
    write_archive(path, *(states[0] if len(states) == 1 else _joined(states)))
    return path


def read(path: Path, kind: type[Any], max_gb: float) -> list[Any]:
    """Read one model of a kind, or the members of a mixture."""
    from pcegp.io import read_archive

    header, arrays = read_archive(path, max_gb)
    states = _separated(header, arrays) if "members" in header else [State(header, arrays)]
    models = []
    for state in states:
        try:
            model = kind(**_parameters_of(state.header))
        except (TypeError, KeyError, ValueError, AttributeError) as error:
            raise ModelFileError(f"{path} was made with unknown settings: {error}") from error
        models.append(restore(model, state, max_gb))
    return models


def _joined(states: Sequence[State]) -> State:
    arrays = {f"{k}.{name}": array for k, state in enumerate(states)
              for name, array in state.arrays.items()}
    return State({"members": [state.header for state in states]}, arrays)


def _separated(header: Mapping[str, Any], arrays: Mapping[str, FloatArray]) -> list[State]:
    """Take apart what `_joined` put together."""
    members = header["members"]
    if not isinstance(members, list) or not members:
        raise ModelFileError("the file does not hold a whole model: it has no members")
    return [
        State(member, {name.removeprefix(f"{k}."): array for name, array in arrays.items()
                       if name.startswith(f"{k}.")})
        for k, member in enumerate(members)
    ]


def _plain(name: str, value: Any) -> Any:
    """Write a parameter as JSON."""
    registries: tuple[Mapping[Any, Any], ...] = (FAMILIES, COVARIANCES, TRANSFORMS)
    for known in registries:
        part = known.get(getattr(value, "name", None))
        if part is not None and part == value:
            return part.name
    if isinstance(value, Jacobi):
        return {"jacobi": [value.alpha, value.beta]}
    if isinstance(value, Inference):
        return {"inference": value.to_dict()}
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
    """Read a parameter from JSON."""
    if isinstance(value, dict):
        if "tuple" in value:
            return tuple(_parameter(item) for item in value["tuple"])
        if "inference" in value:
            return from_dict(value["inference"])
        return Jacobi(*map(float, value["jacobi"]))
    return [_parameter(item) for item in value] if isinstance(value, list) else value


def _parameters_of(header: Mapping[str, Any]) -> dict[str, Any]:
    # Up to format 4 every step of training saw every row.
    params = {"warm_up_rows": None, **header["params"]}
    return {name: _parameter(value) for name, value in params.items()}


def state_of(model: Any) -> State:
    """Describe a fitted model by plain data."""
    fitted: FittedModel = model.model_
    params = {name: _plain(name, value) for name, value in model.get_params(deep=False).items()}
    inputs, scaler, data = fitted.inputs, fitted.inputs.scaler, fitted.outputs[0].base.data
    if not isinstance(scaler, AffineScaler):
        raise SettingError("a fitted input_scaler of your own cannot be kept in a model file")
    arrays = {
        "X": data.X, "weights": data.weights, "active": inputs.active.astype(float),
        "constants": inputs.constants, "lower": inputs.lower, "upper": inputs.upper,
        "exponent": scaler.exponent.astype(float), "center": scaler.center,
        "factor": scaler.factor,
    }
    for k, out in enumerate(fitted.outputs):
        arrays |= {f"theta.{k}": out.base.theta, f"y.{k}": out.base.data.y}
        if isinstance(out.posterior, UncertainParameters):
            arrays |= {f"draw.{k}.{i}": v for i, v in enumerate(out.posterior.others.thetas)}
            arrays[f"usual.{k}"] = np.array([out.posterior.typical_ratio])
        arrays |= {f"history.{k}.{name}": values for name, values in out.history.items()}
        arrays |= {f"checkpoint.{k}.{step}": theta for step, theta in out.checkpoints.items()}
    table = getattr(model, "encoding_", None)
    targets = [out.target for out in fitted.outputs]
    header = {
        "pcegp": __version__,
        "params": params,
        "features": None if fitted.names is None else list(fitted.names),
        "one_output": fitted.one_output,
        "n_outputs": len(targets),
        "n_iter": int(fitted.n_iter),
        "encoding": None if table is None else table.as_dict(),
        "shift": float(scaler.shift),
        "targets": [{"exponent": int(t.exponent), "center": t.center, "width": t.width,
                     "origin": t.origin} for t in targets],
        "fit_info": [{key: _plain(key, value) for key, value in out.info.items()}
                     for out in fitted.outputs],
    }
    return State(header, arrays)


def restore(model: Any, state: State, max_gb: float) -> Any:
    """Make a model fitted that was made with the parameters of a state.

    A model that needs more than some `max_gb` to be computed again is refused.
    """
    try:
        with np.errstate(all="ignore"):
            return _restore(model, *state, max_gb)
    except PCEGPError as error:
        raise ModelFileError(f"the file does not hold a model that works: {error}") from error
    except (ValueError, KeyError, TypeError, IndexError, AttributeError, OverflowError) as error:
        raise ModelFileError(
            f"the file does not hold a whole model: {type(error).__name__} {error}"
        ) from error


def _restore(
    model: Any, header: dict[str, Any], arrays: dict[str, FloatArray], max_gb: float
) -> Any:
    params = model.get_params(deep=False)
    settings = resolve({**params, "max_basis_gb": min(params["max_basis_gb"], max_gb)})
    _check(all(np.isfinite(array).all() for name, array in arrays.items()
               if not name.startswith("history")), "numbers that are not finite")
    inputs = _inputs(header, arrays)
    X, weights = np.asfortranarray(arrays["X"]), arrays["weights"]
    d = len(inputs.lower)
    _check(X.ndim == 2 and len(X) > 0 and X.shape[1] == d, "inputs of another shape")
    held = header["n_outputs"] * settings.options.inference.bytes_held(len(X), d)
    _check(held <= max_gb * 1e9, f"{len(X):,} rows, too many for max_gb={max_gb:g}")
    _check(weights.shape == (len(X),) and bool((weights > 0).all()), "weights that cannot be")
    process, one_output = settings.process(X), bool(header["one_output"])
    outputs = tuple(_output(header, arrays, k, process, X, settings)
                    for k in range(header["n_outputs"]))
    _check(len(header["targets"]) == len(outputs) > 0 and (not one_output or len(outputs) == 1),
           "no outputs")
    names = None
    if header["features"] is not None:
        names = tuple(map(str, header["features"]))
        _check(len(names) == len(inputs.active), "names of another number")
        model.feature_names_in_ = np.array(names, dtype=object)
    if header.get("encoding") is not None:
        from pcegp.io import encoding_from_dict

        model.encoding_ = encoding_from_dict(header["encoding"])
        _check(len(model.encoding_.names) == len(inputs.active), "an encoding of other columns")
    model.n_features_in_ = len(inputs.active)
    model.model_ = FittedModel(inputs, outputs, one_output, names, int(header["n_iter"]),
                               settings.options)
    return model


def _inputs(header: Mapping[str, Any], arrays: Mapping[str, FloatArray]) -> InputMap:
    active = arrays["active"] == 1.0
    for name in ("lower", "upper", "exponent", "center", "factor"):
        _check(arrays[name].shape == (max(int(active.sum()), 1),), f"{name!r} of another shape")
    _check(arrays["constants"].shape == active.shape, "constants of another shape")
    scaler = AffineScaler(arrays["exponent"].astype(np.int64), arrays["center"],
                          arrays["factor"], float(header["shift"]))
    return InputMap(active, arrays["constants"], scaler, arrays["lower"], arrays["upper"])


def _output(
    header: Mapping[str, Any], arrays: Mapping[str, FloatArray], k: int, process: Process,
    X: FloatArray, settings: Settings,
) -> Output:
    theta, y = arrays[f"theta.{k}"], arrays[f"y.{k}"]
    checkpoints = {int(name.split(".")[2]): values for name, values in arrays.items()
                   if name.startswith(f"checkpoint.{k}.")}
    draws = tuple(arrays[f"draw.{k}.{i}"] for i in range(len(arrays)) if f"draw.{k}.{i}" in arrays)
    for vector in (theta, *checkpoints.values(), *draws):
        _check(vector.shape == (process.n_parameters,), "parameters of another number")
    _check(y.shape == (len(X),), "targets of another number")
    ratio = float(arrays[f"usual.{k}"].item()) if f"usual.{k}" in arrays else None
    _check(ratio is None or ratio >= 0.0, "a negative variance")
    t = header["targets"][k]
    target = TargetScaler(int(t["exponent"]), float(t["center"]), float(t["width"]),
                          float(t.get("origin", 0.0)))
    _check(bool(np.isfinite(target.mean(y)).all()), "targets beyond all numbers")
    data = Data(X, y, arrays["weights"])
    posterior, base = condition(process, data, theta, settings.options, draws, ratio)
    history = {name.split(".", 2)[2]: values for name, values in arrays.items()
               if name.startswith(f"history.{k}.")}
    return Output(target, posterior, base, history, checkpoints, header["fit_info"][k])


def _check(right: bool, what: str) -> None:
    if not right:
        raise ModelFileError(f"it has {what}")
