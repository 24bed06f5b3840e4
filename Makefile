# Everything starts here: `make demo` to see it work, `make test` before a change is handed in.
# Both create .venv and install into it; only Python 3.11 or newer and make are needed.

PYTHON ?= python3
VENV := .venv
BIN := $(VENV)/bin
CODE := src tests benchmarks examples release fuzz studies
# LOCK=requirements.lock installs the versions that the tests last passed with, instead of the newest.
CONSTRAINTS := $(if $(LOCK),--constraint $(LOCK))
MINUTES ?= 5
# One thread per process: the test runner already uses every core.
export OMP_NUM_THREADS ?= 1

.PHONY: help demo test check fuzz bench docs lock clean

help:
	@echo "make demo    solve a case by a trained model and exactly, write a picture"
	@echo "make test    lint, types, import layers and tests"
	@echo "make check   the same without the tests"
	@echo "make fuzz    look for inputs that break it, for MINUTES=5"
	@echo "make bench   measure against the rivals"
	@echo "make docs    draw the pictures of the documentation, write its pages of results and names"

$(VENV)/installed: pyproject.toml
	@echo "Installing into $(VENV); this takes a few minutes the first time."
	$(PYTHON) -m venv $(VENV)
	$(BIN)/python -m pip install --quiet $(CONSTRAINTS) --editable .
	@touch $@

$(VENV)/installed-dev: $(VENV)/installed
	$(BIN)/python -m pip install --quiet $(CONSTRAINTS) --editable ".[dev]"
	@touch $@

demo: $(VENV)/installed
	$(BIN)/disol solve

test: check
	$(BIN)/python -m pytest --numprocesses auto

check: $(VENV)/installed-dev
	$(BIN)/ruff format --check --quiet $(CODE)
	$(BIN)/ruff check --quiet $(CODE)
	$(BIN)/mypy
	$(BIN)/lint-imports

fuzz: $(VENV)/installed-dev
	$(BIN)/python fuzz/campaign.py --minutes $(MINUTES)

bench: $(VENV)/installed-dev
	$(BIN)/python benchmarks/reference_solver.py --write docs/benchmarks/reference-solver.md
	$(BIN)/python benchmarks/pixel_geometry.py --cases 30 --out docs/benchmarks/pixel-geometry.jsonl \
		--write docs/benchmarks/pixel-geometry.md
	$(BIN)/python benchmarks/equal_error.py --write docs/benchmarks/equal-error.md
	$(BIN)/python benchmarks/cut_cells.py --write docs/benchmarks/cut-cells.md
	$(BIN)/python benchmarks/inference.py --device cpu --problems poisson --seconds 4 --threads 2 \
		--out $$(mktemp -d) --write docs

docs: $(VENV)/installed-dev
	$(BIN)/python examples/gallery.py docs/images
	$(BIN)/python benchmarks/equal_error.py --picture docs/images/convergence.png
	folder=$$(mktemp -d) && $(BIN)/disol solve --out $$folder && \
		cp $$folder/solution.png docs/images/solve.png && rm -r $$folder
	$(BIN)/python release/results.py
	$(BIN)/python release/python_page.py

lock: $(VENV)/installed-dev
	$(BIN)/python release/lock.py

clean:
	rm -rf $(VENV) .mypy_cache .ruff_cache .pytest_cache .import_linter_cache solution solution-[0-9]*
