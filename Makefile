# make          build fsage, its agent and its disk server, static, into bin/, and their man pages
# make aarch64  the same programs, static, for 64-bit ARM: boards reached over SSH, and guests (docs/targets.md)
# make demo     set up, build, age ext4, xfs and btrfs on two modelled disks, and say what it cost; some minutes after the build
# make test     set up, build, run every test and the fuzz targets for a moment; tells which tests were skipped
# make test-full  make test, then the sweeps: every medium under every file system, kill storms, mutants, long fuzzing, and statistics
#                 recomputed with scipy; some 45 minutes
# make lint     formatting, clippy, documentation, licences
# make bench    the speed table; takes some minutes and an idle machine
# make docs     the documentation as a book, in target/book
# make install  the programs, man pages, completions and studies below PREFIX (DESTDIR is honoured)

PREFIX ?= /usr/local
DESTDIR ?=
# Trials of the demo at a time, each on a processor of its own.
JOBS ?= $(shell processors=$$(nproc); [ "$$processors" -lt 4 ] && echo "$$processors" || echo 4)
STORE ?= demo/store
REPORT ?= demo/report.html

# Before the distribution's own cargo, which may be too old.
export PATH := $(HOME)/.cargo/bin:$(PATH)
# Root is needed for mounts and loop devices only; building never runs as another user than yours.
SUDO := $(if $(filter-out 0,$(shell id -u)),sudo,)
# What root writes for you is yours in the end, also under `sudo make`.
OWNER := $(or $(SUDO_UID),$(shell id -u)):$(or $(SUDO_GID),$(shell id -g))
TARGET_DIR := $(or $(CARGO_TARGET_DIR),target)
SKIPS := $(abspath $(TARGET_DIR))/skips.txt
CARGO ?= cargo
PROGRAMS := fsage fsage-agent fsage-disk

.PHONY: all build aarch64 setup setup-tests demo test test-full lint rooms bench docs install unbuilt uninstall man clean

all: build man

setup:
	@scripts/setup

setup-tests:
	@scripts/setup --tests

# The triple is in the path because every binary is static; `bin/` saves the user from knowing it.
build:
	$(CARGO) build --release --locked --package fsage --package fsage-engine --package fsage-disk --bins
	@mkdir -p bin
	@triple=$$(rustc -vV | sed -n 's/^host: //p'); \
	for program in $(PROGRAMS); do \
		ln -sf "$(abspath $(TARGET_DIR))/$$triple/release/$$program" bin/$$program; \
	done
	@echo "built: $(PROGRAMS:%=bin/%)"

# Also beside the program that the link bin/fsage leads to: that is where it looks for others.
aarch64: target = aarch64-unknown-linux-gnu
aarch64: export CARGO_TARGET_AARCH64_UNKNOWN_LINUX_GNU_LINKER = aarch64-linux-gnu-gcc
aarch64:
	@scripts/setup --aarch64
	$(CARGO) build --release --locked --target $(target) --package fsage --package fsage-engine --package fsage-disk --bins
	@triple=$$(rustc -vV | sed -n 's/^host: //p'); beside="$(TARGET_DIR)/$$triple/release"; mkdir -p bin "$$beside"; \
	for program in $(PROGRAMS); do \
		ln -sf "$(abspath $(TARGET_DIR))/$(target)/release/$$program" bin/$$program-aarch64; \
		ln -sf "$(abspath $(TARGET_DIR))/$(target)/release/$$program" "$$beside/$$program-aarch64"; \
	done
	@echo "built: $(PROGRAMS:%=bin/%-aarch64)"

restore_owner = for path in demo $(STORE) $(REPORT); do [ ! -e $$path ] || $(SUDO) chown -R $(OWNER) $$path; done

# The page is written while the answer of `fsage run` is the last thing on the screen.
demo: setup
	@$(MAKE) --no-print-directory build
	$(SUDO) bin/fsage doctor
	$(SUDO) bin/fsage run studies/aging.toml --preset demo --jobs $(JOBS) --store $(STORE); status=$$?; $(restore_owner); exit $$status
	@bin/fsage report $(STORE) --output $(REPORT) --quiet >/dev/null; status=$$?; $(restore_owner); exit $$status
	@echo "The whole report, in a browser: file://$(abspath $(REPORT))"

# One profile (dev, optimised a little) and one selection of packages for everything, so that nothing is built twice: a build
# without tests has other features of shared dependencies. FSAGE_AGENT keeps tests from asking cargo for the agent by itself.
# Tests that cannot run here say so in the file SKIPS, because a test that returns early counts as passed.
# Volumes and journals of leases go to a directory of this run alone, so that no test sees leftovers of an earlier run; a journal in it
# afterwards was left by a test, which fails the run.
test: setup-tests
	@mkdir -p $(TARGET_DIR) && : > $(SKIPS)
	runtime=$$(mktemp -d); \
	CARGO=$(CARGO) FSAGE_SKIPS=$(SKIPS) FSAGE_RUNTIME_DIR=$$runtime scripts/run-tests; passed=$$?; \
	if grep -s . $$runtime/*/state/*.jsonl; then \
		echo "the tests left leases: FSAGE_RUNTIME_DIR=$$runtime/host (or others) bin/fsage clean" >&2; exit 1; fi; \
	rm -rf --one-file-system $$runtime; exit $$passed
	@if [ -x scripts/fuzz ]; then scripts/fuzz; else echo "fuzz targets: no scripts/fuzz" >> $(SKIPS); fi
	@echo "skipped: $$(sort -u $(SKIPS) | wc -l)"; sort -u $(SKIPS)

# What takes longer than a change should wait for. Each part is a script of its own, and a short form of it is among the tests.
test-full: test
	@$(MAKE) --no-print-directory build aarch64
	$(SUDO) scripts/sweep
	$(SUDO) scripts/fio-plot
	$(SUDO) scripts/tmt-run
	$(SUDO) scripts/kill-storm 1000
	$(SUDO) scripts/target-storm
	$(SUDO) scripts/aarch64-guest
	$(SUDO) scripts/write-hole
	$(SUDO) scripts/mutate 10000
	scripts/fuzz --inputs 100000
	scripts/fuzz 60
	scripts/recompute.py

# The picture of crates and modules in docs/architecture.md.
rooms:
	$(CARGO) run --locked --quiet --package xtask -- rooms docs/images/rooms.svg

lint:
	@$(CARGO) fmt --version >/dev/null 2>&1 && $(CARGO) clippy --version >/dev/null 2>&1 || rustup component add rustfmt clippy
	$(CARGO) fmt --all --check
	$(CARGO) clippy --locked --workspace --all-targets -- -D warnings
	$(CARGO) clippy --locked --package fsage-disk --features ublk --all-targets -- -D warnings
	RUSTDOCFLAGS="-D warnings" $(CARGO) doc --locked --workspace --no-deps
	@if $(CARGO) deny --version >/dev/null 2>&1; then $(CARGO) deny --locked check bans licenses sources; \
	else echo "skipped: licences (cargo install cargo-deny --locked)"; fi

bench: setup
	@$(MAKE) --no-print-directory build
	$(CARGO) build --release --locked --package fsage-bench --bins
	scripts/bench

# The book's program is kept beside the build, so that nothing is installed outside this folder.
MDBOOK_VERSION := 0.4.52
MDBOOK := $(abspath $(TARGET_DIR))/tools/mdbook-$(MDBOOK_VERSION)/bin/mdbook

docs: setup
	@[ -x $(MDBOOK) ] || $(CARGO) install --locked --quiet mdbook --version $(MDBOOK_VERSION) --no-default-features --features search \
		--root $(patsubst %/bin/mdbook,%,$(MDBOOK)) --target-dir $(TARGET_DIR)/tools/build
	@$(MDBOOK) build --dest-dir $(abspath $(TARGET_DIR))/book
	@echo "Open it in a browser: file://$(abspath $(TARGET_DIR))/book/index.html"

man:
	$(CARGO) run --release --locked --quiet --package xtask -- man $(TARGET_DIR)/man
	$(CARGO) run --release --locked --quiet --package xtask -- completions $(TARGET_DIR)/completions

# Root only copies what is built: `make && sudo make install`. In a container, where all is root's, it builds as well.
BUILT := $(and $(filter 0,$(shell id -u)),$(wildcard bin/fsage),$(wildcard bin/fsage-agent),$(wildcard bin/fsage-disk),$(wildcard $(TARGET_DIR)/man/fsage.1))

unbuilt:
	@echo "nothing is built: run \`make\` as yourself, then \`sudo make install\`" >&2; exit 1

install: $(if $(BUILT),,$(if $(SUDO_UID),unbuilt,build man))
	install -d $(DESTDIR)$(PREFIX)/bin $(DESTDIR)$(PREFIX)/share/man/man1 $(DESTDIR)$(PREFIX)/share/fsage/studies
	install -d $(DESTDIR)$(PREFIX)/share/bash-completion/completions
	install -d $(DESTDIR)$(PREFIX)/share/zsh/site-functions $(DESTDIR)$(PREFIX)/share/fish/vendor_completions.d
	install -s -m 755 $(PROGRAMS:%=bin/%) $(DESTDIR)$(PREFIX)/bin/
	for program in $(PROGRAMS:%=bin/%-aarch64); do [ ! -e $$program ] || \
		install -s --strip-program=aarch64-linux-gnu-strip -m 755 $$program $(DESTDIR)$(PREFIX)/bin/ || exit; done
	install -m 644 $(TARGET_DIR)/man/*.1 $(DESTDIR)$(PREFIX)/share/man/man1/
	install -m 644 $(TARGET_DIR)/completions/fsage.bash \
		$(DESTDIR)$(PREFIX)/share/bash-completion/completions/fsage
	install -m 644 $(TARGET_DIR)/completions/_fsage $(DESTDIR)$(PREFIX)/share/zsh/site-functions/
	install -m 644 $(TARGET_DIR)/completions/fsage.fish $(DESTDIR)$(PREFIX)/share/fish/vendor_completions.d/
	install -m 644 studies/*.toml $(DESTDIR)$(PREFIX)/share/fsage/studies/

uninstall:
	rm -f $(PROGRAMS:%=$(DESTDIR)$(PREFIX)/bin/%) $(PROGRAMS:%=$(DESTDIR)$(PREFIX)/bin/%-aarch64)
	rm -f $(DESTDIR)$(PREFIX)/share/man/man1/fsage.1 $(DESTDIR)$(PREFIX)/share/man/man1/fsage-*.1
	rm -f $(DESTDIR)$(PREFIX)/share/bash-completion/completions/fsage
	rm -f $(DESTDIR)$(PREFIX)/share/zsh/site-functions/_fsage
	rm -f $(DESTDIR)$(PREFIX)/share/fish/vendor_completions.d/fsage.fish
	rm -rf $(DESTDIR)$(PREFIX)/share/fsage

clean:
	$(CARGO) clean
	rm -rf bin demo
