"""What a fit tells its user: data from which little can be learned, and trouble in training."""

from collections.abc import Sequence

from pcegp._typing import FloatArray
from pcegp.errors import DataWarning, NumericalWarning, warn
from pcegp.estimators.fitted_model import FittedModel
from pcegp.preprocessing import InputMap

_FEW_ROWS = 6


def warn_about_data(
    inputs: InputMap, targets: FloatArray, names: Sequence[str] | None,
    weights: FloatArray | None = None,
) -> None:
    """Warn about constant columns, very few rows and a constant target.

    Parameters
    ----------
    inputs : map of the columns
    targets : (n, t)
    names : of all columns, where the user gave them
    weights : (n,), None for ones
    """
    n = len(targets)
    if n == 1:  # every column and every target is constant
        warn("only 1 row: the model predicts its target everywhere, and R2 is not defined; give 2 "
             f"rows or more, and {_FEW_ROWS} for intervals that rest on data", DataWarning)
        return
    if not inputs.active.all():
        constant = ", ".join(inputs.constant_columns(names))
        warn(f"constant column {constant}: ignored in the model", DataWarning)
    counted = n if weights is None else float(weights.sum())
    if n < _FEW_ROWS:
        warn(f"only {n} rows: the intervals rest on the prior more than on data; give {_FEW_ROWS} "
             "rows or more", DataWarning)
    elif counted < _FEW_ROWS:
        warn(f"the weights of {n} rows sum to {counted:.3g}, and count as so many rows: the model "
             "rests on the prior more than on data; scale them to a mean of 1", DataWarning)
    if (targets.min(axis=0) == targets.max(axis=0)).any():
        warn("y is constant: the model predicts that constant", DataWarning)


def warn_about_fit(model: FittedModel, n_terms: int, n_rows: int) -> None:
    """Warn about a singular covariance, a divergence, an interrupt and more terms than rows."""
    for out in model.outputs:
        info = out.info
        if info["jitter"] > 0.0:
            warn(f"the covariance was singular to rounding: {info['jitter']:.2g} was added to "
                 "its diagonal (raise noise_floor to avoid this)", NumericalWarning)
        if info["n_rate_reductions"]:
            warn(f"training diverged {info['n_rate_reductions']} times; it went back to its "
                 "best state with a lower rate each time (lower learning_rate to avoid this)",
                 NumericalWarning)
        if info["interrupted"]:
            warn(f"training was interrupted after {model.n_iter} of {model.options.max_iter} "
                 "steps: this is the best model so far", NumericalWarning)
    if n_terms > n_rows > 1:
        warn(f"the scale's expansion has {n_terms} terms for {n_rows} rows: a lower "
             "degree or max_interaction=1 may predict better", DataWarning)
