"""PCEGPRegressor: a thin scikit-learn shell around `pcegp.fitting` and `pcegp.posterior`."""

from __future__ import annotations

import copy
import warnings
from collections.abc import Sequence
from typing import Any, Self

import numpy as np
from numpy.typing import ArrayLike, NDArray
from sklearn.base import BaseEstimator, MultiOutputMixin, RegressorMixin, clone
from sklearn.utils import check_random_state
from sklearn.utils.validation import check_is_fitted, column_or_1d, validate_data

from pcegp import settings
from pcegp.errors import DataWarning, ExtrapolationWarning, NumericalWarning, SettingError
from pcegp.expansion import Expansion
from pcegp.fitting import Fit, at_parameters, fit
from pcegp.polynomials import Polynomials
from pcegp.progress import progress_bar
from pcegp.scaling import SCALERS, InputScaler, fit_input_scaler, fit_target_scaler
from pcegp.validation import (
    check_finite_inputs,
    check_finite_targets,
    check_numeric,
    check_weights,
    column_name,
)

FloatArray = NDArray[np.float64]

ALL_COVARIANCES = (
    "squared_exponential",
    "absolute_exponential",
    "matern32",
    "matern52",
    "rational_quadratic",
)
_FEW_ROWS = 6


class PCEGPRegressor(MultiOutputMixin, RegressorMixin, BaseEstimator):
    """Gaussian process whose local scale and noise are polynomials of the inputs.

    The covariance is k(x, x') = sum_k s_k f_k(|l_k(x) x - l_k(x') x'|) plus noise, where
    each local scale l_k is a polynomial chaos expansion of the scaled inputs. l multiplies
    x: a large value means fast variation there (an inverse lengthscale).

    Parameters
    ----------
    covariance : str or sequence of str
        Covariance functions to add up, each with its own variance and scale.
    scale : {"per_input", "weighted", "shared"}
        One scale field per input, one field times a weight per input, or one field.
    degree : int
        Total degree of the scale's expansion. 0 gives an ordinary (stationary) GP, with
        "per_input" one with automatic relevance determination.
    basis : str, polynomial family or sequence of them
        "legendre", "hermite", "jacobi", "laguerre", or an object such as
        `pcegp.polynomials.Jacobi(2, 1)`; several are combined linearly.
    hyperbolic : float in (0, 1]
        Below 1, thins out interaction terms (hyperbolic truncation).
    max_interaction : int or None
        At most this many inputs in one term.
    scale_transform : {"identity", "shift", "softplus", "sigmoid", "exponential"}
        From the expansion's value to the scale.
    noise : {"constant", "expansion"}
        One noise variance, or one that depends on the inputs (heteroscedastic).
    noise_degree : int
        Degree of the noise's expansion; only for ``noise="expansion"``.
    noise_transform : str
        From that expansion's value to the noise variance; names as for `scale_transform`.
    noise_floor : float
        Smallest noise variance, in units of the target's variance.
    input_scaler : {"minmax", "standard", "none"} or scikit-learn transformer
        Scaling of the inputs; it is part of the model.
    input_range : pair of float
        Range that "minmax" maps the training inputs to.
    penalty : float
        Strength of the elastic net on the non-constant coefficients, added to the
        negative log likelihood (not divided by the number of rows).
    l1_ratio : float in [0, 1]
        Share of the L1 part; above 0, coefficients become exactly zero.
    learning_rate : float
        Step size of the Nadam optimiser.
    max_iter : int
        Number of steps.
    initial_scale : float or sequence of float
        Start value of the local scale, one number or one per covariance function.
    n_restarts : int
        Further starts (multiples of `initial_scale`, then random), compared by short
        probes; the best is trained to the end.
    checkpoints : sequence of int
        Steps after which the model is kept; see `at_checkpoint`.
    patience : int or None
        Stop when the leave-one-out likelihood has not improved for that many steps, and
        return to the best.
    max_basis_gb : float
        Refuse a polynomial basis that needs more memory than this.
    n_jobs : int or None
        At most this many threads; None uses what BLAS is allowed.
    random_state : int, RandomState or None
        Seeds the choice of rows for probes and random restarts.
    verbose : bool
        Show a progress bar.

    Attributes
    ----------
    posteriors_ : list of Posterior, one per output
    log_marginal_likelihood_ : float or (t,) array, of the standardised targets
    history_ : dict of arrays (list of dicts for several outputs)
        "loss", "nll", "loo_rmse", "loo_nll" after each step; entry 0 is the start. The
        leave-one-out entries are in the target's units.
    fit_info_ : dict (list of dicts for several outputs)
        "jitter", "n_jittered_steps", "n_rate_reductions", "interrupted".
    n_iter_ : int
    active_columns_ : (D,) bool array, False at constant columns, which are ignored

    Examples
    --------
    >>> import numpy as np
    >>> from pcegp import PCEGPRegressor
    >>> x = np.linspace(0, 1, 20)[:, None]
    >>> model = PCEGPRegressor(max_iter=50).fit(x, np.sin(6 * x[:, 0]))
    >>> mean, std = model.predict([[0.5]], return_std=True)
    >>> bool(abs(mean[0] - np.sin(3.0)) < 0.05)
    True
    """

    def __init__(
        self,
        covariance: str | Sequence[str] = ALL_COVARIANCES,
        *,
        scale: str = "per_input",
        degree: int = 2,
        basis: str | Polynomials | Sequence[str | Polynomials] = "legendre",
        hyperbolic: float = 1.0,
        max_interaction: int | None = None,
        scale_transform: str = "identity",
        noise: str = "constant",
        noise_degree: int = 1,
        noise_transform: str = "exponential",
        noise_floor: float = 1e-6,
        input_scaler: Any = "minmax",
        input_range: tuple[float, float] = (-0.5, 0.5),
        penalty: float = 30.0,
        l1_ratio: float = 0.0,
        learning_rate: float = 0.03,
        max_iter: int = 400,
        initial_scale: float | Sequence[float] = 1.0,
        n_restarts: int = 3,
        checkpoints: Sequence[int] = (),
        patience: int | None = None,
        max_basis_gb: float = 2.0,
        n_jobs: int | None = None,
        random_state: Any = 0,
        verbose: bool = False,
    ) -> None:
        self.covariance = covariance
        self.scale = scale
        self.degree = degree
        self.basis = basis
        self.hyperbolic = hyperbolic
        self.max_interaction = max_interaction
        self.scale_transform = scale_transform
        self.noise = noise
        self.noise_degree = noise_degree
        self.noise_transform = noise_transform
        self.noise_floor = noise_floor
        self.input_scaler = input_scaler
        self.input_range = input_range
        self.penalty = penalty
        self.l1_ratio = l1_ratio
        self.learning_rate = learning_rate
        self.max_iter = max_iter
        self.initial_scale = initial_scale
        self.n_restarts = n_restarts
        self.checkpoints = checkpoints
        self.patience = patience
        self.max_basis_gb = max_basis_gb
        self.n_jobs = n_jobs
        self.random_state = random_state
        self.verbose = verbose

    @classmethod
    def paper(cls, **changes: Any) -> Self:
        """The paper's benchmark setup (appendix I): shared scale, degree 5, no restarts.

        Its learning rate, iterations and start value are tuned for each data set there;
        the values here are in the middle of its Table of bounds.
        """
        setup = {
            "scale": "shared", "degree": 5, "penalty": 0.0, "n_restarts": 0,
            "learning_rate": 0.01, "max_iter": 300, "noise_floor": 1e-4,
        }
        return cls(**{**setup, **changes})

    @classmethod
    def toy(cls, **changes: Any) -> Self:
        """The paper's toy setup (appendix G): squared exponential, degree 10, softplus."""
        setup = {"covariance": "squared_exponential", "degree": 10, "scale_transform": "softplus"}
        return cls.paper(**{**setup, **changes})

    def fit(self, X: ArrayLike, y: ArrayLike, sample_weight: ArrayLike | None = None) -> Self:
        """Train on X (n, D) and y (n,) or (n, t); a weight of 2 equals two rows."""
        resolved = settings.resolve(self.get_params(deep=False))
        check_numeric(X)
        check_finite_targets(y)
        X, y = validate_data(
            self, X, y, dtype=np.float64, multi_output=True, y_numeric=True,
            ensure_all_finite=False,
        )
        names = getattr(self, "feature_names_in_", None)
        targets = np.asarray(y, dtype=np.float64)
        if targets.ndim == 2 and targets.shape[1] == 1:
            targets = column_or_1d(targets, warn=True)
        self._one_output = targets.ndim == 1
        targets = targets.reshape(len(X), -1)
        check_finite_inputs(X, names)
        weights = check_weights(sample_weight, len(X))
        kept = weights > 0.0
        X, targets, weights = X[kept], targets[kept], weights[kept]

        self._find_active_columns(X, names)
        self._warn_about(X, targets)
        columns = self._columns(X)
        self._input_scaler = self._fitted_scaler(columns, weights)
        scaled = self._input_scaler.transform(columns)
        rng = np.random.default_rng(check_random_state(self.random_state).randint(2**31 - 1))
        self._target_scalers = [fit_target_scaler(column, weights) for column in targets.T]
        fits = []
        for number, (column, scaler) in enumerate(
            zip(targets.T, self._target_scalers, strict=True), 1
        ):
            label = "training" if self._one_output else f"output {number} of {targets.shape[1]}"
            with progress_bar(self.verbose, self.max_iter, label) as progress:
                fits.append(fit(scaled, scaler.transform(column), weights, resolved, rng, progress))
        self._keep(fits)
        return self

    def _find_active_columns(self, X: FloatArray, names: Sequence[str] | None) -> None:
        self.active_columns_ = X.min(axis=0) < X.max(axis=0)
        self._constants = X[0].copy()
        if not self.active_columns_.all():
            constant = [column_name(names, j) for j in np.flatnonzero(~self.active_columns_)]
            warnings.warn(
                f"constant column {', '.join(constant)}: ignored in the model", DataWarning,
                stacklevel=3,
            )

    def _warn_about(self, X: FloatArray, targets: FloatArray) -> None:
        if len(X) < _FEW_ROWS:
            warnings.warn(
                f"only {len(X)} rows: the intervals rest on the prior more than on data",
                DataWarning, stacklevel=3,
            )
        if (np.ptp(targets, axis=0) == 0.0).any():
            warnings.warn(
                "y is constant: the model predicts that constant", DataWarning, stacklevel=3
            )

    def _columns(self, X: FloatArray) -> FloatArray:
        """The columns that vary; one column of zeros where none does."""
        return X[:, self.active_columns_] if self.active_columns_.any() else np.zeros((len(X), 1))

    def _fitted_scaler(self, columns: FloatArray, weights: FloatArray) -> InputScaler:
        scaler = self.input_scaler
        if not isinstance(scaler, str):
            scaler = clone(scaler)
        elif scaler in SCALERS and not self.active_columns_.any():
            scaler = "none"  # nothing varies, so there is nothing to scale by
        return fit_input_scaler(scaler, columns, tuple(self.input_range), weights)

    def _keep(self, fits: list[Fit]) -> None:
        """Set the fitted attributes and warn about what training had to do."""
        self.posteriors_ = [f.posterior for f in fits]
        self._checkpoints = [f.checkpoints for f in fits]
        self.n_iter_ = max(f.n_iter for f in fits)
        log_likelihood = [-f.posterior.nll for f in fits]
        self.log_marginal_likelihood_ = (
            log_likelihood[0] if self._one_output else np.array(log_likelihood)
        )
        histories, infos = [], []
        for f, scaler in zip(fits, self._target_scalers, strict=True):
            histories.append({
                "loss": np.array(f.history.loss),
                "nll": np.array(f.history.nll),
                "loo_rmse": scaler.deviation(np.array(f.history.loo_rmse)),
                "loo_nll": np.array(f.history.loo_nll) + scaler.log_width,
            })
            infos.append({
                "jitter": f.posterior.jitter,
                "n_jittered_steps": int(np.count_nonzero(f.history.jitter)),
                "n_rate_reductions": f.n_reductions,
                "interrupted": f.interrupted,
            })
            self._warn_about_fit(f)
        self.history_ = histories[0] if self._one_output else histories
        self.fit_info_ = infos[0] if self._one_output else infos

    def _warn_about_fit(self, result: Fit) -> None:
        if result.posterior.jitter > 0.0:
            warnings.warn(
                f"the covariance was singular to rounding: {result.posterior.jitter:.2g} was added "
                "to its diagonal (raise noise_floor to avoid this)",
                NumericalWarning, stacklevel=4,
            )
        if result.n_reductions:
            warnings.warn(
                f"training diverged {result.n_reductions} times; it went back to its best state "
                "with a lower rate each time (lower learning_rate to avoid this)",
                NumericalWarning, stacklevel=4,
            )
        if result.interrupted:
            warnings.warn(
                f"training was interrupted after {result.n_iter} of {self.max_iter} steps: this is "
                "the best model so far", NumericalWarning, stacklevel=4,
            )

    def _scaled_inputs(self, X: ArrayLike, warn: bool = True) -> FloatArray:
        """Validate rows to predict and bring them to the model's units."""
        check_is_fitted(self, "posteriors_")
        check_numeric(X)
        X = validate_data(self, X, dtype=np.float64, reset=False, ensure_all_finite=False)
        check_finite_inputs(X, getattr(self, "feature_names_in_", None))
        scaled = self._input_scaler.transform(self._columns(X))
        if warn:
            self._warn_outside(X, scaled)
        return scaled

    def _warn_outside(self, X: FloatArray, scaled: FloatArray) -> None:
        basis = self.posteriors_[0].structure.basis
        slack = 1e-9 * (basis.upper - basis.lower)
        outside = ((scaled < basis.lower - slack) | (scaled > basis.upper + slack)).any(axis=1)
        constant = ~self.active_columns_
        outside |= (X[:, constant] != self._constants[constant]).any(axis=1)
        if outside.any():
            warnings.warn(
                f"{outside.sum()} of {len(X)} rows lie outside the range of the training inputs: "
                "the scale and noise are those at the edge of that range",
                ExtrapolationWarning, stacklevel=4,
            )

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
        for posterior, scaler in zip(self.posteriors_, self._target_scalers, strict=True):
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

    def _joined(self, outputs: list[FloatArray]) -> FloatArray:
        """One output as it is, several along a last axis."""
        return outputs[0] if self._one_output else np.stack(outputs, axis=-1)

    def sample_y(
        self, X: ArrayLike, n_samples: int = 1, random_state: Any = 0, include_noise: bool = True
    ) -> FloatArray:
        """Draw functions from the posterior at X (m, D): (m, n_samples) or (m, t, n_samples)."""
        scaled = self._scaled_inputs(X)
        rng = np.random.default_rng(check_random_state(random_state).randint(2**31 - 1))
        draws = [
            scaler.mean(posterior.sample(scaled, n_samples, rng, include_noise))
            for posterior, scaler in zip(self.posteriors_, self._target_scalers, strict=True)
        ]
        return draws[0] if self._one_output else np.stack(draws, axis=1)

    def loo_predict(self) -> tuple[FloatArray, FloatArray]:
        """Mean and std (with noise) of each training target, predicted from all others.

        Closed form at the trained parameters; rows of zero weight are left out.
        """
        check_is_fitted(self, "posteriors_")
        means, spreads = [], []
        for posterior, scaler in zip(self.posteriors_, self._target_scalers, strict=True):
            mean, variance = posterior.leave_one_out()
            means.append(scaler.mean(mean))
            spreads.append(scaler.deviation(np.sqrt(variance)))
        return self._joined(means), self._joined(spreads)

    def at_checkpoint(self, iteration: int) -> Self:
        """The fitted model as it was after `iteration` steps (see `checkpoints`)."""
        check_is_fitted(self, "posteriors_")
        known = sorted(self._checkpoints[0])
        if iteration not in known:
            raise SettingError(f"checkpoint {iteration!r} was not kept: choose from {known}")
        model = copy.copy(self)
        model.posteriors_ = [
            at_parameters(posterior, kept[iteration])
            for posterior, kept in zip(self.posteriors_, self._checkpoints, strict=True)
        ]
        log_likelihood = [-posterior.nll for posterior in model.posteriors_]
        model.log_marginal_likelihood_ = (
            log_likelihood[0] if self._one_output else np.array(log_likelihood)
        )
        model.n_iter_ = iteration
        return model

    def local_scale(self, X: ArrayLike, output: int = 0) -> FloatArray:
        """Local scale at X (m, D) in scaled inputs: (K, F, m).

        K covariance functions; F = 1 field, or one per varying column for "per_input".
        """
        return self.posteriors_[output].local_scale(self._scaled_inputs(X, warn=False))

    def noise_variance(self, X: ArrayLike, output: int = 0) -> FloatArray:
        """Noise variance (m,) at X (m, D), in squared units of the target."""
        scaled = self._scaled_inputs(X, warn=False)
        variance = self.posteriors_[output].noise_variance(scaled)
        return self._target_scalers[output].covariance(variance)

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
