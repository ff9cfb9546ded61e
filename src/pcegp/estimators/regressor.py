"""PCEGPRegressor: a thin scikit-learn shell around training and inference."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, Self

import numpy as np
from numpy.typing import ArrayLike, NDArray
from sklearn.base import BaseEstimator, MultiOutputMixin, RegressorMixin, clone
from sklearn.utils.validation import column_or_1d, validate_data

from pcegp._progress import bar
from pcegp.errors import (
    DataWarning,
    NumericalWarning,
    warn,
)
from pcegp.estimators import settings
from pcegp.estimators.fitted_model import FittedMixin, generator
from pcegp.numerics.memory import check_memory
from pcegp.polynomials.families import Polynomials
from pcegp.preprocessing.inputs import fit_inputs
from pcegp.preprocessing.scaling import fit_target_scaler, settled
from pcegp.preprocessing.validation import (
    check_finite_inputs,
    check_numeric,
    check_targets,
    check_weights,
)
from pcegp.training.fit import Fit, fit, n_steps

FloatArray = NDArray[np.float64]

ALL_COVARIANCES = (
    "squared_exponential",
    "absolute_exponential",
    "matern32",
    "matern52",
    "rational_quadratic",
)
_FEW_ROWS = 6


class PCEGPRegressor(FittedMixin, MultiOutputMixin, RegressorMixin, BaseEstimator):
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
    noise_delay : int or None
        Keep the noise constant for that many first steps, so that it does not explain what
        the process could; None is 200, but at most half of `max_iter`.
    noise_floor : float
        Smallest noise variance, in units of the target's variance. Where training finds next
        to none, a smooth model without noise is tried as well (see `pcegp.training.noise_free`).
    input_scaler : {"minmax", "standard", "none"} or scikit-learn transformer
        Scaling of the inputs; it is part of the model.
    input_range : pair of float
        Range that "minmax" maps the training inputs to.
    penalty : float
        Strength of the elastic net on the non-constant coefficients, added to the negative
        log likelihood. It is multiplied by the root of the number of those coefficients
        in a covariance function (or in the noise).
    l1_ratio : float in [0, 1]
        Share of the L1 part; above 0, coefficients become exactly zero.
    prior : float
        Precision of normal priors on all other parameters (constants of the expansions,
        logarithms of variances), centred at their start; 0 turns them off.
    learning_rate : float
        Step size of the Nadam optimiser.
    max_iter : int
        Number of steps.
    averaging : int
        The result is an exponential average over about this many last steps; 1 turns
        averaging off.
    initial_scale : float, sequence of float or None
        Start value of the local scale, one number or one per covariance function; None
        takes 3 / sqrt(number of inputs).
    n_restarts : int
        Further starts (multiples of `initial_scale`, then random), compared by short
        probes; the best is trained to the end.
    n_draws : int
        Draws of the parameters after training (see `pcegp.training.hmc`). What they leave open is
        added to the variance of predictions; 0 takes the parameters for certain and nearly
        halves the time of `fit`.
    warm_up_rows : int or None
        With more rows than this, the first 300 steps of training see that many of them, drawn at
        random, which costs little; the others see all (with `max_iter` of at most 300, none
        do). None shows all rows to every step.
    checkpoints : sequence of int
        Steps after which the model is kept; see `at_checkpoint`.
    patience : int or None
        Stop when the leave-one-out likelihood has not improved for that many steps
        (counted from `noise_delay` on if the noise is expanded), and return to the
        average of the steps around the best.
    max_basis_gb : float
        Refuse a polynomial basis that needs more memory than this.
    n_jobs : int or None
        At most this many threads; None or -1 uses what BLAS is allowed.
    random_state : int, RandomState or None
        Seeds draws, the choice of rows for probes and the warm-up, and random restarts.
    verbose : bool
        Show a progress bar.

    Attributes
    ----------
    posteriors_ : list of Posterior, one per output
    log_marginal_likelihood_ : float or (t,) array, of the standardised targets
    history_ : dict of arrays (list of dicts for several outputs)
        "loss", "nll", "loo_rmse", "loo_nll" after each step; entry 0 is the start. The
        leave-one-out entries are in the target's units. With a warm-up, the entries before its
        last step are of some of the rows.
    fit_info_ : dict (list of dicts for several outputs)
        "condition_number" (of the covariance of the data, an estimate), "jitter" (added to its
        diagonal at the end), "n_jittered_steps", "n_rate_reductions", "fell_back_to_best" (the last
        steps had lost what training had gained), "interrupted", "n_factorisations" (Cholesky
        factorisations that the fit took).
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
        scale_transform: str = "exponential",
        noise: str = "expansion",
        noise_degree: int = 1,
        noise_transform: str = "exponential",
        noise_delay: int | None = None,
        noise_floor: float = 1e-10,
        input_scaler: Any = "minmax",
        input_range: tuple[float, float] = (-0.5, 0.5),
        penalty: float = 3.0,
        l1_ratio: float = 0.0,
        prior: float = 1.0,
        learning_rate: float = 0.03,
        max_iter: int = 400,
        averaging: int = 30,
        initial_scale: float | Sequence[float] | None = None,
        n_restarts: int = 0,
        n_draws: int = 4,
        warm_up_rows: int | None = 2000,
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
        self.noise_delay = noise_delay
        self.noise_floor = noise_floor
        self.input_scaler = input_scaler
        self.input_range = input_range
        self.penalty = penalty
        self.l1_ratio = l1_ratio
        self.prior = prior
        self.learning_rate = learning_rate
        self.max_iter = max_iter
        self.averaging = averaging
        self.initial_scale = initial_scale
        self.n_restarts = n_restarts
        self.n_draws = n_draws
        self.warm_up_rows = warm_up_rows
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
            "scale": "shared", "degree": 5, "scale_transform": "identity", "noise": "constant",
            "noise_floor": 1e-4, "penalty": 0.0, "prior": 0.0, "learning_rate": 0.01,
            "max_iter": 300, "averaging": 1, "initial_scale": 1.0, "n_restarts": 0, "n_draws": 0,
            "warm_up_rows": None,
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
        # A fit that fails must not leave an old posterior beside new scalers.
        for name in ("posteriors_", "_cross_fits"):
            self.__dict__.pop(name, None)
        columns, targets = self._validated(X, y)
        weights = check_weights(sample_weight, len(columns))
        kept = weights > 0.0
        columns, targets, weights = columns[kept], targets[kept], weights[kept]
        check_memory(len(columns))

        scaler = self.input_scaler
        scaler = clone(scaler) if hasattr(scaler, "get_params") else scaler
        self._inputs = fit_inputs(columns, scaler, self.input_range, weights)
        self._targets = [fit_target_scaler(column, weights) for column in targets.T]
        self.active_columns_ = self._inputs.active
        self._warn_about_data(targets)
        scaled = self._inputs.transform(columns)
        rng = generator(self.random_state)
        fits = []
        for number, (column, target) in enumerate(zip(targets.T, self._targets, strict=True), 1):
            label = "training" if self._one_output else f"output {number} of {targets.shape[1]}"
            with bar(self.verbose, n_steps(resolved, len(columns)), label, "loss {loss:.3f}",
                     loss=np.nan) as update:
                values = settled(target.transform(column))
                fits.append(fit(scaled, values, weights, resolved, rng, update))
            if fits[-1].interrupted:
                resolved = resolved.hurried()  # the outputs that are left
        self._keep(fits)
        n_terms = self.posteriors_[0].structure.basis.n_terms
        if n_terms > len(columns):
            warn(f"the scale's expansion has {n_terms} terms for {len(columns)} rows: a lower "
                 "degree or max_interaction=1 may predict better", DataWarning)
        return self

    def _validated(self, X: ArrayLike, y: ArrayLike) -> tuple[FloatArray, FloatArray]:
        """Columns (n, D) and targets (n, t), checked and converted."""
        check_numeric(X)
        check_targets(y)
        columns, targets = validate_data(
            self, X, y, dtype=np.float64, multi_output=True, y_numeric=True,
            ensure_all_finite=False,
        )
        check_finite_inputs(columns, self._names())
        if targets.ndim == 2 and targets.shape[1] == 1:
            targets = column_or_1d(targets, warn=True)
        self._one_output = targets.ndim == 1
        return columns, np.asarray(targets, dtype=np.float64).reshape(len(columns), -1)

    def _warn_about_data(self, targets: FloatArray) -> None:
        constant = self._inputs.constant_columns(self._names())
        if constant:
            warn(f"constant column {', '.join(constant)}: ignored in the model", DataWarning)
        if len(targets) < _FEW_ROWS:
            warn(f"only {len(targets)} rows: the intervals rest on the prior more than on data",
                 DataWarning)
        if (targets.min(axis=0) == targets.max(axis=0)).any():
            warn("y is constant: the model predicts that constant", DataWarning)

    def _keep(self, fits: list[Fit]) -> None:
        """Set the fitted attributes and warn about what training had to do."""
        self.posteriors_ = [f.posterior for f in fits]
        self._checkpoints = [f.checkpoints for f in fits]
        self.n_iter_ = max(f.n_iter for f in fits)
        self._set_likelihood()
        pairs = zip(fits, self._targets, strict=True)
        histories = [f.history.in_units(target) for f, target in pairs]
        infos = [f.info() for f in fits]
        self.history_ = histories[0] if self._one_output else histories
        self.fit_info_ = infos[0] if self._one_output else infos
        for info in infos:
            self._warn_about_fit(info)

    def _warn_about_fit(self, info: dict[str, Any]) -> None:
        if info["jitter"] > 0.0:
            warn(f"the covariance was singular to rounding: {info['jitter']:.2g} was added to its "
                 "diagonal (raise noise_floor to avoid this)", NumericalWarning)
        if info["n_rate_reductions"]:
            warn(f"training diverged {info['n_rate_reductions']} times; it went back to its best "
                 "state with a lower rate each time (lower learning_rate to avoid this)",
                 NumericalWarning)
        if info["interrupted"]:
            warn(f"training was interrupted after {self.n_iter_} of {self.max_iter} steps: this "
                 "is the best model so far", NumericalWarning)
