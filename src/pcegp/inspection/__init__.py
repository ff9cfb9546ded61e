"""What a fitted model has learned and how far to trust it: explanations, diagnostics, pictures."""

from pcegp.inspection.diagnostics import diagnose
from pcegp.inspection.explanation import explain
from pcegp.inspection.report_page import report

__all__ = ["diagnose", "explain", "report"]
