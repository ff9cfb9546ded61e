"""What predicts by several fitted models: a mixture, and the answer of a search."""

from abc import ABC, abstractmethod
from typing import Any

from numpy.typing import ArrayLike

from pcegp._typing import FloatArray


class Composite(ABC):
    """A regressor made of fitted models, the best one first."""

    @abstractmethod
    def members(self) -> list[Any]:
        """List the fitted `PCEGPRegressor` objects, the best one first."""

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
