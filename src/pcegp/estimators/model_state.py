"""Fitted models as JSON and arrays, and back; their files.

Kept are the settings, the scaling, the data and the parameters; what inference computes from
them is computed again on loading, with the same bits.
"""

from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager, nullcontext
from pathlib import Path
from typing import Any, NamedTuple, Self

import numpy as np

from pcegp import __version__
from pcegp._kinds import Kind
from pcegp._progress import bar
from pcegp._typing import FloatArray
from pcegp.errors import ModelFileError, PCEGPError, SettingError
from pcegp.estimators import model_values
from pcegp.estimators.fitted_model import FittedModel, Output, difference
from pcegp.estimators.model_values import check as _check
from pcegp.estimators.settings import Settings, resolve
from pcegp.inference import (
    Averaged,
    Data,
    Inference,
    MappedTarget,
    Posterior,
    UncertainParameters,
    averaged,
    from_dict,
    mapped,
)
from pcegp.kernels import COVARIANCES, TRANSFORMS, Process
from pcegp.numerics import check_memory
from pcegp.polynomials import FAMILIES, Jacobi
from pcegp.preprocessing import AffineScaler, InputMap, MonotoneMap, TargetMap, TargetScaler
from pcegp.preprocessing.validation import check_number
from pcegp.training import Form, condition

# Attributes of a fitted model that `restore` sets.
RESTORED = frozenset({"feature_names_in_", "n_features_in_", "encoding_", "model_"})


class State(NamedTuple):
    """A fitted model as plain data."""

    header: dict[str, Any]  # JSON
    arrays: dict[str, FloatArray]


def write(path: Any, models: Sequence[Any], force: bool) -> Path:
    """Write the file of one fitted model, or of the members of a mixture.

    A file of another kind is replaced only by `force`.
    """
    # Brings the reader of tables, which few models need.
    from pcegp.io import output_path, write_archive

    path = output_path(path, Kind.MODEL, force)
    shows = any(model.verbose for model in models)
    with bar(True, None, "saving") if shows else nullcontext():
        states = [state_of(model) for model in models]
        write_archive(path, *(states[0] if len(states) == 1 else _joined(states)))
    return path


def read(path: Any, kind: type[Any], max_gb: float) -> list[Any]:
    """Read one model of a kind, or the members of a mixture."""
    from pcegp.io import named_path, read_archive

    path = named_path(path, ModelFileError)
    max_gb = check_number("max_gb", max_gb, 0.0, open_low=True)
    header, arrays = read_archive(path, max_gb)
    with _refusals():
        states = _separated(header, arrays) if "members" in header else [State(header, arrays)]
    models = []
    for state in states:
        try:
            models.append(kind(**_parameters_of(state.header)))
        except (TypeError, KeyError, ValueError, AttributeError, IndexError) as error:
            raise ModelFileError(f"{path} was made with unknown settings: {error}") from error
    _restore_all(models, states, max_gb, f"to load {path}")
    with _refusals():
        found = difference([model.model_ for model in models])
        _check(not found, f"members of different data: they were fitted to {found}")
    return models


def _joined(states: Sequence[State]) -> State:
    arrays = {f"{k}.{name}": array for k, state in enumerate(states)
              for name, array in state.arrays.items()}
    return State({"members": [state.header for state in states]}, arrays)


def _separated(header: Mapping[str, Any], arrays: Mapping[str, FloatArray]) -> list[State]:
    """Take apart what `_joined` put together."""
    members = header["members"]
    _check(isinstance(members, list) and bool(members), "no members")
    states = [State(member, {}) for member in members]
    for name, array in arrays.items():
        number, _, rest = name.partition(".")
        states[int(number)].arrays[rest] = array
    return states


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
    # Up to format 4 every step of training saw every row; up to format 6 there was Nadam alone.
    params = {"warm_up_rows": None, "optimizer": "nadam", "input_map": "linear",
              "target_map": "linear", "inference": "exact", **header["params"]}
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
    structures = []
    for k, out in enumerate(fitted.outputs):
        members, mine = _members_of(out)
        structures.append([_structure_of(*each) for each in zip(members, mine, strict=True)])
        arrays |= {f"theta.{k}": out.base.theta, f"y.{k}": out.posterior.targets}
        arrays |= {f"member.{k}.{i}": each.base.theta for i, each in enumerate(members) if i}
        maps = {i: each.base.process.input_map for i, each in enumerate(members)}
        arrays |= {f"map.{k}.{i}": np.array(each.columns) for i, each in maps.items()
                   if not each.is_linear}
        if isinstance(out.posterior, Averaged):
            arrays[f"unexplained.{k}"] = np.array([out.posterior.unexplained])
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
        "labels": None if fitted.labels is None else list(fitted.labels),
        "one_output": fitted.one_output,
        "n_outputs": len(targets),
        "n_iter": int(fitted.n_iter),
        "structures": structures,
        "encoding": None if table is None else table.as_dict(),
        "shift": float(scaler.shift),
        "targets": [{"exponent": int(t.exponent), "center": t.center, "width": t.width,
                     "origin": t.origin} for t in targets],
        "fit_info": [dict(out.info) for out in fitted.outputs],
    }
    _check_unchanged(model, header, arrays)
    return State(header, arrays)


def _members_of(out: Output) -> tuple[tuple[Posterior, ...], FloatArray]:
    """List the posteriors that predict together, the base first, with their weights."""
    if isinstance(out.posterior, Averaged):
        return out.posterior.members, out.posterior.weights
    return (out.posterior,), np.ones(1)


def _structure_of(member: Posterior, weight: float) -> dict[str, Any]:
    process = member.base.process
    bend = member.target_map.bend if isinstance(member, MappedTarget) else 0.0
    return {"covariance": [covariance.name for covariance in process.covariances],
            "input_map": process.input_map.name, "noise_degree": int(process.noise_basis.degree),
            "target_bend": bend, "weight": float(weight)}


def _process(
    settings: Settings, X: FloatArray, structure: Mapping[str, Any], columns: FloatArray | None
) -> Process:
    """Make the process of a member: `columns` are those of its map, if it is not linear."""
    form = Form(tuple(structure["covariance"]), structure["input_map"], structure["noise_degree"])
    return settings.process(X, None, form, MonotoneMap.of(structure["input_map"], columns))


def _check_unchanged(model: Any, header: dict[str, Any], arrays: dict[str, FloatArray]) -> None:
    """Refuse to write what could not be read: settings that are not those of the training."""
    settings = resolve(model.get_params(deep=False))
    try:
        model_values.check_training(header, model_values.by_output(arrays, header),
                                    settings.options)
        process = _process(settings, arrays["X"], header["structures"][0][0],
                           arrays.get("map.0.0"))
        model_values.check_theta(arrays["theta.0"], process)
    except ModelFileError as error:
        raise SettingError(
            f"the parameters were changed after fit (it has {error}): set them back, or fit again"
        ) from error


def restore(model: Any, state: State) -> Any:
    """Make a model fitted that was made with the parameters of a state."""
    _restore_all([model], [state], np.inf, "to restore a model")
    return model


@contextmanager
def _refusals() -> Iterator[None]:
    """Refuse the file if its contents make the block fail."""
    try:
        with np.errstate(all="ignore"):
            yield
    except PCEGPError as error:
        raise ModelFileError(f"the file does not hold a model that works: {error}") from error
    except (ValueError, KeyError, TypeError, IndexError, AttributeError, OverflowError) as error:
        raise ModelFileError(
            f"the file does not hold a whole model: {type(error).__name__} {error}"
        ) from error


def _restore_all(
    models: Sequence[Any], states: Sequence[State], max_gb: float, what: str
) -> None:
    """Make models fitted; those that need more than `max_gb` together are refused first."""
    with _refusals():
        contents = [_Contents.of(model, state, max_gb)
                    for model, state in zip(models, states, strict=True)]
        held = sum(each.bytes_held() for each in contents)
        n_rows = max(len(each.X) for each in contents)
        n_matrices = sum(each.n_outputs for each in contents)
        _check(held <= max_gb * 1e9, f"{n_matrices:,} covariances of up to {n_rows:,} rows and "
               f"needs {held / 1e9:.2g} GB, too much for max_gb={max_gb:g}")
    check_memory(held + max(each.bytes_needed() for each in contents), what)
    with _refusals():
        for model, each in zip(models, contents, strict=True):
            each.restore(model)


class _Contents(NamedTuple):
    """Contents of a file about one model, checked as far as can be before any work."""

    header: Mapping[str, Any]
    arrays: Mapping[str, FloatArray]
    of_outputs: list[dict[str, dict[str, FloatArray]]]  # by kind and by what follows the number
    settings: Settings
    inputs: InputMap
    targets: list[TargetScaler]
    X: FloatArray  # (n, d)

    @classmethod
    def of(cls, model: Any, state: State, max_gb: float) -> Self:
        """Check everything but the parameters of the process, which does not exist yet."""
        header, arrays = state
        params = model.get_params(deep=False)
        model_values.check_parameters(params)
        settings = resolve({**params, "max_basis_gb": min(params["max_basis_gb"], max_gb)})
        of_outputs = model_values.by_output(arrays, header)
        model_values.check_training(header, of_outputs, settings.options)
        model_values.check_descriptions(header)
        _check(all(np.isfinite(array).all() for name, array in arrays.items()
                   if not name.startswith("history")), "numbers that are not finite")
        inputs = model_values.inputs(header, arrays)
        X, weights = np.asfortranarray(arrays["X"]), arrays["weights"]
        settings = settings.for_rows(len(X))
        model_values.check_rows(X, weights, inputs)
        targets = [model_values.target(described, parts["y"][""], len(X))
                   for described, parts in zip(header["targets"], of_outputs, strict=True)]
        return cls(header, arrays, of_outputs, settings, inputs, targets, X)

    @property
    def n_outputs(self) -> int:
        return len(self.of_outputs)

    def bytes_held(self) -> int:
        """Count the bytes that the model will hold: matrices, warped rows, bases."""
        n, d = self.X.shape
        warped = 8 * n * d * max(map(len, self.settings.covariances))
        n_draws = sum(len(each["draw"]) for each in self.of_outputs)
        engine = self.settings.options.inference
        n_members = sum(1 + len(each["member"]) for each in self.of_outputs)
        return (n_members * (engine.bytes_held(n, d) + warped) + 2 * n_draws * warped
                + self.settings.bases(n, d)[1])

    def bytes_needed(self) -> int:
        """Count the bytes that conditioning on the data takes beside those."""
        return self.settings.options.inference.bytes_needed(*self.X.shape)

    def restore(self, model: Any) -> None:
        """Compute again what inference makes of the parameters."""
        header, inputs = self.header, self.inputs
        outputs = tuple(self._output(k) for k in range(self.n_outputs))
        names = None
        if header["features"] is not None:
            names = tuple(header["features"])
            _check(len(names) == len(inputs.active), "names of another number")
            model.feature_names_in_ = np.array(names, dtype=object)
        labels = header.get("labels")
        if labels is not None:
            labels = tuple(labels)
            _check(names is None and len(labels) == len(inputs.active), "labels of another number")
        if header.get("encoding") is not None:
            from pcegp.io import encoding_from_dict

            model.encoding_ = encoding_from_dict(header["encoding"])
            _check(len(model.encoding_.names) == len(inputs.active), "an encoding of other columns")
        model.n_features_in_ = len(inputs.active)
        model.model_ = FittedModel(inputs, outputs, header["one_output"], names, header["n_iter"],
                                   self.settings.options, labels)

    def _output(self, k: int) -> Output:
        parts = self.of_outputs[k]
        if "structures" in self.header:
            structures = self.header["structures"][k]
        else:  # up to format 6
            structures = [{**self.settings.form._asdict(), "weight": 1.0}]
        model_values.check_structures(structures, parts, self.X.shape[1])
        thetas = [parts["theta"][""],
                  *(parts["member"][str(i)] for i in range(1, len(structures)))]
        members = [
            self._conditioned(theta, parts["y"][""], parts["map"].get(str(i)), structure,
                              parts if i == 0 else None)
            for i, (theta, structure) in enumerate(zip(thetas, structures, strict=True))
        ]
        posterior = members[0]
        unexplained = float(parts["unexplained"][""].item()) if parts["unexplained"] else 0.0
        _check(unexplained >= 0.0, "a negative variance")
        if len(members) > 1 or unexplained > 0.0:
            weights = np.array([structure["weight"] for structure in structures])
            posterior = averaged(tuple(members), weights, unexplained)
        checkpoints = {int(step): values for step, values in parts["checkpoint"].items()}
        return Output(self.targets[k], posterior, parts["history"], checkpoints,
                      self.header["fit_info"][k])

    def _conditioned(
        self, theta: FloatArray, y: FloatArray, columns: FloatArray | None,
        structure: Mapping[str, Any], parts: Mapping[str, Mapping[str, FloatArray]] | None,
    ) -> Posterior:
        """Condition a member on the data; `parts` may hold draws and checkpoints of the first."""
        process = _process(self.settings, self.X, structure, columns)
        draws: tuple[FloatArray, ...] = ()
        ratio = None
        model_values.check_theta(theta, process)
        if parts is not None:
            draws = tuple(parts["draw"][str(i)] for i in range(len(parts["draw"])))
            for vector in (*parts["checkpoint"].values(), *draws):
                model_values.check_theta(vector, process)
            ratio = float(parts["usual"][""].item()) if parts["usual"] else None
            _check(ratio is None or ratio >= 0.0, "a negative variance")
        weights = self.arrays["weights"]
        target_map = TargetMap.fit(structure.get("target_bend", 0.0), y, weights)
        data = Data(self.X, target_map.transform(y), weights)
        found = condition(process, data, theta, self.settings.options, draws, ratio)
        _check(bool(np.isfinite(found.log_likelihood)), "parameters without a finite likelihood")
        return found if target_map.is_linear else mapped(found.base, target_map, y)
