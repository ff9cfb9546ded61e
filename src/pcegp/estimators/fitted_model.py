"""What a fitted model can do: predict, sample, leave one out, show its scale and noise."""

from __future__ import annotations

import copy
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any, Self, TypeGuard, cast

import numpy as np
from numpy.typing import ArrayLike, NDArray
from sklearn.utils import check_random_state
from sklearn.utils.validation import check_is_fitted, validate_data

from pcegp.errors import ExtrapolationWarning, ModelFileError, SettingError, warn
from pcegp.estimators import model_state as saved
from pcegp.estimators.conformal import CrossFit, cross_fit
from pcegp.inference.exact import Posterior
from pcegp.io import archive
from pcegp.polynomials.expansion import Expansion
from pcegp.preprocessing.inputs import InputMap
from pcegp.preprocessing.scaling import TargetScaler
from pcegp.preprocessing.validation import check_finite_inputs, check_number, check_numeric
from pcegp.training.fit import at_parameters

FloatArray = NDArray[np.float64]


def generator(random_state: Any) -> np.random.Generator:
    """NumPy's generator from what scikit-learn calls a random state."""
    return np.random.default_rng(check_random_state(random_state).randint(2**31 - 1))


class FittedMixin:
    """The methods of `PCEGPRegressor` that need a fitted model."""

    posteriors_: list[Posterior]
    _inputs: InputMap
    _targets: list[TargetScaler]
    _checkpoints: list[dict[int, FloatArray]]
    _one_output: bool
    n_iter_: int
    n_features_in_: int
    history_: Any
    fit_info_: Any

    def _names(self) -> Sequence[str] | None:
        return getattr(self, "feature_names_in_", None)

    def _set_likelihood(self) -> None:
        values = np.array([-posterior.nll for posterior in self.posteriors_])
        self.log_marginal_likelihood_ = float(values[0]) if self._one_output else values

    def _scaled_inputs(self, X: ArrayLike, count_outside: bool = True) -> FloatArray:
        """Validate rows to predict and bring them to the model's units."""
        columns = self._validated_rows(X)
        scaled = self._inputs.transform(columns)
        outside = int(self._inputs.outside(columns, scaled).sum())
        if count_outside and outside:
            warn(f"{outside} of {len(columns)} rows lie outside the range of the training inputs: "
                 "scale and noise are those at the edge of that range", ExtrapolationWarning)
        return scaled

    def _validated_rows(self, X: ArrayLike) -> FloatArray:
        """Rows to predict (m, D), checked."""
        check_is_fitted(self, "posteriors_")
        columns = X if self._is_plain(X) else self._converted(X)
        check_finite_inputs(columns, self._names())
        return columns

    def _is_plain(self, X: ArrayLike) -> TypeGuard[FloatArray]:
        """Whether X is what scikit-learn's checks, as long as a small prediction, would give."""
        return (type(X) is np.ndarray and X.dtype == np.float64 and X.ndim == 2 and len(X) > 0
                and X.shape[1] == self.n_features_in_ and not hasattr(self, "feature_names_in_"))

    def _converted(self, X: ArrayLike) -> FloatArray:
        check_numeric(X)
        columns: FloatArray = validate_data(
            self, X, dtype=np.float64, reset=False, ensure_all_finite=False
        )
        return columns

    def predict(
        self,
        X: ArrayLike,
        return_std: bool = False,
        return_cov: bool = False,
        include_noise: bool = True,
    ) -> Any:
        """Predict the mean, and its standard deviation or covariance if asked.

        Parameters
        ----------
        X : (m, D)
        return_std, return_cov : bool
            At most one of them. The mean alone costs nothing for the variance.
        include_noise : bool
            True for the uncertainty of a new measurement, False for that of the
            process behind it.

        Returns
        -------
        mean : (m,), or (m, t) for several outputs
        std : like mean, if `return_std`
        cov : (m, m), or (m, m, t), if `return_cov`
        """
        if return_std and return_cov:
            raise SettingError("At most one of return_std or return_cov can be requested.")
        scaled = self._scaled_inputs(X)
        means, spreads = [], []
        for posterior, scaler in zip(self.posteriors_, self._targets, strict=True):
            if return_cov:
                mean, covariance = posterior.mean_and_covariance(scaled, include_noise)
                spreads.append(scaler.covariance(covariance))
            elif return_std:
                mean, variance = posterior.mean_and_variance(scaled, include_noise)
                spreads.append(scaler.deviation(np.sqrt(variance)))
            else:
                mean = posterior.mean(scaled)
            means.append(scaler.mean(mean))
        if return_std or return_cov:
            return self._joined(means), self._joined(spreads)
        return self._joined(means)

    def was_interrupted(self) -> bool:
        """Whether Ctrl-C ended the training of an output before its time."""
        check_is_fitted(self, "posteriors_")
        infos = [self.fit_info_] if self._one_output else self.fit_info_
        return any(info["interrupted"] for info in infos)

    def _joined(self, outputs: list[FloatArray]) -> FloatArray:
        """One output as it is, several along a last axis."""
        return outputs[0] if self._one_output else np.stack(outputs, axis=-1)

    def sample_y(
        self, X: ArrayLike, n_samples: int = 1, random_state: Any = 0, include_noise: bool = True
    ) -> FloatArray:
        """Draw functions from the posterior at X (m, D): (m, n_samples) or (m, t, n_samples)."""
        scaled = self._scaled_inputs(X)
        rng = generator(random_state)
        draws = [
            scaler.mean(posterior.sample(scaled, n_samples, rng, include_noise))
            for posterior, scaler in zip(self.posteriors_, self._targets, strict=True)
        ]
        return draws[0] if self._one_output else np.stack(draws, axis=1)

    def loo_predict(self) -> tuple[FloatArray, FloatArray]:
        """Mean and std (with noise) of each training target, predicted from all others.

        Closed form at the trained parameters; rows of zero weight are left out.
        """
        check_is_fitted(self, "posteriors_")
        means, spreads = [], []
        for posterior, scaler in zip(self.posteriors_, self._targets, strict=True):
            mean, variance = posterior.leave_one_out()
            means.append(scaler.mean(mean))
            spreads.append(scaler.deviation(np.sqrt(variance)))
        return self._joined(means), self._joined(spreads)

    def predict_interval(
        self, X: ArrayLike, coverage: float = 0.95, n_folds: int = 5
    ) -> tuple[FloatArray, FloatArray]:
        """Intervals that cover new values as often as they say, however wrong the model is.

        The first call trains the model again without each of `n_folds` folds (CV+, see
        `pcegp.estimators.conformal`); later calls reuse that. Rows must be exchangeable.

        Parameters
        ----------
        X : (m, D)
        coverage : float
            Share of new values that the intervals should cover.
        n_folds : int
            More folds cost more and give somewhat narrower intervals.

        Returns
        -------
        lower, upper : (m,) each; infinite where there are too few rows for a finite end
        """
        check_is_fitted(self, "posteriors_")
        if not self._one_output:
            raise SettingError("predict_interval is for one output: fit one model for each")
        coverage = check_number("coverage", coverage, 0.0, 1.0, open_low=True)
        columns = self._validated_rows(X)
        known = self.__dict__.setdefault("_cross_fits", {})
        if n_folds not in known:
            inputs, targets = self._training_data()
            known[n_folds] = cross_fit(self, inputs, targets, n_folds)
        found: CrossFit = known[n_folds]
        return found.interval(columns, coverage)

    def _training_data(self) -> tuple[FloatArray, FloatArray]:
        """Rows (n, D) and target (n,) of the training, in the user's units."""
        posterior = self.posteriors_[0]
        return self._inputs.inverse(posterior.X), self._targets[0].mean(posterior.y)

    def at_checkpoint(self, iteration: int) -> Self:
        """The fitted model as it was after `iteration` steps (see `checkpoints`)."""
        check_is_fitted(self, "posteriors_")
        known = sorted(set.intersection(*(set(kept) for kept in self._checkpoints)))
        if iteration not in known:
            raise SettingError(f"checkpoint {iteration!r} was not kept: choose from {known}")
        model = copy.copy(self)
        model.posteriors_ = [
            at_parameters(posterior, kept[iteration])
            for posterior, kept in zip(self.posteriors_, self._checkpoints, strict=True)
        ]
        model._set_likelihood()
        model.n_iter_ = iteration
        histories: list[Any] = [self.history_] if self._one_output else list(self.history_)
        cut = [{name: values[: iteration + 1] for name, values in h.items()} for h in histories]
        model.history_ = cut[0] if self._one_output else cut
        return model

    def without_draws(self) -> Self:
        """The fitted model with its parameters taken for certain (see `n_draws`)."""
        check_is_fitted(self, "posteriors_")
        if all(posterior.draws is None for posterior in self.posteriors_):
            return self
        model = copy.copy(self)
        model.posteriors_ = [replace(posterior, draws=None) for posterior in self.posteriors_]
        return model

    def save(self, path: str | Path) -> Path:
        """Keep the fitted model in a file, written whole or not at all; see `pcegp.load`.

        The file holds numbers and text only: loading it runs nothing. It contains the
        training data.
        """
        check_is_fitted(self, "posteriors_")
        archive.write(Path(path), *saved.state_of(self))
        return Path(path)

    @classmethod
    def load(cls, path: str | Path, max_gb: float = 2.0) -> Self:
        """A model from a file that `save` made; anything else is a ModelFileError.

        A file above `max_gb`, or a model whose covariance is, is refused.
        """
        return cls._from_state(path, *archive.read(Path(path), max_gb), max_gb)

    @classmethod
    def _from_state(
        cls, path: str | Path, header: dict[str, Any], arrays: dict[str, FloatArray],
        max_gb: float,
    ) -> Self:
        try:
            model = cls(**saved.parameters_of(header))
        except (TypeError, KeyError, ValueError, AttributeError) as error:
            raise ModelFileError(f"{path} was made with unknown settings: {error}") from error
        saved.restore(model, header, arrays, max_gb)
        return model

    def __getstate__(self) -> dict[str, Any]:
        """Plain data for pickle, joblib and skops; the Cholesky factor is computed again."""
        state = cast(dict[str, Any], super().__getstate__())
        if "posteriors_" not in state:
            return state
        try:
            header, arrays = saved.state_of(self)
        except SettingError:  # a scaler of the user's own: as it is
            return state
        others = {name: value for name, value in state.items() if name not in saved.RESTORED}
        return {**others, "_header": header, "_arrays": arrays}

    def __setstate__(self, state: dict[str, Any]) -> None:
        state = dict(state)
        header, arrays = state.pop("_header", None), state.pop("_arrays", None)
        self.__dict__.update(state)
        if header is not None:
            saved.restore(self, header, arrays, np.inf)

    def __copy__(self) -> Self:
        twin = type(self).__new__(type(self))
        twin.__dict__.update(self.__dict__)
        return twin

    def local_scale(self, X: ArrayLike, output: int = 0) -> FloatArray:
        """Local scale at X (m, D) in scaled inputs: (K, F, m).

        K covariance functions; F = 1 field, or one per varying column for "per_input".
        """
        scaled = self._scaled_inputs(X, count_outside=False)
        return self.posteriors_[output].local_scale(scaled)

    def noise_variance(self, X: ArrayLike, output: int = 0) -> FloatArray:
        """Noise variance (m,) at X (m, D), in squared units of the target."""
        scaled = self._scaled_inputs(X, count_outside=False)
        variance = self.posteriors_[output].noise_variance(scaled)
        return self._targets[output].covariance(variance)

    def expansions(self, output: int = 0) -> list[list[Expansion]]:
        """The polynomials behind the local scale: one per covariance function and field.

        Their inputs are the scaled columns; the transform is applied to their value.
        """
        check_is_fitted(self, "posteriors_")
        posterior = self.posteriors_[output]
        return [
            [Expansion(posterior.structure.basis, field) for field in fields]
            for fields in posterior.parameters.coefficients
        ]
