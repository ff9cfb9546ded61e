"""`python -m pcegp` is the command `pcegp`."""

from pcegp.cli.app import app

app(prog_name="pcegp")
