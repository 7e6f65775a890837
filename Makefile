# Needs python3.11 and make; everything else is fetched into .venv on the first call.
PYTHON ?= python3.11
BIN := .venv/bin
HOUSE := pyproject.toml constraints.txt

.PHONY: demo test test-slow check bench clean

demo: .venv/.plain
	$(BIN)/headway demo

test: .venv/.test
	OMP_NUM_THREADS=1 $(BIN)/python -m pytest -n 2 -m "not slow"

test-slow: .venv/.test
	OMP_NUM_THREADS=1 $(BIN)/python -m pytest -n 2 --dist loadgroup -m slow

check: .venv/.dev
	$(BIN)/ruff check .
	$(BIN)/ruff format --check .
	$(BIN)/basedpyright

bench: .venv/.peers
	$(BIN)/python bench/train.py

clean:
	rm -rf .venv build dist src/*.egg-info

$(BIN)/python:
	$(PYTHON) -m venv .venv

# One stamp for each set of packages: installed once, and again only when the house files change.
.venv/.plain: $(HOUSE) | $(BIN)/python
	$(BIN)/pip install -q -c constraints.txt -e .
	touch $@

.venv/.peers: $(HOUSE) | $(BIN)/python
	$(BIN)/pip install -q -c constraints.txt -e '.[peers]'
	touch $@ .venv/.plain

.venv/.test: $(HOUSE) | $(BIN)/python
	$(BIN)/pip install -q -c constraints.txt -e '.[test]'
	touch $@ .venv/.plain

.venv/.dev: $(HOUSE) | $(BIN)/python
	$(BIN)/pip install -q -c constraints.txt -e '.[dev]'
	touch $@ .venv/.test .venv/.plain
