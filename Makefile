# `make demo` and `make test` do all the set-up: a virtual environment in .venv, made once
# and brought up to date only when pyproject.toml changes.

PYTHON ?= python3
VENV := .venv
BIN := $(VENV)/bin
PIP := $(BIN)/python -m pip install --quiet --disable-pip-version-check

.PHONY: demo test audit browser database bench-defaults bench-search bench-speed reproduce clean

demo: $(VENV)/installed-demo
	$(BIN)/pcegp demo --out demo

test: $(VENV)/installed-test audit browser database
	$(BIN)/ruff check .
	$(BIN)/mypy
	$(BIN)/pytest --numprocesses auto --dist loadfile

bench-defaults: $(VENV)/installed-bench
	$(BIN)/python benchmarks/defaults.py

bench-search: $(VENV)/installed-bench
	$(BIN)/python benchmarks/search.py nested
	$(BIN)/python benchmarks/search.py plain

bench-speed: $(VENV)/installed-bench
	$(BIN)/pcegp bench speed

reproduce: $(VENV)/installed-bench
	$(BIN)/pcegp reproduce --budget short

# Dependencies that fit together and have no known hole; without a network nothing is known.
audit: $(VENV)/installed-test
	@$(BIN)/python -m pip check
	@$(BIN)/pip-audit --local --skip-editable --progress-spinner off >$(VENV)/audit.txt 2>&1 || true
	@if grep -q "known vulnerabilit" $(VENV)/audit.txt && ! grep -q "No known" $(VENV)/audit.txt; \
	then cat $(VENV)/audit.txt; exit 1; fi
	@echo "Audit of dependencies: $$(grep -m1 -i -e 'vulnerabilit' -e 'could not be audited' \
	  -e 'ConnectionError' $(VENV)/audit.txt || echo nothing found)"

# The report is looked at in a real browser, where one can be had.
browser:
	@command -v chromium >/dev/null || command -v google-chrome >/dev/null \
	|| { test "$$(id -u)" = 0 && command -v apt-get >/dev/null \
	     && apt-get update -qq && apt-get install -y -qq --no-install-recommends chromium; } \
	>/dev/null 2>&1 || echo "No Chromium here: the report is not looked at in a browser"

# Several workers share a study in a real PostgreSQL server, where one can be had.
database:
	@ls /usr/lib/postgresql/*/bin/initdb >/dev/null 2>&1 || command -v initdb >/dev/null \
	|| { test "$$(id -u)" = 0 && command -v apt-get >/dev/null \
	     && apt-get update -qq && apt-get install -y -qq --no-install-recommends postgresql; } \
	>/dev/null 2>&1 || echo "No PostgreSQL here: its tests are skipped"

$(BIN)/python:
	$(PYTHON) -m venv $(VENV)

$(VENV)/installed-%: pyproject.toml | $(BIN)/python
	$(PIP) --constraint constraints.txt --editable '.[$(EXTRA)]'
	touch $@

$(VENV)/installed-demo: EXTRA = plot
$(VENV)/installed-test: EXTRA = test
$(VENV)/installed-bench: EXTRA = bench

clean:
	rm -rf $(VENV) demo
