"""Automatic choice of settings by cross-validation: trials, races, studies, results."""

from pcegp.search.estimator import PCEGPSearchCV
from pcegp.search.nested import nested_cv

__all__ = ["PCEGPSearchCV", "nested_cv"]
