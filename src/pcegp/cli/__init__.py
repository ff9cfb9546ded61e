"""The `pcegp` command, one module per command."""

from pcegp.cli.app import app

__all__ = ["app"]
