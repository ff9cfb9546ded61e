"""Generators and seeds from what scikit-learn calls a random state."""

from typing import Any

import numpy as np
from sklearn.utils import check_random_state

from pcegp.errors import SettingError

_END = 2**32  # of the seeds that NumPy takes


def checked_state(random_state: Any) -> np.random.RandomState:
    """Make NumPy's RandomState from None, a seed or a RandomState, or say what is wrong."""
    try:
        return check_random_state(random_state)
    except ValueError:
        raise SettingError(
            f"random_state={random_state!r} must be a whole number from 0 to {_END - 1}, a "
            "RandomState or None"
        ) from None


def generator(random_state: Any) -> np.random.Generator:
    """Make NumPy's generator from a random state, which is advanced."""
    return np.random.default_rng(drawn_seed(random_state))


def drawn_seed(random_state: Any) -> int:
    """Draw a seed by a random state, which is advanced."""
    return int(checked_state(random_state).randint(2**31 - 1))
