"""Settings of a model: the user's parameters, checked and turned into objects."""

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import partial
from math import inf
from numbers import Real
from typing import Any, Self

import numpy as np

from pcegp._typing import FloatArray
from pcegp.errors import SettingError, unknown_name
from pcegp.estimators.presets import COVARIANCE_SETS
from pcegp.inference import DRAWS, ENGINES, EVERY_STEP, Exact, Inference, Neighbours
from pcegp.kernels import COVARIANCES, SCALES, TRANSFORMS, CovarianceFunction, Process, Transform
from pcegp.numerics import ArrayCache, check_memory
from pcegp.polynomials import FAMILIES, Polynomials, make_basis
from pcegp.polynomials.basis import count_terms
from pcegp.preprocessing import LINEAR, MONOTONE, MonotoneMap, validation
from pcegp.training import BENDS, PATH, PRIORS, Choices, ElasticNet, Form, Normal, Options, Prior

_NOISES = ("auto", "constant", "expansion", "none")
_OPTIMIZERS = ("lbfgs", "nadam")
# Degrees of the noise's expansion that are tried, by the number of inputs up to which.
_NOISE_DEGREES = ((1, (1, 3, 6)), (2, (1, 2, 4)), (10, (1, 2)), (inf, (1,)))
_NOISE_PENALTIES = (1.0, 0.1)  # of the expansions that are tried
# Below, the covariance of data without noise is singular to rounding, and no optimum is found.
_NOISE_FLOORS = {"lbfgs": 1e-6, "nadam": 1e-10}
#: With more rows, `inference="auto"` is that by nearest neighbours (docs/large.md).
MOST_EXACT_ROWS = 4000
_PENALTY = 3.0  # where it is not chosen by the evidence
_SPREAD = 3.0  # of the training box by the initial scale, over the root of the number of inputs
_LONGEST_NOISE_DELAY = 200  # steps
# Making a basis takes up to so many times what `make_basis` counts: multi-indices are sorted, and
# the parts of several families joined.
_WHILE_MADE = 4


@dataclass(frozen=True)
class Settings:
    """The settings of a `PCEGPRegressor`, checked and turned into objects."""

    covariances: tuple[tuple[CovarianceFunction, ...], ...]  # sets to choose from
    scale: str
    families: tuple[Polynomials, ...]
    degree: int
    hyperbolic: float
    max_interaction: int | None
    transform: Transform
    noise_degree: int
    noise_transform: Transform
    noise_floor: float
    initial_scale: float | Sequence[float] | None
    max_basis_gb: float
    noise: str
    input_map: str
    target_map: str
    penalty: float | str
    chooses_engine: bool  # by the number of rows
    options: Options

    def for_rows(self, n: int) -> Self:
        """Choose the engine for so many rows, where the settings leave it open."""
        if not self.chooses_engine or n <= MOST_EXACT_ROWS:
            return self
        return replace(self, options=replace(self.options, inference=Neighbours()))

    @property
    def form(self) -> Form:
        """The form of a process, as far as the settings leave no choice."""
        return Form(_names(self.covariances[0]), "linear", self.noise_degree)

    def process(
        self, X: FloatArray, cache: ArrayCache | None = None, form: Form | None = None,
        input_map: MonotoneMap = LINEAR,
    ) -> Process:
        """Make the process for scaled training inputs X (n, d); `cache` may hold its bases.

        Parameters
        ----------
        form : its covariance functions and the degree of its noise; None is that of the settings
        input_map : the map that the form names
        """
        covariances, _, noise_degree, _ = form or self.form
        X = input_map.transform(X)
        fields = self._n_fields(X.shape[1])
        truncation = (self.hyperbolic, self.max_interaction, self.max_basis_gb)
        terms, needed = self.bases(*X.shape)
        if needed <= _WHILE_MADE * self.max_basis_gb * 1e9:  # else refused below, by its limit
            check_memory(needed, f"a polynomial basis of {terms:,} terms at {len(X):,} points")
        basis = make_basis(self.families, X, self.degree, *truncation, fields, cache)
        # To look up a noise basis, a few columns as a rule, would cost more than to compute it.
        noise_basis = make_basis(self.families, X, noise_degree, *truncation)
        known = {_names(each): each for each in self.covariances}
        return Process(known[covariances], self.scale, self.transform, basis, noise_basis,
                       self.noise_transform, self.noise_floor, input_map)

    def choices(self, n_inputs: int) -> Choices:
        """List what the evidence chooses from, for so many inputs."""
        varies = self.degree > 0
        penalties: tuple[float, ...] = (inf,)
        if varies:
            penalties = (inf, *PATH) if self.penalty == "auto" else (float(self.penalty),)
        noises: tuple[tuple[int, float], ...] = ((0, inf),)
        if self.noise == "auto":
            degrees = next(d for most, d in _NOISE_DEGREES if n_inputs <= most)
            noises += tuple((degree, penalty) for degree in degrees for penalty in _NOISE_PENALTIES)
        elif self.noise_degree > 0:
            noises = ((self.noise_degree, _fixed(self.penalty)),)
        maps = MONOTONE if self.input_map == "auto" else (self.input_map,)
        sets = tuple(map(_names, self.covariances))
        bends = BENDS if self.target_map == "auto" else ()
        return Choices(sets, maps, penalties, noises, self.noise == "none", bends)

    def bases(self, n: int, d: int) -> tuple[int, int]:
        """Count the terms of both bases, and the bytes that they take at n points of d inputs."""
        truncation = (self.hyperbolic, self.max_interaction)
        scale, noise = (len(self.families) * count_terms(d, degree, *truncation)
                        for degree in (self.degree, self.noise_degree))
        fields = 12 * (scale * self._n_fields(d) + noise)  # as `make_basis` counts them
        return scale + noise, 8 * ((scale + noise) * (2 * n + _WHILE_MADE * d) + fields)

    def _n_fields(self, n_inputs: int) -> int:
        return max(map(len, self.covariances)) * (n_inputs if self.scale == "per_input" else 1)

    def scales(self, n_inputs: int) -> FloatArray:
        """Make start values of the local scale, one for each covariance function or one (1,)."""
        count = len(self.covariances[0]) if len(self.covariances) == 1 else 1
        scales = _initial_scales(self.initial_scale, count, n_inputs)
        return self.transform.reachable(scales) if self.initial_scale is None else scales


_positive = partial(validation.check_number, low=0.0, open_low=True)
_count = partial(validation.check_integer, low=0)
_RULES: dict[str, Callable[[str, Any], Any]] = {
    "input_range": validation.check_range,
    "degree": _count,
    "hyperbolic": partial(_positive, high=1.0),
    "max_interaction": validation.check_optional_integer,
    "noise_degree": _count,
    "penalty": partial(validation.check_number_or, "auto"),
    "l1_ratio": partial(validation.check_number, low=0.0, high=1.0),
    "learning_rate": _positive,
    "max_iter": partial(validation.check_integer, low=1),
    "averaging": partial(validation.check_integer, low=1),
    "n_restarts": _count,
    "warm_up_rows": validation.check_optional_integer,
    "patience": validation.check_optional_integer,
    "n_draws": _count,
    "max_basis_gb": _positive,
    "n_jobs": validation.check_optional_integer,
}


def resolve(parameters: Mapping[str, Any]) -> Settings:
    """Check the parameters of `PCEGPRegressor`; an error names the one that is wrong."""
    p: dict[str, Any] = dict(parameters)
    for name, known in (("scale", SCALES), ("noise", _NOISES), ("optimizer", _OPTIMIZERS),
                        ("input_map", ("auto", *MONOTONE)), ("target_map", ("auto", "linear"))):
        if p[name] not in known:
            raise unknown_name(name, p[name], known)
    if p["n_jobs"] == -1:
        p["n_jobs"] = None
    p |= validation.check_all(p, _RULES)
    if p["optimizer"] == "nadam":
        p |= _without_choices(p)
    _check_optimizer(p)
    is_expanded = p["noise"] in ("auto", "expansion")
    parts = validation.check_parts
    covariances = tuple(parts("covariance", each, COVARIANCES, CovarianceFunction)
                        for each in _covariance_sets(p))
    _initial_scales(p["initial_scale"], len(covariances[0]) if len(covariances) == 1 else 1, 1)
    noise_transform = _transform("noise_transform", p)
    return Settings(
        covariances=covariances,
        scale=p["scale"],
        families=parts("basis", p["basis"], FAMILIES, Polynomials),
        degree=p["degree"],
        hyperbolic=p["hyperbolic"],
        max_interaction=p["max_interaction"],
        transform=_transform("scale_transform", p),
        noise_degree=p["noise_degree"] if p["noise"] == "expansion" else 0,
        # A constant is kept positive by its logarithm, whatever the expansion would use.
        noise_transform=noise_transform if is_expanded else TRANSFORMS["exponential"],
        noise_floor=_noise_floor(p),
        initial_scale=p["initial_scale"],
        max_basis_gb=p["max_basis_gb"],
        noise=p["noise"],
        input_map=p["input_map"],
        target_map=p["target_map"],
        penalty=p["penalty"],
        # Nadam was made for exact inference, and its draws need it.
        chooses_engine=p["inference"] == "auto" and p["optimizer"] == "lbfgs",
        options=_options(p),
    )


def _names(covariances: Iterable[CovarianceFunction]) -> tuple[str, ...]:
    return tuple(covariance.name for covariance in covariances)


def _covariance_sets(p: Mapping[str, Any]) -> tuple[Any, ...]:
    """List the sets of covariance functions to choose from; Nadam takes the first."""
    if isinstance(p["covariance"], str) and p["covariance"] == "auto":
        return COVARIANCE_SETS[: 1 if p["optimizer"] == "nadam" else None]
    return (p["covariance"],)


def _noise_floor(p: Mapping[str, Any]) -> float:
    if p["noise_floor"] is None:
        return _NOISE_FLOORS["nadam" if p["noise"] == "none" else p["optimizer"]]
    return validation.check_number("noise_floor", p["noise_floor"], 0.0)


def _fixed(penalty: float | str) -> float:
    return _PENALTY if penalty == "auto" else float(penalty)


def _without_choices(p: Mapping[str, Any]) -> dict[str, Any]:
    """Fix what only the evidence chooses: Nadam has no converged optimum to judge by."""
    return {
        "penalty": _fixed(p["penalty"]),
        "input_map": "linear" if p["input_map"] == "auto" else p["input_map"],
        "target_map": "linear",
        "noise": "expansion" if p["noise"] == "auto" else p["noise"],
    }


def _check_optimizer(p: Mapping[str, Any]) -> None:
    """Refuse settings that the optimizer cannot serve."""
    if p["optimizer"] == "nadam":
        if p["noise"] == "none":
            raise SettingError('noise="none" needs optimizer="lbfgs"')
        return
    for name, off in (("l1_ratio", 0.0), ("patience", None), ("checkpoints", ()), ("n_draws", 0)):
        value = p[name]
        if value != off and not (isinstance(value, Sequence) and not value):
            raise SettingError(
                f'{name}={value!r} needs optimizer="nadam": set it, or leave {name} at {off!r}'
            )
    if isinstance(p["prior"], Real) and p["prior"] == 0.0:
        raise SettingError('prior=0 needs optimizer="nadam": the evidence of a model has a prior')
    if p["penalty"] == 0.0:
        raise SettingError('penalty=0 needs optimizer="nadam": the evidence of a model has a prior')


def _transform(name: str, p: Mapping[str, Any]) -> Transform:
    if isinstance(p[name], Transform):
        return p[name]
    return validation.check_choice(name, p[name], TRANSFORMS)


def _options(p: Mapping[str, Any]) -> Options:
    same = ("learning_rate", "max_iter", "averaging", "n_restarts", "warm_up_rows", "patience",
            "n_draws", "n_jobs")
    options = Options(
        inference=_engine(p["inference"]),
        optimizer=p["optimizer"],
        priors=_priors(p),
        prior=float(p["prior"]) if isinstance(p["prior"], Real) else 1.0,
        adapt_scales=p["initial_scale"] is None,
        noise_delay=(default_noise_delay(p["max_iter"]) if p["noise_delay"] is None
                     else _count("noise_delay", p["noise_delay"])),
        checkpoints=_checkpoints(p["checkpoints"], p["max_iter"]),
        **{name: p[name] for name in same},
    )
    _check_abilities(options)
    return options


def _engine(chosen: Any) -> Inference:
    if isinstance(chosen, Inference) and not isinstance(chosen, type):
        return chosen
    if chosen == "auto":
        return Exact()
    return validation.check_choice("inference", chosen, {"auto": Exact, **ENGINES})()


def _check_abilities(options: Options) -> None:
    """Refuse settings that the engine cannot serve."""
    engine = options.inference
    needed = (("patience", options.patience, None, EVERY_STEP),
              ("n_draws", options.n_draws, 0, DRAWS))
    for name, value, off, ability in needed:
        if value != off and ability not in engine.provides:
            raise SettingError(
                f"{name}={value} needs {ability}, which inference={engine.name!r} does not "
                f"provide: set {name}={off}"
            )


def _priors(p: Mapping[str, Any]) -> tuple[Prior, ...]:
    """Collect the priors that count: the elastic net, and the normal prior or the user's own."""
    net: tuple[Prior, ...] = ()
    by_nadam = p["optimizer"] == "nadam"  # else both are in the prior of the latent variables
    if by_nadam and p["penalty"] > 0.0:
        net = (ElasticNet(p["penalty"], p["l1_ratio"]),)
    if isinstance(p["prior"], str) or not np.isscalar(p["prior"]):
        known: dict[str, Prior] = {name: make() for name, make in PRIORS.items()}
        return net + validation.check_parts("prior", p["prior"], known, Prior)
    precision = validation.check_number("prior", p["prior"], 0.0)
    return (*net, Normal(precision)) if by_nadam and precision > 0.0 else net


def _checkpoints(value: Any, max_iter: int) -> tuple[int, ...]:
    if not isinstance(value, Iterable):
        raise SettingError(f"checkpoints={value!r} must be a list of steps")
    steps = tuple(validation.check_integer("checkpoints", step, 0) for step in value)
    if steps and max(steps) > max_iter:
        raise SettingError(
            f"checkpoints={list(steps)} goes beyond max_iter={max_iter}: raise max_iter"
        )
    return steps


def default_noise_delay(max_iter: int) -> int:
    """Choose the steps with constant noise where the user leaves them open."""
    return min(_LONGEST_NOISE_DELAY, max_iter // 2)


def _initial_scales(
    value: float | Sequence[float] | None, n_functions: int, n_inputs: int
) -> FloatArray:
    """Make one start value for each covariance function from None, one number or one each.

    None gives 3 / sqrt(d): two random points of the unit box are then about 1.2 apart (root
    mean square) whatever the number of inputs, neither nearly equal nor unrelated.
    """
    try:
        scales = np.asarray(_SPREAD / np.sqrt(n_inputs) if value is None else value, dtype=float)
    except (TypeError, ValueError):
        raise SettingError(f"initial_scale={value!r} must be numbers") from None
    if scales.ndim > 1 or scales.size not in (1, n_functions):
        raise SettingError(
            f"initial_scale has {scales.size} values: give one number, or one for each of the "
            f"{n_functions} covariance functions"
        )
    if not np.isfinite(scales).all():
        raise SettingError(f"initial_scale={value!r} holds a value that is not finite")
    return np.broadcast_to(scales, (n_functions,)).copy()
