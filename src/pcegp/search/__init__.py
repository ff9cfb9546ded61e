"""Automatic choice of settings by cross-validation: trials, races, studies, results."""

from pcegp.search.estimator import PCEGPSearchCV, search_named
from pcegp.search.nested import nested_cv
from pcegp.search.storage import quiet_optuna, without_password
from pcegp.search.trials import TrialRecord, plain, records_of

__all__ = [
    "PCEGPSearchCV", "TrialRecord", "nested_cv", "plain", "quiet_optuna", "records_of",
    "search_named", "without_password",
]
