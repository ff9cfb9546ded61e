"""`explain(model)`: what a fitted model has learned, in the user's features."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray
from sklearn.utils.validation import check_is_fitted

from pcegp.errors import SettingError
from pcegp.estimators import settings
from pcegp.estimators.regressor import PCEGPRegressor
from pcegp.inference.exact import Posterior
from pcegp.inspection import nonstationarity
from pcegp.inspection.formulas import Formula, formula_of
from pcegp.inspection.nonstationarity import Field, Folding
from pcegp.polynomials.expansion import Expansion
from pcegp.preprocessing.validation import check_integer

FloatArray = NDArray[np.float64]


@dataclass(frozen=True)
class Explanation:
    """What a model has learned about where and why the process changes its character.

    Attributes
    ----------
    names : features that vary in training, d of them
    shares : (d,) share of each in the variation of the local scale
    share_spread : (d,) standard deviation of the shares over refits on resampled rows,
        or None if none were asked for
    fields : the polynomials of the local scale, one or more for each covariance function
    noise : formula of the noise variance, in squared units of the target
    folding : pairs of distant rows that the warp brings together
    """

    names: tuple[str, ...]
    shares: FloatArray
    share_spread: FloatArray | None
    fields: tuple[Field, ...]
    noise: Formula
    folding: Folding
    _model: PCEGPRegressor = field(repr=False)
    _posterior: Posterior = field(repr=False)

    @property
    def variation(self) -> float:
        """How much the local scale varies at all: its deviation over its mean, on the box.

        All fields together, each by the variance of its covariance function. Below some
        0.1 the process is nearly stationary, and the shares divide very little.
        """
        weights = np.array([part.variance_share for part in self.fields])
        spread = weights @ np.array([part.sobol.variance for part in self.fields])
        level = weights @ np.array([part.sobol.mean**2 for part in self.fields])
        return float(np.sqrt(spread / level)) if level > 0.0 else 0.0

    def relevance(self, X: ArrayLike) -> FloatArray:
        """How much each feature matters at rows X (m, D): (m, d).

        About how many correlation lengths its training range spans, were the process
        everywhere as it is at that row.
        """
        scaled = self._model._scaled_inputs(X, count_outside=False)
        return nonstationarity.relevance(self._posterior, scaled)

    def speed(self, X: ArrayLike) -> FloatArray:
        """How fast the model believes the function to vary at rows X (m, D): (m,)."""
        return np.asarray(np.linalg.norm(self.relevance(X), axis=1))

    def as_dict(self) -> dict[str, Any]:
        """The explanation as plain data, for JSON."""
        spread = self.share_spread
        return {
            "variation": self.variation,
            "shares": dict(zip(self.names, self.shares.tolist(), strict=True)),
            "share_spread": None if spread is None
            else dict(zip(self.names, spread.tolist(), strict=True)),
            "fields": [self._field_as_dict(part) for part in self.fields],
            "noise": self.noise.text(),
            "folded_pairs": self.folding.share,
        }

    def _field_as_dict(self, part: Field) -> dict[str, Any]:
        return {
            "covariance": part.covariance,
            "input": part.input,
            "variance_share": part.variance_share,
            "scale": part.formula.text(),
            "mean": part.sobol.mean,
            "variance": part.sobol.variance,
            "first_order": dict(zip(self.names, part.sobol.first.tolist(), strict=True)),
            "total": dict(zip(self.names, part.sobol.total.tolist(), strict=True)),
        }

    def __str__(self) -> str:
        lines = [f"The local scale varies by {self.variation:.0%}. Share of each input in that:"]
        width = max(map(len, self.names))
        for i in np.argsort(-self.shares, kind="stable"):
            spread = "" if self.share_spread is None else f" ± {self.share_spread[i]:.2f}"
            lines.append(f"  {self.names[i]:{width}s} {self.shares[i]:.3f}{spread}")
        largest = max(self.fields, key=lambda part: part.variance_share * part.sobol.variance)
        what = "" if largest.input is None else f" of {largest.input}"
        lines += [
            "",
            f"Local scale{what} in {largest.covariance}, the one that varies most "
            "(scaled inputs):",
            f"  {_shortened(largest.formula.text(3, scaled=True))}",
            "",
            "Noise variance:",
            f"  {_shortened(self.noise.text(3))}",
        ]
        if self.folding.share > 0.0:
            lines += ["", f"Folded: {self.folding.share:.1%} of the pairs of rows are more alike "
                      "to the model than to the points between them."]
        return "\n".join(lines)


def _shortened(text: str, length: int = 300) -> str:
    return text if len(text) <= length else text[:length].rsplit(" ", 1)[0] + " ..."


def explain(
    model: PCEGPRegressor, *, n_refits: int = 8, output: int = 0, random_state: int = 0
) -> Explanation:
    """Explain a fitted model.

    Parameters
    ----------
    model : fitted PCEGPRegressor
    n_refits : int
        Short refits on resampled rows, for the spread of the shares; 0 for none.
    output : int
        Which output, where the model has several.
    random_state : int
        Seed of the resampling.

    Examples
    --------
    >>> import numpy as np
    >>> from pcegp import PCEGPRegressor, explain
    >>> x = np.linspace(0, 1, 30)[:, None]
    >>> model = PCEGPRegressor(max_iter=50).fit(x, np.sin(20 * x[:, 0] ** 2))
    >>> explain(model, n_refits=2).names
    ('x1',)
    """
    check_integer("n_refits", n_refits, 0)
    posterior = posterior_of(model, output)
    names = names_of(model)
    affine = model._inputs.scaler.affine
    options = settings.resolve(model.get_params()).training
    rng = np.random.default_rng(random_state)
    spread = None
    if n_refits:
        spread = nonstationarity.share_spread(posterior, options, n_refits, rng)
    return Explanation(
        names=tuple(names),
        shares=nonstationarity.variance_shares(posterior),
        share_spread=spread,
        fields=tuple(nonstationarity.fields(posterior, names, affine)),
        noise=_noise(model, posterior, names, output),
        folding=nonstationarity.folding(posterior),
        _model=model,
        _posterior=posterior,
    )


def posterior_of(model: PCEGPRegressor, output: int) -> Posterior:
    """One output of a fitted model, or an error that says what is wrong with the call."""
    if not isinstance(model, PCEGPRegressor):
        raise SettingError(
            f"explain takes a fitted PCEGPRegressor, not {type(model).__name__}: of a pipeline, "
            "pass the last step"
        )
    check_is_fitted(model, "posteriors_")
    check_integer("output", output, 0)
    if output >= len(model.posteriors_):
        raise SettingError(
            f"output={output} does not exist: the model has {len(model.posteriors_)}, from 0 on"
        )
    return model.posteriors_[output]


def names_of(model: PCEGPRegressor) -> list[str]:
    """The features that vary; one for all where none does."""
    active = np.flatnonzero(model.active_columns_)
    given = getattr(model, "feature_names_in_", None)
    if not active.size:
        return ["constant"]
    return [f"x{j + 1}" if given is None else str(given[j]) for j in active]


def _noise(
    model: PCEGPRegressor, posterior: Posterior, names: list[str], output: int
) -> Formula:
    structure = posterior.structure
    expansion = Expansion(structure.noise_basis, posterior.parameters.noise)
    unit = float(model._targets[output].covariance(np.array(1.0)))
    return formula_of(
        expansion, names, structure.noise_transform.name, model._inputs.scaler.affine,
        float(posterior.noise_offset[0]), factor=unit, floor=structure.noise_floor,
    )
