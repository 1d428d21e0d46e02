# `make` lists the targets. The environment in .venv is made when it is missing or pyproject.toml has changed.
SHELL := bash
PYTHON ?= python3
EXTRAS ?= cpu,test
VENV := .venv
BIN := $(VENV)/bin
STAMP := $(VENV)/.installed

.DEFAULT_GOAL := help
.PHONY: help setup compare reproduce reproduce-quick report bench bench-quick test lint clean

help: ## list the targets
	@sed -n 's/^\([a-z-]*\):.*## \(.*\)/  make \1|\2/p' $(MAKEFILE_LIST) | awk -F'|' '{ printf "%-22s %s\n", $$1, $$2 }'
	@echo "  PYTHON=$(PYTHON) and EXTRAS=$(EXTRAS) can be set; a machine with an NVIDIA GPU takes EXTRAS=gpu,test"

setup: $(STAMP) ## make .venv and install slipbench into it

$(STAMP): pyproject.toml packaging/fbgemm-gpu/pyproject.toml
	@echo "making $(VENV) with $(PYTHON)"
	@$(PYTHON) -c 'import sys; sys.exit(sys.version_info < (3, 11) and "slipbench needs Python 3.11 or newer; name one with PYTHON=...")'
	@$(BIN)/python -c '' 2>/dev/null || $(PYTHON) -m venv --clear $(VENV)
	@echo "installing slipbench[$(EXTRAS)]: a few minutes the first time; $(VENV)/install.log has every line"
	@$(BIN)/python -m pip install --disable-pip-version-check -e '.[$(EXTRAS)]' 2>&1 | tee $(VENV)/install.log \
		| while read -r line; do case "$$line" in \
			"Collecting "*) echo "  $${line%% (from *}" ;; \
			"Installing collected"*) echo "  Installing" ;; \
			ERROR*) echo "  $$line" ;; \
		esac; done; exit $${PIPESTATUS[0]}
	@echo "ready: $(BIN)/slipbench"
	@touch $@

compare: $(STAMP) ## run all systems on the embedded data set, print the table, write CSVs and figures
	@$(BIN)/slipbench compare $(ARGS)

reproduce: $(STAMP) ## all of the papers' comparison from nothing (two to three hours); goes on where it stopped
	@$(BIN)/slipbench reproduce $(ARGS)

reproduce-quick: $(STAMP) ## the same in small, within a quarter of an hour
	@$(BIN)/slipbench reproduce --quick --out results/reproduce-quick $(ARGS)

report: $(STAMP) ## write results/local/report.html, a page on the last comparison
	@$(BIN)/slipbench report $(ARGS)

bench: $(STAMP) ## measure speed against a plain TorchRec loop and the machine's own rate
	@$(BIN)/slipbench bench $(ARGS)

bench-quick: $(STAMP) ## the same within eight minutes; fails where a target is missed
	@$(BIN)/slipbench bench --quick $(ARGS)

test: $(STAMP) ## run the tests
	@$(BIN)/python -m pytest $(ARGS)

lint: $(STAMP) ## check style and types
	@$(BIN)/ruff check .
	@$(BIN)/ruff format --check .
	@$(BIN)/mypy

clean: ## delete .venv and caches; results stay
	@rm -rf $(VENV) .pytest_cache .mypy_cache .ruff_cache .hypothesis build dist
	@find . -name __pycache__ -type d -prune -exec rm -rf {} +
