"""Explanations, diagnostics and pictures: what a fitted model has learned, and how sure it is."""

from pcegp.inspection.diagnostics import Diagnostics, diagnose
from pcegp.inspection.explanation import Explanation, explain
from pcegp.inspection.nonstationarity import variance_shares
from pcegp.inspection.report_page import report
from pcegp.inspection.structure import structure_text

__all__ = [
    "Diagnostics", "Explanation", "diagnose", "explain", "report", "structure_text",
    "variance_shares",
]
