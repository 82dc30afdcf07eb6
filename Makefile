# `make demo` and `make test` need Python 3.11+ with venv, and a package index; nothing else.
PYTHON ?= python3
VENV := .venv
BIN := $(VENV)/bin
PIP := $(BIN)/python -m pip install --quiet --disable-pip-version-check --constraint constraints.txt

.DEFAULT_GOAL := help
.PHONY: help demo test lint format schemas bench clean

help:  ## what there is
	@grep -hE '^[a-z-]+:.*##' $(MAKEFILE_LIST) | sed -E 's/:.*##/\t/' | expand -t 12

demo: $(VENV)/demo-ready  ## ingest, embed, index and route the bundled sample
	@$(BIN)/python jobs/demo.py

test: $(VENV)/test-ready  ## set up what the tests need and run them all
	@$(BIN)/python -m pytest -q

lint: $(VENV)/test-ready  ## ruff and mypy --strict
	@$(BIN)/ruff check .
	@$(BIN)/ruff format --check .
	@$(BIN)/mypy libs jobs

format: $(VENV)/test-ready  ## let ruff mend and format
	@$(BIN)/ruff check --fix .
	@$(BIN)/ruff format .

schemas: $(VENV)/demo-ready  ## write schemas/ from libs/skillfeed/records.py
	@$(BIN)/python -m skillfeed.schemas schemas

bench: $(VENV)/test-ready  ## measure; writes build/bench/*.json
	@$(BIN)/python benchmarks/embedding.py

clean:  ## remove .venv and build
	rm -rf $(VENV) build

# torch first: what asks for "torch" later must find this one and not fetch another build.
$(VENV)/demo-ready: pyproject.toml constraints.txt
	@echo "Setting up $(VENV) (about 3 GB, some minutes the first time) ..." >&2
	@test -x $(BIN)/python || $(PYTHON) -m venv $(VENV)
	@$(PIP) torch
	@$(PIP) --editable '.[cpu,local,static]'
	@touch $@

$(VENV)/test-ready: $(VENV)/demo-ready
	@$(PIP) --editable '.[cpu,local,static,dev]'
	@touch $@
