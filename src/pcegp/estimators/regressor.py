"""The model as a scikit-learn estimator.

n training rows, m new rows, D columns, t outputs.
"""

import copy
from collections.abc import Sequence
from contextlib import AbstractContextManager, nullcontext
from pathlib import Path
from typing import Any, NamedTuple, Self, cast

import numpy as np
from numpy.typing import ArrayLike
from sklearn.base import BaseEstimator, MultiOutputMixin, clone
from sklearn.utils import check_random_state
from sklearn.utils.validation import check_is_fitted, column_or_1d, validate_data

from pcegp._progress import Update, bar
from pcegp._typing import FloatArray
from pcegp.errors import DataWarning, NumericalWarning, SettingError, warn
from pcegp.estimators import conformal, model_state, own_parts
from pcegp.estimators.composite import Composite
from pcegp.estimators.fitted_model import FittedModel, Output
from pcegp.estimators.presets import PAPER, TOY
from pcegp.estimators.scoring import Scored
from pcegp.estimators.settings import Settings, resolve
from pcegp.inference import Data, Inference, Neighbours
from pcegp.kernels import CovarianceFunction, Process, Transform
from pcegp.numerics import ArrayCache, check_memory
from pcegp.polynomials import Expansion, Polynomials
from pcegp.preprocessing import (
    MonotoneMap,
    TargetScaler,
    fit_inputs,
    fit_monotone,
    standardise,
    validation,
)
from pcegp.training import (
    FEWEST_ROWS,
    TRAINING,
    Fit,
    Form,
    Options,
    Prior,
    at_once,
    fit,
    fit_by_evidence,
    fit_by_terms,
)


class _Table(NamedTuple):
    """Columns (n, D) and targets (n, t) that were checked, and what the columns are called.

    Either `names`, which are texts, or `labels`, which are not; both may be None.
    """

    columns: FloatArray
    targets: FloatArray
    one_output: bool  # whether y was a vector
    names: tuple[str, ...] | None
    labels: tuple[str, ...] | None


class PCEGPRegressor(MultiOutputMixin, Scored, BaseEstimator):
    """Gaussian process whose local scale and noise are polynomials of the inputs.

    The covariance is k(x, x') = sum_k s_k f_k(|l_k(x) x - l_k(x') x'|) plus noise, where
    each local scale l_k is a polynomial chaos expansion of the scaled inputs. l multiplies
    x: a large value means fast variation there (an inverse lengthscale).

    By default, `fit` compares structures by their evidence: sets of covariance functions, maps of
    the inputs, how freely the scale may vary, and models of the noise. Predictions are the
    average of those that explain the data best; ``fit_info_["members"]`` lists them.

    Parameters
    ----------
    **Model**

    covariance : "auto", str, CovarianceFunction or sequence of them
        Covariance functions to add up, each with a variance of its own. "auto" chooses between
        all five and "matern52" alone.
    scale : {"per_input", "weighted", "shared"}
        One scale field per input, one field times a weight per input, or one field. With
        "per_input" and "lbfgs", the covariance functions have these fields in common, each times
        a constant of its own; otherwise every function has fields of its own.
    degree : int
        Highest total degree of the scale's expansion. 0 gives an ordinary (stationary) GP, with
        "per_input" one with automatic relevance determination.
    basis : str, polynomial family or sequence of them
        "legendre", "hermite", "jacobi", "laguerre", or an object such as
        `pcegp.polynomials.Jacobi(2, 1)` or one of your own; several are combined linearly.
    hyperbolic : float in (0, 1]
        Below 1, thins out interaction terms (hyperbolic truncation).
    max_interaction : int or None
        At most this many inputs in one term; None sets no limit.
    scale_transform : {"identity", "shift", "softplus", "sigmoid", "exponential"} or Transform
        From the expansion's value to the scale.
    initial_scale : float, sequence of float or None
        Start value of the local scale, one number or one per covariance function; None
        takes 3 / sqrt(number of inputs), adapted to the spread of each input.

    **Noise**

    noise : {"auto", "constant", "expansion", "none"}
        One noise variance, or one that depends on the inputs (heteroscedastic); "auto" chooses.
        "none" says that the data have no noise, such as those of a simulation.
    noise_degree : int
        Degree of the noise's expansion; only for ``noise="expansion"``.
    noise_transform : str or Transform
        From that expansion's value to the noise variance; names as for `scale_transform`.
    noise_delay : int or None
        Keep the noise constant for that many first steps of "nadam", so that it does not explain
        what the process could; None is 200, but at most half of `max_iter`.
    noise_floor : float or None
        Smallest noise variance, in units of the target's variance; None is 1e-6, and 1e-10 with
        "nadam" and ``noise="none"``. Where "nadam" finds next to none, a smooth model without
        noise is tried as well.

    **Inputs**

    input_scaler : {"minmax", "standard", "none"} or scikit-learn transformer
        Scaling of the inputs; it is part of the model.
    input_range : pair of float
        Range that "minmax" maps the training inputs to.
    input_map : {"auto", "linear", "power", "asinh"}
        Monotone map that spreads the scaled inputs: none, one for skewed columns, one for long
        tails (`pcegp.preprocessing.monotone`). "auto" chooses one for all columns.

    **Target**

    target_map : {"auto", "linear"}
        With "auto", the process may describe a logarithm of the target's distance from its
        smallest or largest value (`pcegp.preprocessing.target_map`). "linear" leaves the target
        as it is, as "nadam" always does.

    **Regularisation**

    penalty : "auto" or float
        How strongly the prior holds the non-constant coefficients, as a factor of the root of
        their number. "auto" chooses between a stationary scale and several strengths. (To be
        exact: the negative log likelihood plus penalty times root times the sum of squares.)
    l1_ratio : float in [0, 1]
        Share of an L1 part in the penalty, for "nadam"; above 0, coefficients become exactly zero.
    prior : float, Prior or sequence of them
        Precision of normal priors on all other parameters (constants of the expansions,
        logarithms of variances), centred at their start; 0 turns them off. A prior of your
        own (`pcegp.training.Prior`) takes their place.

    **Training**

    inference : {"auto", "exact", "neighbours"} or engine
        How likelihood and predictions are computed: from all rows at once, or from the nearest
        ones of each (`pcegp.inference.Neighbours`). "auto" is exact up to 4,000 rows, and with
        "nadam". An engine of your own follows `pcegp.inference.Inference`.
    optimizer : {"lbfgs", "nadam"}
        "lbfgs" ends at an optimum, and what is "auto" is chosen by the evidence there. "nadam"
        makes steps of a given size, as in the paper; "auto" then means all five covariance
        functions, a linear map, penalty 3 and an expanded noise.
    learning_rate : float
        Step size of "nadam".
    max_iter : int
        Number of steps of "nadam"; for "lbfgs", the most iterations of one optimum.
    averaging : int
        With "nadam", the result is an exponential average over about this many last steps; 1
        turns averaging off.
    n_restarts : int
        Further starts (multiples of `initial_scale`, then random). The best one counts: with
        "nadam", after short probes, with "lbfgs", at the optimum of a stationary scale.
    warm_up_rows : int or None
        With more rows than this, the first 300 steps of "nadam" see that many of them, drawn at
        random, which costs little; the others see all (with `max_iter` of at most 300, none
        do). None shows all rows to every step.
    checkpoints : sequence of int
        Steps of "nadam" after which the model is kept; see `at_checkpoint`.
    patience : int or None
        Stop "nadam" when the leave-one-out likelihood has not improved for that many steps
        (counted from `noise_delay` on if the noise is expanded), and return to the
        average of the steps around the best.

    **Uncertainty**

    n_draws : int
        Draws of the parameters after "nadam", by Hamiltonian Monte Carlo. Their uncertainty is
        added to the variance of predictions; 0 takes the parameters for certain.

    **Resources**

    max_basis_gb : float
        Refuse a polynomial basis that needs more memory than this.
    n_jobs : int or None
        At most this many threads; None or -1 uses what BLAS is allowed.
    random_state : int, RandomState or None
        Seeds the choice of the rows on which structures are compared, of those for probes and the
        warm-up, random restarts, and draws.
    verbose : bool
        Show a progress bar.

    Attributes
    ----------
    model_ : FittedModel
        Maps of inputs and targets, posteriors and names; everything else is read from it.
    log_marginal_likelihood_ : float or (t,) array, of the standardised targets
    history_ : dict of arrays (list of dicts for several outputs)
        "loss", "nll", "loo_rmse", "loo_nll" after each step of the member with the largest
        weight; entry 0 is the start. The leave-one-out entries are in the target's units. With a
        warm-up, the entries before its last step are of some of the rows. With "lbfgs", all are
        from before the end, where variances grow by the degrees of freedom that were lost.
    fit_info_ : dict (list of dicts for several outputs)
        "condition_number" (of the covariance of the data, an estimate), "jitter" (added to its
        diagonal at the end), "n_jittered_steps", "interrupted", "n_factorisations" (Cholesky
        factorisations that the fit took). With "lbfgs", "converged", "members" (the structures
        that predict together, with their weights and evidence) and "compared" (all that were
        compared). With "nadam", "n_rate_reductions", "fell_back_to_best" (the last steps had lost
        what training had gained) and "noise_free" (the smooth model without noise was better).
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
        covariance: str | CovarianceFunction | Sequence[str | CovarianceFunction] = "auto",
        *,
        scale: str = "per_input",
        degree: int = 3,
        basis: str | Polynomials | Sequence[str | Polynomials] = "legendre",
        hyperbolic: float = 1.0,
        max_interaction: int | None = 1,
        scale_transform: str | Transform = "exponential",
        initial_scale: float | Sequence[float] | None = None,
        noise: str = "auto",
        noise_degree: int = 1,
        noise_transform: str | Transform = "exponential",
        noise_delay: int | None = None,
        noise_floor: float | None = None,
        input_scaler: Any = "minmax",
        input_range: tuple[float, float] = (-0.5, 0.5),
        input_map: str = "auto",
        target_map: str = "auto",
        penalty: float | str = "auto",
        l1_ratio: float = 0.0,
        prior: float | Prior | Sequence[Prior] = 1.0,
        inference: str | Inference = "auto",
        optimizer: str = "lbfgs",
        learning_rate: float = 0.03,
        max_iter: int = 400,
        averaging: int = 30,
        n_restarts: int = 0,
        warm_up_rows: int | None = 2000,
        checkpoints: Sequence[int] = (),
        patience: int | None = None,
        n_draws: int = 0,
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
        self.initial_scale = initial_scale
        self.noise = noise
        self.noise_degree = noise_degree
        self.noise_transform = noise_transform
        self.noise_delay = noise_delay
        self.noise_floor = noise_floor
        self.input_scaler = input_scaler
        self.input_range = input_range
        self.input_map = input_map
        self.target_map = target_map
        self.penalty = penalty
        self.l1_ratio = l1_ratio
        self.prior = prior
        self.inference = inference
        self.optimizer = optimizer
        self.learning_rate = learning_rate
        self.max_iter = max_iter
        self.averaging = averaging
        self.n_restarts = n_restarts
        self.warm_up_rows = warm_up_rows
        self.checkpoints = checkpoints
        self.patience = patience
        self.n_draws = n_draws
        self.max_basis_gb = max_basis_gb
        self.n_jobs = n_jobs
        self.random_state = random_state
        self.verbose = verbose

    @classmethod
    def paper(cls, **changes: Any) -> Self:
        """Make the paper's benchmark setup (appendix I): shared scale, degree 5, no restarts.

        Its learning rate, iterations and start value are tuned for each data set there;
        the values here are in the middle of its Table of bounds.
        """
        return cls(**{**PAPER, **changes})

    @classmethod
    def toy(cls, **changes: Any) -> Self:
        """Make the paper's toy setup (appendix G): squared exponential, degree 10, softplus."""
        return cls(**{**TOY, **changes})

    def fit(self, X: ArrayLike, y: ArrayLike, sample_weight: ArrayLike | None = None) -> Self:
        """Train on X (n, D) and y (n,) or (n, t); a weight of 2 equals two rows."""
        return self._fit(X, y, sample_weight)

    def _fit(
        self, X: ArrayLike, y: ArrayLike, sample_weight: ArrayLike | None = None,
        cache: ArrayCache | None = None, names: Sequence[str] | None = None,
    ) -> Self:
        # A fit that fails must not leave an old model behind.
        for name in ("model_", "encoding_", "_cross_fits"):
            self.__dict__.pop(name, None)
        settings, rng = resolve(self.get_params(deep=False)), generator(self.random_state)
        columns, targets, one_output, known, labels = self._checked(X, y, names)
        weights = validation.check_weights(sample_weight, len(columns))
        if not weights.all():
            counted = weights > 0.0
            columns, targets, weights = columns[counted], targets[counted], weights[counted]
        if isinstance(settings.for_rows(len(columns)).options.inference, Neighbours):
            # Copies of a row would be its nearest neighbours, and crowd out others.
            columns, targets, weights = validation.merged(columns, targets, weights)
        n = len(columns)
        settings = settings.for_rows(n)
        options = settings.options
        if _has_own_parts(settings, self.input_scaler):
            own_parts.check(settings, columns, self.input_scaler, self.input_range, weights)
        check_memory(options.inference.bytes_needed(*columns.shape), f"a fit of {n:,} rows")
        scaler = self.input_scaler
        scaler = clone(scaler) if hasattr(scaler, "get_params") else scaler
        inputs = fit_inputs(columns, scaler, self.input_range, weights)
        validation.warn_about_data(inputs.constant_columns(known or labels), targets, weights)
        scaled = inputs.transform(columns)
        make_process = _Processes(settings, scaled, weights, cache)
        scales = settings.scales(scaled.shape[1])
        choices = settings.choices(scaled.shape[1])
        outputs, n_iter = [], 0
        for number, column in enumerate(targets.T, 1):
            target, values = standardise(column, weights)
            prefix = "" if one_output else f"output {number} of {targets.shape[1]}: "
            with _bar(options, prefix) if self.verbose else nullcontext() as update:
                data = Data(scaled, values, weights)
                if options.optimizer == "lbfgs":
                    train = fit_by_terms if _is_large(options, n) else fit_by_evidence
                    found = train(make_process, data, scales, choices, options, rng, update)
                else:
                    process = make_process(settings.form._replace(input_map=settings.input_map))
                    found = fit(process, data, scales, options, rng, update)
            if found.info["interrupted"]:
                # The outputs that are left.
                options, choices = at_once(options), choices.first()
            outputs.append(_output(found, target))
            n_iter = max(n_iter, found.n_iter)
        self.model_ = FittedModel(inputs, tuple(outputs), one_output, known, n_iter,
                                  settings.options, labels)
        _warn_about_fit(self.model_, outputs[0].base.process.basis.n_terms, n)
        return self

    def _checked(
        self, X: ArrayLike, y: ArrayLike, names: Sequence[str] | None
    ) -> "_Table":
        """Check and convert a table; columns of an array may have `names`, which it cannot hold."""
        validation.check_numeric(X)
        validation.check_targets(y)
        labels = validation.labels_of(X)
        with np.errstate(over="ignore"):  # of wider numbers; infinity is refused below
            columns, targets = validate_data(
                self, X, y, dtype=np.float64, multi_output=True, y_numeric=True,
                ensure_all_finite=False,
            )
        if names is not None:
            self.feature_names_in_ = np.array(names, dtype=object)
        known = validation.names_of(self)
        validation.check_finite_inputs(columns, known or labels)
        validation.warn_about_order(X, y)
        if targets.ndim == 2 and targets.shape[1] == 1:
            targets = column_or_1d(targets, warn=True)
        one_output = targets.ndim == 1
        targets = np.asarray(targets, dtype=np.float64).reshape(len(columns), -1)
        return _Table(columns, targets, one_output, known, labels)

    @property
    def active_columns_(self) -> Any:
        return self.model_.inputs.active

    @property
    def n_iter_(self) -> int:
        return self.model_.n_iter

    @property
    def history_(self) -> Any:
        return self._of_outputs([out.history for out in self.model_.outputs])

    @property
    def fit_info_(self) -> Any:
        return self._of_outputs([out.info for out in self.model_.outputs])

    @property
    def log_marginal_likelihood_(self) -> Any:
        values = [out.posterior.log_likelihood for out in self.model_.outputs]
        return values[0] if self.model_.one_output else np.array(values)

    def _of_outputs(self, each: list[Any]) -> Any:
        return each[0] if self.model_.one_output else each

    def checked_rows(self, X: ArrayLike) -> FloatArray:
        """Check rows to predict and convert them: (m, D)."""
        if "model_" not in self.__dict__:
            check_is_fitted(self, "model_")
        # What scikit-learn's checks, as long as a small prediction, would give anyway.
        is_plain = (type(X) is np.ndarray and X.dtype == np.float64 and X.ndim == 2 and len(X) > 0
                    and X.shape[1] == self.n_features_in_ and self.model_.names is None)
        columns = cast(FloatArray, X) if is_plain else self._converted(X)
        validation.check_finite_inputs(columns, self.model_.names or self.model_.labels)
        return columns

    def _converted(self, X: ArrayLike) -> FloatArray:
        validation.check_numeric(X)
        with np.errstate(over="ignore"):  # of wider numbers; infinity is refused later
            columns: FloatArray = validate_data(
                self, X, dtype=np.float64, reset=False, ensure_all_finite=False
            )
        if self.model_.names is None:
            validation.check_labels(self.model_.labels, X)
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
        columns = self.checked_rows(X)
        if return_cov:
            return self.model_.mean_and_covariance(columns, include_noise)
        if return_std:
            return self.model_.mean_and_deviation(columns, include_noise)
        return self.model_.mean(columns)

    def sample_y(
        self, X: ArrayLike, n_samples: int = 1, random_state: Any = 0, include_noise: bool = True
    ) -> FloatArray:
        """Draw functions from the posterior at X (m, D): (m, n_samples) or (m, t, n_samples)."""
        columns = self.checked_rows(X)
        n_samples = validation.check_integer("n_samples", n_samples, 1)
        return self.model_.sample(columns, n_samples, generator(random_state), include_noise)

    def loo_predict(self) -> tuple[FloatArray, FloatArray]:
        """Predict mean and std (with noise) of each training target from all others.

        Closed form at the trained parameters; rows of zero weight are left out.
        """
        check_is_fitted(self, "model_")
        return self.model_.leave_one_out()

    def predict_interval(
        self, X: ArrayLike, coverage: float = 0.95, n_folds: int = 5
    ) -> tuple[FloatArray, FloatArray]:
        """Compute intervals that cover new values as often as they say, however wrong the model.

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
        lower, upper : (m,) each; infinite, with a warning, where there are too few rows for a
            finite end
        """
        columns = self.checked_rows(X)
        known = self.__dict__.setdefault("_cross_fits", {})
        quiet = clone(self).set_params(verbose=False)
        return conformal.interval(quiet, self.model_, known, columns, coverage, n_folds,
                                  self.verbose)

    def at_checkpoint(self, iteration: int) -> Self:
        """Go back to the model as it was after `iteration` steps (see `checkpoints`)."""
        check_is_fitted(self, "model_")
        return self._with(self.model_.at_checkpoint(iteration))

    def without_draws(self) -> Self:
        """Take the trained parameters for certain (see `n_draws`)."""
        check_is_fitted(self, "model_")
        certain = self.model_.without_draws()
        return self if certain is self.model_ else self._with(certain)

    def _with(self, model: FittedModel) -> Self:
        twin = copy.copy(self)
        twin.model_ = model
        return twin

    def was_interrupted(self) -> bool:
        """Tell whether Ctrl-C ended the training of an output before its time."""
        check_is_fitted(self, "model_")
        return any(out.info["interrupted"] for out in self.model_.outputs)

    def local_scale(self, X: ArrayLike, output: int = 0) -> FloatArray:
        """Compute the local scale at X (m, D) in scaled inputs: (K, F, m).

        K covariance functions; F = 1 field, or one per varying column for "per_input". Of an
        average, it is the scale of the member with the largest weight.
        """
        fitted, out = fitted_output(self, output, "local_scale")
        return out.base.local_scale(fitted.inputs.transform(self.checked_rows(X)))

    def noise_variance(self, X: ArrayLike, output: int = 0) -> FloatArray:
        """Compute the noise variance (m,) at X (m, D), in squared units of the target."""
        fitted, out = fitted_output(self, output, "noise_variance")
        scaled = fitted.inputs.transform(self.checked_rows(X))
        return out.covariance(out.posterior.noise_variance(scaled), "the noise variance")

    def expansions(self, output: int = 0) -> list[list[Expansion]]:
        """List the polynomials of the local scale: one per covariance function and field.

        Their inputs are the scaled columns, spread by the monotone map; the transform is applied
        to their value. Of an average, they are those of the member with the largest weight.
        """
        base = fitted_output(self, output, "expansions")[1].base
        return [[Expansion(base.process.basis, field) for field in fields]
                for fields in base.parameters.coefficients]

    def save(self, path: str | Path, *, force: bool = False) -> Path:
        """Keep the fitted model in a file, written whole or not at all; see `pcegp.load`.

        The file holds numbers and text only: loading it runs nothing. It contains the
        training data. It replaces another model file, but a file of another kind only by `force`.
        """
        check_is_fitted(self, "model_")
        return model_state.write(path, [self], force)

    @classmethod
    def load(cls, path: str | Path, max_gb: float = 2.0) -> Self:
        """Load a model from a file that `save` made; anything else is a ModelFileError.

        A file above `max_gb`, or a model that would take more in memory, is refused.
        """
        return model_state.read(path, cls, max_gb)[0]

    def __getstate__(self) -> dict[str, Any]:
        """Give pickle, joblib and skops plain data; the Cholesky factor is computed again."""
        state = cast(dict[str, Any], super().__getstate__())
        if "model_" not in state:
            return state
        try:
            plain = model_state.state_of(self)
        except SettingError:  # a scaler of the user's own: as it is
            return state
        others = {name: value for name, value in state.items() if name not in model_state.RESTORED}
        return {**others, "_state": tuple(plain)}

    def __setstate__(self, state: dict[str, Any]) -> None:
        state = dict(state)
        plain = state.pop("_state", None)
        self.__dict__.update(state)
        if plain is not None:
            model_state.restore(self, model_state.State(*plain))

    def __copy__(self) -> Self:
        twin = type(self).__new__(type(self))
        twin.__dict__.update(self.__dict__)
        return twin


class _Processes:
    """Makes the processes of one table, each once."""

    def __init__(
        self, settings: Settings, X: FloatArray, weights: FloatArray, cache: ArrayCache | None
    ) -> None:
        self._settings, self._X, self._weights, self._cache = settings, X, weights, cache
        self._maps: dict[str, MonotoneMap] = {}
        self._known: dict[Form, Process] = {}

    def __call__(self, form: Form) -> Process:
        if form not in self._known:
            if form.input_map not in self._maps:
                self._maps[form.input_map] = fit_monotone(form.input_map, self._X, self._weights)
            self._known[form] = self._settings.process(
                self._X, self._cache, form, self._maps[form.input_map]
            )
        return self._known[form]


def fit_cached(
    model: PCEGPRegressor, X: ArrayLike, y: ArrayLike, cache: ArrayCache
) -> PCEGPRegressor:
    """Fit a model whose polynomial bases are shared with others through a cache."""
    return model._fit(X, y, cache=cache)


def fit_named(
    model: PCEGPRegressor, X: ArrayLike, y: ArrayLike, names: Sequence[str] | None
) -> PCEGPRegressor:
    """Fit a model on columns of an array that have names."""
    return model._fit(X, y, names=names)


def fitted_output(
    model: PCEGPRegressor, output: int, caller: str
) -> tuple[FittedModel, Output]:
    """Find one output of a fitted model, or say what is wrong with the call of `caller`."""
    if isinstance(model, Composite):
        raise SettingError(
            f"{caller} takes one model, and a {type(model).__name__} has several: pass one of "
            "model.members()"
        )
    if not isinstance(model, PCEGPRegressor):
        raise SettingError(
            f"{caller} takes a fitted PCEGPRegressor, not {type(model).__name__}"
            + (": of a pipeline, pass the last step" if hasattr(model, "steps") else "")
        )
    check_is_fitted(model, "model_")
    validation.check_integer("output", output, 0)
    outputs = model.model_.outputs
    if output >= len(outputs):
        raise SettingError(
            f"output={output} does not exist: the model has {len(outputs)}, from 0 on"
        )
    return model.model_, outputs[output]


def _is_large(options: Options, n_rows: int) -> bool:
    """Tell whether a table is trained by likelihoods of some of its rows."""
    return isinstance(options.inference, Neighbours) and n_rows > FEWEST_ROWS


def _bar(options: Options, prefix: str) -> AbstractContextManager[Update | None]:
    """Show the stages of a fit; those that compare structures count them, and have no loss."""
    if options.optimizer == "lbfgs":
        return bar(True, None, "starting", prefix=prefix)
    return bar(True, options.max_iter, TRAINING, "loss {loss:.3f}", prefix, loss=None)


def _output(found: Fit, target: TargetScaler) -> Output:
    """Take over what training made of one standardised target."""
    steps = found.history
    history = {
        "loss": np.array(steps.loss),
        "nll": np.array(steps.nll),
        "loo_rmse": target.deviation(np.array(steps.loo_rmse)),
        "loo_nll": np.array(steps.loo_nll) + target.log_width,
    }
    return Output(target, found.posterior, history, found.checkpoints, found.info)


def checked_state(random_state: Any) -> np.random.RandomState:
    """Make NumPy's RandomState from None, a seed or a RandomState, or say what is wrong."""
    try:
        return check_random_state(random_state)
    except ValueError:
        raise SettingError(
            f"random_state={random_state!r} must be a whole number from 0 to {2**32 - 1}, a "
            "RandomState or None"
        ) from None


def generator(random_state: Any) -> np.random.Generator:
    """Make NumPy's generator from a random state, which is advanced."""
    return np.random.default_rng(checked_state(random_state).randint(2**31 - 1))


def _has_own_parts(settings: Settings, scaler: Any) -> bool:
    """Tell whether a part of a model is its user's own, and not one of this package."""
    parts = (settings.transform, settings.noise_transform, settings.options.inference,
             *settings.families, *settings.options.priors)
    kernels = [getattr(each.kernel, "_pyfunc", each.kernel)
               for covariances in settings.covariances for each in covariances]
    homes = [part.__module__ for part in (*map(type, parts), *kernels)]
    return not isinstance(scaler, str) or not all(home.startswith("pcegp.") for home in homes)


def _warn_about_fit(model: FittedModel, n_terms: int, n_rows: int) -> None:
    """Warn about a singular covariance, a divergence, an interrupt and more terms than rows."""
    for out in model.outputs:
        info = out.info
        if info["jitter"] > 0.0:
            warn(f"the covariance was singular to rounding: {info['jitter']:.2g} was added to "
                 "its diagonal (raise noise_floor to avoid this)", NumericalWarning)
        if info.get("n_rate_reductions"):
            warn(f"training diverged {info['n_rate_reductions']} times; it went back to its "
                 "best state with a lower rate each time (lower learning_rate to avoid this)",
                 NumericalWarning)
        if info["interrupted"]:
            warn(f"training was interrupted after {model.n_iter} of {model.options.max_iter} "
                 "steps: this is the best model so far", NumericalWarning)
    if n_terms > n_rows > 1:
        warn(f"the scale's expansion has {n_terms} terms for {n_rows} rows: a lower "
             "degree or max_interaction=1 may predict better", DataWarning)
