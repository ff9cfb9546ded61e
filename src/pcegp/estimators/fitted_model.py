"""A fitted model: everything that training made, in one frozen object.

n training rows, m new rows, D columns as given, d <= D columns that vary, t outputs.
Columns and results are in the user's units; what posteriors see is scaled.
"""

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, replace
from typing import Any, Self

import numpy as np

from pcegp._typing import FloatArray
from pcegp.errors import ExtrapolationWarning, NumericalWarning, SettingError, warn
from pcegp.inference import (
    Averaged,
    Conditioned,
    MappedTarget,
    Posterior,
    UncertainParameters,
)
from pcegp.numerics import check_memory
from pcegp.preprocessing import InputMap, TargetMap, TargetScaler
from pcegp.training import Options, condition

# Square matrices that drawing by eigenvalues holds: the covariance, its vectors, a copy that is
# scaled, and what LAPACK works on.
_OF_EIGENVALUES = 6


@dataclass(frozen=True)
class Output:
    """One target of a fitted model."""

    target: TargetScaler
    posterior: Posterior  # what predicts
    history: dict[str, FloatArray]  # by step; leave-one-out scores in the target's units
    checkpoints: dict[int, FloatArray]  # parameters by step
    info: dict[str, Any]  # what a user should know about the numerics

    @property
    def base(self) -> Conditioned:
        """The process at the trained parameters; of several members, that of the first."""
        return self.posterior.base

    @property
    def target_map(self) -> TargetMap | None:
        """The map of the target that the base describes; None if it is the target itself."""
        first = self.posterior
        if isinstance(first, Averaged):
            first = first.members[0]
        return first.target_map if isinstance(first, MappedTarget) else None

    def covariance(self, standardised: FloatArray, what: str) -> FloatArray:
        """Bring a covariance to squared units of the target, with a warning if these are none.

        The square of 1e200 is no floating-point number, nor is that of 1e-200.
        """
        values = self.target.covariance(standardised)
        if not np.isfinite(values).all() or (standardised.any() and not values.any()):
            warn(f"{what} is beyond the range of floating-point numbers, so it holds inf or 0: "
                 "give the target in another unit", NumericalWarning)
        return values

    def at_checkpoint(self, step: int, options: Options) -> Self:
        """Go back to the parameters after some steps."""
        base = self.base
        earlier = condition(base.process, base.data, self.checkpoints[step], options)
        history = {name: values[: step + 1] for name, values in self.history.items()}
        return replace(self, posterior=earlier, history=history)


@dataclass(frozen=True)
class FittedModel:
    """Maps, posteriors and names of a fitted `PCEGPRegressor`."""

    inputs: InputMap
    outputs: tuple[Output, ...]
    one_output: bool  # whether the target was a vector
    names: tuple[str, ...] | None  # of all D columns, where the user gave them
    n_iter: int
    options: Options
    # Of all D columns of a frame whose names are no text, such as numbers; only their order counts.
    labels: tuple[str, ...] | None = None

    @property
    def called(self) -> tuple[str, ...] | None:
        """Names or labels of all D columns; None if they only have places."""
        return self.labels if self.names is None else self.names

    @property
    def varying_names(self) -> tuple[str, ...]:
        """Names of the features that vary; one for all where none does."""
        active = np.flatnonzero(self.inputs.active).tolist()
        if not active:
            return ("constant",)
        return tuple(f"x{j + 1}" if self.names is None else self.names[j] for j in active)

    def training_inputs(self) -> FloatArray:
        """Columns (n, D) of the training, without rows of zero weight."""
        return self.inputs.inverse(self.outputs[0].base.data.X)

    def training_target(self, output: int = 0) -> FloatArray:
        """Target (n,) of the training, without rows of zero weight."""
        return self.outputs[output].target.mean(self.outputs[output].posterior.targets)

    def joined(self, parts: Sequence[FloatArray], axis: int = -1) -> FloatArray:
        """Return one output as it is, several along a new axis."""
        return parts[0] if self.one_output else np.stack(parts, axis=axis)

    def scaled(self, columns: FloatArray) -> FloatArray:
        """Bring columns (m, D) to the model's units, with a warning about rows outside."""
        scaled = self.inputs.transform(columns)
        outside = int(self.inputs.outside(columns, scaled).sum())
        if outside:
            warn(f"{outside} of {len(columns)} rows lie outside the range of the training inputs: "
                 "scale and noise are those at the edge of that range", ExtrapolationWarning)
        return scaled

    def mean(self, columns: FloatArray) -> FloatArray:
        """Predict the mean (m,) or (m, t) at columns (m, D)."""
        scaled = self.scaled(columns)
        return self.joined([out.target.mean(out.posterior.mean(scaled)) for out in self.outputs])

    def mean_and_deviation(
        self, columns: FloatArray, include_noise: bool
    ) -> tuple[FloatArray, FloatArray]:
        """Predict mean and standard deviation at columns (m, D), each as `mean`."""
        return self._spread(self.scaled(columns), include_noise)

    def after_steps(
        self, columns: FloatArray, steps: Iterable[int]
    ) -> dict[int, tuple[FloatArray, FloatArray]]:
        """Predict mean and deviation, with noise, by the model after each number of steps.

        Training may have ended earlier; then it is the model itself. Nobody is warned of rows
        outside the training range.
        """
        scaled = self.inputs.transform(columns)
        models = {step: self.at_checkpoint(step) if step < self.n_iter else self for step in steps}
        return {step: model._spread(scaled, True) for step, model in models.items()}

    def _spread(self, scaled: FloatArray, include_noise: bool) -> tuple[FloatArray, FloatArray]:
        return self._in_units(
            out.posterior.mean_and_variance(scaled, include_noise) for out in self.outputs
        )

    def leave_one_out(self) -> tuple[FloatArray, FloatArray]:
        """Predict mean and deviation of each training target from all others."""
        return self._in_units(out.posterior.leave_one_out() for out in self.outputs)

    def _in_units(
        self, results: Iterable[tuple[FloatArray, FloatArray]]
    ) -> tuple[FloatArray, FloatArray]:
        """Turn means and variances of each output into means and deviations of its target."""
        means, deviations = [], []
        for out, (mean, variance) in zip(self.outputs, results, strict=True):
            means.append(out.target.mean(mean))
            deviations.append(out.target.deviation(np.sqrt(variance)))
        return self.joined(means), self.joined(deviations)

    def mean_and_covariance(
        self, columns: FloatArray, include_noise: bool
    ) -> tuple[FloatArray, FloatArray]:
        """Predict mean as `mean`, and covariance (m, m) or (m, m, t), at columns (m, D)."""
        t = len(self.outputs)
        self.check_joint(len(columns), max(t + 2, 2 * t), "a covariance")
        scaled = self.scaled(columns)
        means, covariances = [], []
        for out in self.outputs:
            mean, covariance = out.posterior.mean_and_covariance(scaled, include_noise)
            means.append(out.target.mean(mean))
            covariances.append(out.covariance(covariance, "the covariance"))
        return self.joined(means), self.joined(covariances)

    def check_joint(self, n_rows: int, n_matrices: int, what: str, more: int = 0) -> None:
        """Refuse a joint prediction of rows that needs more memory than is free.

        Counted are `n_matrices` square matrices of the rows; twice their covariance with the
        training rows, and their basis; and `more` bytes.
        """
        base = self.outputs[0].base
        beside = 2 * (len(base.data.y) + base.process.basis.n_terms)
        needed = 8 * n_rows * (n_matrices * n_rows + beside) + more
        check_memory(needed, f"{what} at {n_rows:,} rows")

    def check_draws(self, n_rows: int, count: int, n_matrices: int) -> None:
        """Refuse draws at some rows that need more memory than is free; see `check_joint`."""
        results = 8 * n_rows * count * (2 * len(self.outputs) + 3)
        self.check_joint(n_rows, n_matrices, f"to draw {count:,} functions", results)

    def sample(
        self, columns: FloatArray, count: int, rng: np.random.Generator, include_noise: bool
    ) -> FloatArray:
        """Draw functions at columns (m, D): (m, count) or (m, t, count)."""
        self.check_draws(len(columns), count, _OF_EIGENVALUES)
        scaled = self.scaled(columns)
        draws = []
        for out in self.outputs:
            drawn = out.posterior.sample(scaled, count, rng, include_noise)
            draws.append(out.target.mean(drawn))
        return self.joined(draws, axis=1)

    def at_checkpoint(self, step: Any) -> Self:
        """Go back to the model after some steps."""
        known = sorted(set.intersection(*(set(out.checkpoints) for out in self.outputs)))
        if step not in known:
            advice = (f"choose from {known}" if known
                      else "fit with checkpoints=[...], the numbers of steps to keep")
            raise SettingError(f"checkpoint {step!r} was not kept: {advice}")
        outputs = tuple(out.at_checkpoint(step, self.options) for out in self.outputs)
        return replace(self, outputs=outputs, n_iter=step)

    def without_draws(self) -> Self:
        """Take the trained parameters for certain; itself where there are no draws."""
        if not any(isinstance(out.posterior, UncertainParameters) for out in self.outputs):
            return self
        outputs = tuple(replace(out, posterior=out.base)
                        if isinstance(out.posterior, UncertainParameters) else out
                        for out in self.outputs)
        return replace(self, outputs=outputs)


def difference(models: Sequence[FittedModel]) -> str:
    """Say how the tables differ that some models were fitted to; empty if they may be one.

    Columns without names go with those of any names, unless these are 0, 1, 2, … in another order.
    """
    shapes = {(len(model.inputs.active), len(model.outputs), model.one_output) for model in models}
    if len(shapes) > 1:
        each = "; ".join(f"{columns} columns and {outputs} outputs"
                         for columns, outputs, _ in sorted(shapes))
        return f"different tables ({each})"
    places = tuple(map(str, range(len(models[0].inputs.active))))
    known = {model.called for model in models}
    named = known - {None}
    if None in known and any(set(names or ()) == set(places) for names in named):
        named.add(places)
    return "columns of other names, or in another order" if len(named) > 1 else ""
