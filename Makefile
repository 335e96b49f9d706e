# Everything that people and CI do here, one target each. `make help` lists them.
SHELL := bash
.SHELLFLAGS := -euo pipefail -c
.DEFAULT_GOAL := help
MAKEFLAGS += --no-print-directory

UV_VERSION := 0.13.9
UV := $(shell command -v uv || echo .uv/bin/uv)
RUN := $(UV) run --frozen
BED := python3 -m tests.cluster
CACHE := $(or $(DTJ_CACHE_DIR),$(or $(XDG_CACHE_HOME),$(HOME)/.cache)/dtj)
LAYOUT := $(CACHE)/images/layout

# $(call timed,what,command): say what is being done, do it, say how long it took.
timed = @echo "== $(1)"; began=$$SECONDS; ( $(2) ) || { echo "== $(1): failed after $$((SECONDS - began)) s"; exit 1; }; echo "== $(1): $$((SECONDS - began)) s"

.PHONY: help
help: ## list the targets
	@grep -E '^[a-z0-9-]+:.*## ' $(MAKEFILE_LIST) | awk -F ':.*## ' '{printf "  \033[1m%-12s\033[0m %s\n", $$1, $$2}'

##@ the two commands

# The demo's own cluster is none that somebody gave us.
GIVEN_CLUSTER := $(filter-out $(CACHE)/beds/%,$(KUBECONFIG))

.PHONY: demo
ifneq ($(GIVEN_CLUSTER),)
demo: ## train the digits example: on a cluster made here, or on that of KUBECONFIG
	@python3 examples/demo.py
else
demo: root
	@$(MAKE) bed images load IMAGES="pytorch operator"
	$(call timed,bed up,$(BED) up)
	@tools="$$($(BED) env)"; eval "$$tools"; \
	python3 examples/demo.py --image-layout $(LAYOUT) --tools 'eval "$$($(BED) env)"' --teardown "make down"
endif

.PHONY: root
root:
	@[ "$$(id -u)" = 0 ] || { echo "error: a cluster on this machine needs root: use sudo -E make, or name" \
	  "another cluster in KUBECONFIG (for demo) or DTJ_TEST_KUBECONFIG (for test)" >&2; exit 1; }

.PHONY: test
test: $(if $(DTJ_TEST_KUBECONFIG),,root) setup lint types layers generated docs scan-where-told unit ## lint, types, layers, unit, api and e2e tests
ifndef DTJ_TEST_KUBECONFIG
	@$(MAKE) bed images load
endif
	@$(MAKE) api e2e

##@ parts of the test

.PHONY: setup
setup: $(UV) ## install the locked Python packages into .venv
	$(call timed,setup,$(UV) sync --frozen --quiet)

.uv/bin/uv:
	python3 -m venv .uv
	.uv/bin/pip install --quiet uv==$(UV_VERSION)

.PHONY: lint
lint: ## style of the Python and YAML files
	$(call timed,lint,$(RUN) ruff check --quiet . && $(RUN) ruff format --check --quiet . && $(RUN) yamllint --strict .)

.PHONY: types
types: ## mypy --strict
	$(call timed,types,$(RUN) mypy)

.PHONY: layers
layers: ## the contracts of import-linter
	$(call timed,layers,$(RUN) lint-imports --no-cache)

.PHONY: generated
generated: ## whether the generated files are up to date
	$(call timed,generated,$(RUN) python -m dtj.api.crd --check && $(RUN) python -m tests.docs.chart_values --check && $(UV) lock --check --quiet)

.PHONY: docs
docs: ## the pages as a site in build/site; broken links are errors
	$(call timed,docs,$(RUN) sphinx-build --quiet --fresh-env --fail-on-warning --keep-going -c docs . build/site)

# Everything that is installed by a lock: the project's own, and those of the images.
LOCKS := build/locked.txt $(wildcard trainer_images/*.lock trainer_images/*/*.lock)
# Why each of these is no danger here is in docs/supply-chain.md.
ACCEPTED := GHSA-mrhh-3ggq-23p2
AUDIT = $(UV) run --frozen --isolated --quiet --only-group scan pip-audit --strict --disable-pip --require-hashes \
  --progress-spinner off --vulnerability-service $(or $(SCAN_SERVICE),pypi) $(ACCEPTED:%=--ignore-vuln %) --requirement

.PHONY: scan
scan: $(UV) ## known vulnerabilities of all locked Python packages, as PyPI or SCAN_SERVICE=osv knows them
	@mkdir -p build
	@$(UV) export --frozen --all-packages --all-groups --no-emit-workspace --quiet --output-file build/locked.txt
	$(call timed,scan,found=0; for lock in $(LOCKS); do echo "$$lock"; $(AUDIT) $$lock || found=1; done; exit $$found)

# A mirror of the package index may leave out what PyPI tells of each release: it has no such page then.
TELLS := https://pypi.org/pypi/pip/26.0/json

define CODE_OF
import sys, urllib.error, urllib.request
try:
    print(urllib.request.urlopen(sys.argv[1], timeout=20).status)
except urllib.error.HTTPError as error:
    print(error.code)
except OSError as error:
    print(f"nothing ({error})")
endef
export CODE_OF

# Whoever must not go on without an answer says SCAN=required.
.PHONY: scan-where-told
scan-where-told:
	@code="$$(python3 -c "$$CODE_OF" "$(TELLS)")"; case "$$code" in \
	200) $(MAKE) scan ;; \
	404) echo "== scan: left out: this package index does not tell of vulnerabilities (docs/supply-chain.md)" ;; \
	*) echo "== scan: NOT DONE: the package index answers $$code: $(TELLS)" >&2; [ "$(SCAN)" != required ] ;; esac

.PHONY: unit
unit: ## pure tests, no cluster
	$(call timed,unit,$(RUN) pytest tests/unit tests/docs --quiet --numprocesses 2 --dist loadfile)

.PHONY: nightly
nightly: setup ## at least 100,000 random steps of a job's life, others in every run
	$(call timed,nightly,DTJ_HYPOTHESIS_PROFILE=nightly $(RUN) pytest tests/unit/lifecycle/test_job_life.py tests/unit/lifecycle/test_laws.py --quiet)

# Each worker has a control plane of its own, and mostly waits; a given cluster is one for all.
API_WORKERS := $(if $(DTJ_TEST_KUBECONFIG),0,2)

.PHONY: prometheus
prometheus: ## fetch Prometheus, which the API tests ask the queries of the dashboard of
	@$(BED) prometheus

.PHONY: api
api: prometheus ## tests against a real etcd and API server
	$(call timed,api,$(RUN) pytest tests/api --quiet --numprocesses $(API_WORKERS) --dist loadfile)

.PHONY: e2e
ifdef DTJ_TEST_KUBECONFIG
e2e: ## tests on a real two-node cluster, the operator installed by the chart
	$(call timed,e2e,$(RUN) pytest tests/e2e --quiet)
else
e2e:
	$(call timed,e2e,export DTJ_E2E_BED=e2e-$$$$; trap "$(BED) down --name $$DTJ_E2E_BED" EXIT; \
	  $(BED) up --name $$DTJ_E2E_BED && \
	  $(RUN) pytest tests/e2e -m "not alone" --quiet --numprocesses 2 --dist loadgroup && \
	  $(RUN) pytest tests/e2e -m alone --quiet)
endif

BENCH_OPTIONS :=

.PHONY: bench
bench: packages ## jobs by the hundred beside others, for hours; BENCH_OPTIONS="--scenarios A,B --scale 0.1" for less
	@mkdir -p build/bench
	$(call timed,bench,$(RUN) --isolated --group bench python -m tests.bench.scale --json build/bench/results.json --plots build/bench $(BENCH_OPTIONS))

##@ what they need

.PHONY: packages
packages: ## install the Debian packages that the bed and the image builds need (root)
	@$(BED) packages
	@if ! command -v buildah mmdebstrap > /dev/null; then \
	  apt-get update -q && apt-get install -q -y --no-install-recommends buildah mmdebstrap; \
	fi

.PHONY: bed
bed: packages ## compile Kubernetes, etcd, containerd and helm
	$(call timed,bed,$(BED) build)

.PHONY: images
images: packages ## build the operator's and the trainers' images with buildah
	$(call timed,images,python3 -m trainer_images.build $(IMAGES))

.PHONY: load
load: ## hand the images to all clusters made here, running or later
	$(call timed,load,$(BED) load $(LAYOUT))

.PHONY: down
down: ## remove the demo's cluster and everything it made
	@$(BED) down

.PHONY: generate
generate: setup ## write the generated files anew: CRD, its copy in the chart, API reference
	@$(RUN) python -m dtj.api.crd --write
	@$(RUN) python -m tests.docs.chart_values --write

.PHONY: manifest
manifest: ## write helm/dtj-operator.yaml anew: the chart as one manifest
	@$(RUN) python helm/manifest.py --helm "$$(python3 -c 'from tests.cluster import build; print(build.HELM.directory() / "helm")')"

.PHONY: format
format: setup ## format the Python files
	@$(RUN) ruff check --fix --quiet . ; $(RUN) ruff format --quiet .
