"""`explain(model)`: what a fitted model has learned, in the user's features."""

from dataclasses import dataclass, field
from typing import Any

import numpy as np
from numpy.typing import ArrayLike

from pcegp._progress import bar
from pcegp._typing import FloatArray
from pcegp.errors import SettingError, shown
from pcegp.estimators import (
    Composite,
    FittedModel,
    Output,
    PCEGPRegressor,
    fitted_output,
    members_of,
)
from pcegp.inference import Conditioned
from pcegp.inspection import nonstationarity
from pcegp.inspection.formulas import Formula, formula_of
from pcegp.inspection.nonstationarity import Field, Folding
from pcegp.inspection.structure import structure_text, target_text
from pcegp.polynomials import Expansion
from pcegp.preprocessing import validation

NEARLY_CONSTANT = 0.1  # variation of a local scale that hardly matters
_NAME = 1000  # characters of a name that are printed


@dataclass(frozen=True)
class Explanation:
    """An explanation of a model: where and why the process changes its character.

    Attributes
    ----------
    structure : what the model is made of, see `pcegp.inspection.structure`
    names : features that vary in training, d of them
    shares : (d,) share of each in the variation of the local scale
    share_spread : (d,) standard deviation of the shares over refits on resampled rows,
        or None if none were asked for
    fields : the polynomials of the local scale, one or more for each covariance function
    noise : formula of the noise variance, in squared units of the target; of a map of the target,
        it is in units of the map's variance
    describes : what the process describes: the target, or a logarithm of it
    folding : pairs of distant rows that the warp brings together
    n_models : how many models a mixture has; this explains the first of them
    input_map : name of the monotone map that spreads the scaled inputs, before the polynomials
    """

    structure: str
    names: tuple[str, ...]
    shares: FloatArray
    share_spread: FloatArray | None
    fields: tuple[Field, ...]
    noise: Formula
    folding: Folding
    n_models: int
    input_map: str
    describes: str
    _model: PCEGPRegressor = field(repr=False)
    _fitted: FittedModel = field(repr=False)
    _base: Conditioned = field(repr=False)

    @property
    def variation(self) -> float:
        """The deviation of the local scale over its mean, on the box of the training data.

        All fields together, each by the variance of its covariance function. Below some
        0.1 the process is nearly stationary, and the shares divide very little.
        """
        spread = sum(part.variation for part in self.fields)
        level = sum(part.variance_share * part.sobol.mean**2 for part in self.fields)
        return float(np.sqrt(spread / level)) if level > 0.0 else 0.0

    def relevance(self, X: ArrayLike) -> FloatArray:
        """Measure how much each feature matters at rows X (m, D): (m, d).

        About how many correlation lengths its training range spans, were the process
        everywhere as it is at that row.
        """
        columns = self._model.checked_rows(X)
        return nonstationarity.relevance(self._base, self._fitted.inputs.transform(columns))

    def speed(self, X: ArrayLike) -> FloatArray:
        """Measure how fast the model believes the function to vary at rows X (m, D): (m,)."""
        return np.asarray(np.linalg.norm(self.relevance(X), axis=1))

    def is_of(self, out: Output) -> bool:
        """Tell whether this explains that output of a fitted model."""
        return self._base is out.base

    def as_dict(self) -> dict[str, Any]:
        """Turn the explanation into plain data, for JSON."""
        spread = self.share_spread
        return {
            "structure": self.structure,
            "input_map": self.input_map,
            "variation": self.variation,
            "shares": self._by_name(self.shares),
            "share_spread": None if spread is None else self._by_name(spread),
            "fields": [self._field_as_dict(part) for part in self.fields],
            "noise": self.noise.text(),
            "folded_pairs": self.folding.share,
            "models": self.n_models,
        }

    def _field_as_dict(self, part: Field) -> dict[str, Any]:
        return {
            "covariance": part.covariance,
            "input": part.input,
            "variance_share": part.variance_share,
            "scale": part.formula.text(),
            "mean": part.sobol.mean,
            "variance": part.sobol.variance,
            "first_order": self._by_name(part.sobol.first),
            "total": self._by_name(part.sobol.total),
        }

    def _by_name(self, values: FloatArray) -> dict[str, float]:
        return dict(zip(self.names, values.tolist(), strict=True))

    def shares_text(self) -> str:
        """List the shares line by line, the largest first; if there are none, say why."""
        if not self.shares.any():
            where = ("is about the same everywhere" if self.input_map == "linear" else
                     f"changes its character only by the {self.input_map} map of the inputs")
            return f"The process {where}: its local scale is constant."
        nearly = (", so the process is nearly the same everywhere"
                  if self.variation < NEARLY_CONSTANT else "")
        lines = [f"The local scale varies by {self.variation:.0%}{nearly}. Share of each input in "
                 "that:"]
        names = [shown(name, _NAME) for name in self.names]
        width = max(map(len, names))
        for i in np.argsort(-self.shares, kind="stable"):
            spread = "" if self.share_spread is None else f" ± {self.share_spread[i]:.2f}"
            lines.append(f"  {names[i]:{width}s} {self.shares[i]:.3f}{spread}")
        return "\n".join(lines)

    def __str__(self) -> str:
        largest = max(self.fields, key=lambda part: part.variation)
        what = "" if largest.input is None else f" of {shown(largest.input, _NAME)}"
        what += f" in {largest.covariance}"
        what += ", the one that varies most" if self.shares.any() else ""
        spread = "" if self.input_map == "linear" else f", spread by {self.input_map}"
        lines = [] if self.n_models == 1 else [
            f"A mixture of {self.n_models} models; this is the first of them.", "",
        ]
        lines += [
            self.structure,
            "",
            self.shares_text(),
            "",
            f"Local scale{what} (scaled inputs{spread}):",
            f"  {_shortened(largest.formula.text(3, scaled=True))}",
            "",
            "Noise variance:" if self.describes == "the target" else
            f"Noise variance of {self.describes}, standardised:",
            f"  {_shortened(self.noise.text(3))}",
        ]
        if self.folding.share > 0.0:
            lines += ["", f"Folded: {self.folding.share:.1%} of the pairs of rows are more alike "
                      "to the model than to the points between them."]
        return "\n".join(lines)


def _shortened(text: str, length: int = 300) -> str:
    return text if len(text) <= length else text[:length].rsplit(" ", 1)[0] + " ..."


def explain(
    model: PCEGPRegressor | Composite, *, n_refits: int = 8, output: int = 0,
    random_state: int = 0, verbose: bool = False,
) -> Explanation:
    """Explain a fitted model.

    Parameters
    ----------
    model : fitted PCEGPRegressor, PCEGPMixture or PCEGPSearchCV
        Of several models the first one is explained, the best of a search; the text says so.
    n_refits : int
        Short refits on resampled rows, for the spread of the shares; 0 for none.
    output : int
        Which output, where the model has several.
    random_state : int
        Seed of the resampling.
    verbose : bool
        Show a progress bar.

    Examples
    --------
    >>> import numpy as np
    >>> from pcegp import PCEGPRegressor, explain
    >>> x = np.linspace(0, 1, 30)[:, None]
    >>> model = PCEGPRegressor(max_iter=50).fit(x, np.sin(20 * x[:, 0] ** 2))
    >>> explain(model, n_refits=2).names
    ('x1',)
    """
    validation.check_integer("n_refits", n_refits, 0)
    members = members_of(model)
    fitted, out = fitted_output(members[0], output, "explain")
    spread, rng = None, _generator(random_state)
    with bar(verbose, n_refits, "refits for the spread") as progress:
        if n_refits:
            spread = nonstationarity.share_spread(out.base, fitted.options, out.info, n_refits,
                                                  rng, progress)
        if progress is not None:
            progress(0, label="explaining")
        return _explanation(members, fitted, out, spread)


def _generator(random_state: Any) -> np.random.Generator:
    try:
        return np.random.default_rng(random_state)
    except (TypeError, ValueError):
        raise SettingError(f"random_state={random_state!r} must be a whole number of 0 or more"
                           ) from None


def _explanation(
    members: list[PCEGPRegressor], fitted: FittedModel, out: Output, spread: FloatArray | None
) -> Explanation:
    """Explain one output of the first of several models."""
    base, names = out.base, fitted.varying_names
    process = base.process
    unit = 1.0 if out.target_map is not None else float(
        out.covariance(np.array(1.0), "the noise variance"))
    # Behind another map, polynomials are of the inputs as the map spreads them.
    affine = fitted.inputs.scaler.affine if process.input_map.is_linear else None
    noise = formula_of(
        Expansion(process.noise_basis, base.parameters.noise), names, process.noise_transform,
        affine, float(base.noise_offset[0]),
        factor=unit,
        floor=process.noise_floor,
    )
    return Explanation(
        structure=structure_text(out),
        names=names,
        shares=nonstationarity.variance_shares(base),
        share_spread=spread,
        fields=nonstationarity.fields(base, names, affine),
        noise=noise,
        folding=nonstationarity.folding(base),
        n_models=len(members),
        input_map=process.input_map.name,
        describes=target_text(out),
        _model=members[0],
        _fitted=fitted,
        _base=base,
    )
