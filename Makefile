# `make serve` and `make test` need only Python 3.11, make and a network; everything goes into .venv.
PYTHON ?= $(shell command -v python3.11 || command -v python3)
# Which vLLM: cpu or cuda.
EXTRA ?= cpu
# Of `make serve`: the model (none: the default one), the port, and any flags of `vllm serve`.
MODEL ?=
PORT ?= 8000
ARGS ?=
# Of `make loadtest`: any server that speaks the OpenAI API; more by ARGS.
URL ?= http://127.0.0.1:$(PORT)
# Of `make accept`: only the tests whose names match.
NAME ?=

BIN := .venv/bin

.PHONY: install serve test accept lint bench loadtest quality results drills soak

install:
	@test -n "$(PYTHON)" || { echo "make: no Python found. Install Python 3.11, or name it: make PYTHON=/path/to/python3.11"; exit 1; }
	@"$(PYTHON)" deploy/install.py --extra $(EXTRA)

serve: install
	@$(BIN)/ropeway serve $(MODEL) $(if $(findstring --host,$(ARGS)),,--host 127.0.0.1) --port $(PORT) $(ARGS)

test: lint
	@$(BIN)/python -m pytest -m "not long" || { echo "make test: tests failed (above). One alone: $(BIN)/python -m pytest tests/…::test_…"; exit 1; }

accept: install
	@$(BIN)/python -m pytest -m long $(if $(NAME),-k "$(NAME)") || { echo "make accept: acceptance tests failed (above), or none matches NAME."; exit 1; }

lint: install
	@$(BIN)/ruff check . || { echo "make lint: ruff found faults (above); some are mended by: $(BIN)/ruff check --fix ."; exit 1; }
	@$(BIN)/ruff format --check . || { echo "make lint: not formatted; mend it with: $(BIN)/ruff format ."; exit 1; }
	@$(BIN)/mypy || { echo "make lint: types do not fit (above)."; exit 1; }

bench: install
	@$(BIN)/python -m loadtests.bench $(ARGS) || { echo "make bench: the benchmark failed (above)."; exit 1; }

loadtest: install
	@$(BIN)/python -m loadtests.load --url "$(URL)" $(ARGS) || { echo "make loadtest: nothing was measured, or not all (above)."; exit 1; }

quality: install
	@$(BIN)/python -m loadtests.quality $(ARGS) || { echo "make quality: nothing was measured, or not all (above); the same command goes on."; exit 1; }

results: install
	@$(BIN)/python -m loadtests.results $(ARGS) || { echo "make results: no report, or it is out of date (above)."; exit 1; }

drills: install
	@$(BIN)/python -m loadtests.drills --out $(ARGS); status=$$?; $(BIN)/python -m loadtests.drills.report; \
	test $$status = 0 || { echo "make drills: something did not hold, or it was interrupted (above)."; exit 1; }

soak: install
	@$(BIN)/python -m loadtests.drills --only soak --out $(ARGS); status=$$?; $(BIN)/python -m loadtests.drills.report; \
	test $$status = 0 || { echo "make soak: something did not hold, or it was interrupted (above)."; exit 1; }
