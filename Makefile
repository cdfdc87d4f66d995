# What a developer does here; `make help` lists it. PYTHON=... chooses the Python that makes the .venv, ARGS=... is
# handed on to pytest.

.DEFAULT_GOAL := help
.PHONY: help setup demo test soak mutants fuzz lint docs bench pictures hardware wheels deb rpm release clean FORCE
MAKEFLAGS += --no-print-directory

# The extension is built with the headers of this very Python; on Debian python3-dev has those of /usr/bin/python3.
PYTHON ?= $(shell for p in /usr/bin/python3 python3; do \
  $$p -c 'import sys; sys.exit(sys.version_info < (3, 11))' 2>/dev/null && { echo $$p; break; }; done)
BIN := .venv/bin
DEMO := $(if $(wildcard .venv/.setup-done),.venv,.venv-demo)
PIP := $(BIN)/python -m pip -qq --disable-pip-version-check
DEBIAN := gcc libc6-dev pkg-config python3-dev python3-venv libibumad-dev \
  ibsim-utils libumad2sim0 opensm infiniband-diags man-db openssh-client openssh-server tshark \
  curl logrotate openssl prometheus shellcheck systemd
# Only for `make fuzz`, which uses Hypothesis where it does not install (it has no wheel for every Python).
FUZZER := atheris
INPUTS ?= 1000000
MUTANTS ?= 300
SEED ?= 31
# Only for `make soak` and `make pictures`.
BROWSER := chromium fonts-dejavu-core graphviz
# Only for wheels, deb, rpm and release.
PACKAGING := git gcc libc6-dev pkg-config python3-dev python3-venv libibumad-dev dpkg-dev debhelper dh-python lintian rpm \
  python3-packaging
# Only for the tests of those.
BARE := mmdebstrap uidmap
CORPUS := $(abspath $(wildcard ../shared))
# Four run tests, also on two processors: many tests wait for other programs. One that has none left takes some of
# another's. ARGS=-n0 runs them one after the other.
PYTEST := $(BIN)/pytest -n 5 --dist worksteal
# Where there is room the files of the tests lie in memory: stores wait for the disk at each of their writes, and nearly
# all tests have one. Programs are started from there too.
MEMORY := $(shell test -w /dev/shm && ! grep -q ' /dev/shm .*noexec' /proc/mounts && \
  df -Pk /dev/shm | awk 'NR == 2 && $$4 > 2e6 { print "/dev/shm" }')
# The tests see none of the environment but what they and the package clients need.
TEST_ENV := .ci/clean-env $(if $(CORPUS),IBKEYS_CORPUS=$(CORPUS)) $(if $(TMPDIR)$(MEMORY),TMPDIR=$(or $(TMPDIR),$(MEMORY)))

help: ## list these commands
	@grep -E '^[a-z]+:.*## ' Makefile | awk -F ':.*## ' '{printf "make %-8s %s\n", $$1, $$2}'

setup: .venv/.setup-done ## install what is needed (on Debian through apt-get) and build ibkeys into .venv

# It runs from this folder, in the .venv of a setup or in one that has just one library; nothing is built.
demo: $(if $(filter .venv-demo,$(DEMO)),.venv-demo/.done) ## find a mistake on a simulated fabric, mend it, take it back; no root needed
	@PYTHONPATH='$(CURDIR)' $(DEMO)/bin/python -m ibkeys.cli.tools.demo

test: setup ## run the tests
	@$(TEST_ENV) $(PYTEST) -m 'not soak' $(ARGS)

soak: setup ## run all tests at full length (a night on two processors), and say which took longest
	@native/install-debian.sh $(BROWSER) $(PACKAGING) $(BARE)
	@$(TEST_ENV) IBKEYS_SOAK=1 $(PYTEST) -n 6 --durations=25 --durations-min=10 $(ARGS)

mutants: setup ## change MUTANTS=300 places, one at a time, and count what the tests notice; for a clone that nobody uses
	@rm -rf build/reached
	-@$(TEST_ENV) $(PYTEST) -q -p tests.mutation -m 'not soak' --ignore tests/integration --ignore tests/packages
	@$(TEST_ENV) $(BIN)/python -m tests.mutation $(SEED) $(MUTANTS)

fuzz: setup ## give readers and decoders INPUTS=1000000 random and mutated inputs; counts on from earlier runs
	@$(BIN)/python -c 'import $(FUZZER)' 2>/dev/null || $(PIP) install --only-binary :all: $(FUZZER) || \
	  echo '$(FUZZER) does not install here: Hypothesis makes the inputs' >&2
	@$(TEST_ENV) $(BIN)/python -m tests.fuzz --inputs $(INPUTS) $(ARGS)

lint: setup docs ## run ruff, mypy --strict, the checks of rooms and of texts that nothing may decide by; build the site
	@$(BIN)/ruff check --quiet . && $(BIN)/ruff format --check --quiet . && $(BIN)/mypy && $(BIN)/lint-imports --no-logo \
	  && $(BIN)/python -m tests.typed

# All of it each time (-E): a page that was built with a warning must not pass when it is built again.
docs: .venv/.docs-done ## build the documentation site into build/site
	@$(BIN)/sphinx-build -q -E -W --keep-going -d build/doctrees docs build/site

bench: setup ## measure speed and memory
	@$(TEST_ENV) $(BIN)/python -m tests.bench

pictures: setup ## make docs/pictures (headless Chromium) and docs/diagrams (Graphviz) anew
	@native/install-debian.sh $(BROWSER)
	@$(BIN)/python -m docs.made.diagrams
	@$(TEST_ENV) $(BIN)/python -m tests.pictures docs/pictures

# CONFORMANCE=mlx5_0/1: is the umad of this port as the simulator takes it to be (tests/conformance)?
hardware: setup ## look at a real fabric, read only, and write hardware-report.tar.gz; ARGS=--hash-guids hides names
	@$(BIN)/ibkeys doctor --report hardware-report.tar.gz $(ARGS)
	@$(if $(CONFORMANCE),$(BIN)/python -m tests.conformance $(subst /, ,$(CONFORMANCE)),:)

wheels: ## build the sdist and the wheels of the last commit into dist/
deb: ## build those and a Debian package
rpm: ## build those and an RPM, for EL 10; RPM_PYTHON=3.14 for Fedora 43
release: ## build all that is released, with an SBOM and SHA256SUMS; nothing is signed or uploaded
wheels deb rpm release:
	@native/install-debian.sh $(PACKAGING)
	@umask 022 && $(MAKE) -f packaging/Makefile $@ PYTHON=$(PYTHON)

clean: ## remove what setup, the tests, the site and a release made
	@rm -rf .venv .venv-demo build dist docs/reference ibkeys/umad/_libibumad*.so ibkeys/sim/hosted/kernel*.so ibkeys/sim/lib \
	  .hypothesis .mypy_cache .pytest_cache .ruff_cache

# Installed as for a user, so that the commands, the extension and the man pages are those that a user gets; then a .pth
# file puts this folder in front, so that what runs is the working tree, not the copy of it at the time of the setup.
.venv/.setup-done: pyproject.toml meson.build ibkeys/version.py $(wildcard native/* native/umad-sim/*) .venv/.files
	@native/install-debian.sh $(DEBIAN)
	@test -n '$(PYTHON)' || { echo 'ibkeys needs Python 3.11 or later: make setup PYTHON=...' >&2; exit 1; }
	@test -x $(BIN)/pip || $(PYTHON) -m venv .venv
	@test -x $(BIN)/ninja || $(PIP) install 'meson-python>=0.18' 'meson>=1.3' 'cffi>=2.1' ninja
	@PATH="$(CURDIR)/$(BIN):$$PATH" $(PIP) install --no-build-isolation --config-settings=build-dir=build/setup '.[test]'
	@packages=`$(BIN)/python -c 'import sysconfig; print(sysconfig.get_path("platlib"))'`; \
	  echo "import sys; sys.path.insert(0, '$(CURDIR)')" > "$$packages/ibkeys-working-tree.pth"; \
	  rm -rf ibkeys/umad/_libibumad*.so ibkeys/sim/hosted/kernel*.so ibkeys/sim/lib; \
	  cp "$$packages"/ibkeys/umad/_libibumad*.so ibkeys/umad/ 2>/dev/null \
	  && cp "$$packages"/ibkeys/sim/hosted/kernel*.so ibkeys/sim/hosted/ && cp -r "$$packages"/ibkeys/sim/lib ibkeys/sim/ || true
	@$(BIN)/python -c 'import ibkeys.umad._libibumad' 2>/dev/null || { \
	  echo 'The extension over libibumad was not built; why: build/setup/meson-logs/meson-log.txt' >&2; \
	  ! test -f /etc/debian_version; }
	@touch $@

.venv-demo/.done:
	@test -n '$(PYTHON)' || { echo 'ibkeys needs Python 3.11 or later: make demo PYTHON=...' >&2; exit 1; }
	@$(PYTHON) -c 'import ensurepip' 2>/dev/null || { \
	  echo 'Python has no venv here; on Debian, as root: apt-get install python3-venv' >&2; exit 1; }
	@$(PYTHON) -m venv .venv-demo
	@.venv-demo/bin/python -m pip -qq --disable-pip-version-check install \
	  "`grep -o 'click>=[0-9.]*' pyproject.toml | head -n 1`"
	@touch $@

# Only for the site; `make test` does without.
.venv/.docs-done: .venv/.setup-done
	@native/install-debian.sh mandoc
	@$(PIP) install 'ibkeys[docs]'
	@touch $@

# Changes when a file comes or goes, so that the package is installed again with it.
.venv/.files: FORCE
	@mkdir -p .venv
	@find ibkeys man -type f ! -name '*.so' ! -name '*.so.*' ! -path '*/__pycache__/*' 2>/dev/null | sort > $@.new
	@if cmp -s $@.new $@; then rm $@.new; else mv $@.new $@; fi
FORCE:
