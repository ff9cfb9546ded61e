"""Common interface of regressors that are several fitted models: mixtures and searches."""

from abc import ABC, abstractmethod
from typing import Any

from numpy.typing import ArrayLike

from pcegp._typing import FloatArray


class Composite(ABC):
    """A regressor made of fitted models; of a search, the best one comes first."""

    @abstractmethod
    def members(self) -> list[Any]:
        """List the fitted `PCEGPRegressor` objects."""

    @abstractmethod
    def sample_y(
        self, X: ArrayLike, n_samples: int = 1, random_state: Any = 0, include_noise: bool = True
    ) -> FloatArray:
        """Draw functions at X (m, D)."""

    @abstractmethod
    def predict_interval(
        self, X: ArrayLike, coverage: float = 0.95, n_folds: int = 5
    ) -> tuple[FloatArray, FloatArray]:
        """Compute intervals that cover new values as often as they say."""


def members_of(model: Any) -> list[Any]:
    """List the fitted models of a composite; of any other model, itself."""
    return model.members() if isinstance(model, Composite) else [model]
