"""`python -m pcegp` is the command `pcegp`."""

from pcegp.cli import app

app(prog_name="pcegp")
