"""What a fitted model has learned and how far to trust it: explanations, diagnostics, pictures."""

from pcegp.inspection.diagnostics import Diagnostics, diagnose
from pcegp.inspection.explanation import Explanation, explain
from pcegp.inspection.nonstationarity import variance_shares
from pcegp.inspection.report_page import report

__all__ = ["Diagnostics", "Explanation", "diagnose", "explain", "report", "variance_shares"]
