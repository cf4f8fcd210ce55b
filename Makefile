# One target per task. The work itself is in scripts/ and plugins/build.sh.

# A fresh rustup install is not yet on the PATH of an open terminal.
export PATH := $(PATH):$(HOME)/.cargo/bin

LISTEN ?= 127.0.0.1:7070
DATA ?= ./windlass-data

.DEFAULT_GOAL := help
.PHONY: help run demo test bench soak recording ui plugins archive image lint fmt clean

help: ## list these targets
	@awk -F ':.*## ' '/^[a-z-]+:.*## / { printf "  make %-9s %s\n", $$1, $$2 }' $(MAKEFILE_LIST)

run: ## build and start the server with the demo plugin and jobs (LISTEN=127.0.0.1:7171, DATA=folder, ARGS=--flags-of-serve)
	@LISTEN=$(LISTEN) DATA=$(DATA) scripts/run-demo.sh $(ARGS)

demo: ## the same with a lively load, to look at the console: many queues, failures, flows, rounds, a canary (needs python3)
	@LISTEN=$(LISTEN) DATA=$(DATA) LIVELY=1 scripts/run-demo.sh $(ARGS)

recording: ## create docs/demo.svg again: a terminal recording of a job that survives kill -9
	@scripts/record.sh

bench: ## measure everything with a release build (QUICK=1: a few minutes)
	@scripts/bench.sh

soak: ## run the simulator for an hour (SECONDS_TO_RUN=600: shorter), then mutate the rules to check that their tests notice
	@scripts/soak.sh

test: ## check everything: format, lints, unit tests, plugins, end to end
	@scripts/test.sh

ui: ## build the console again, from ui/src into ui/dist, which is committed (needs npm)
	@scripts/ui.sh build

plugins: ## build every plugin into target/plugins/NAME.wasm
	@plugins/build.sh

archive: ## build the release archive of this machine in target/dist/
	@scripts/host-tools.sh
	cargo build --release --locked -p windlass
	@deploy/archive.sh target/release/windlass "windlass-$$(uname -s | tr A-Z a-z)-$$(uname -m)"

image: ## build the container image windlass:local (needs docker)
	@scripts/host-tools.sh
	cargo build --release --locked -p windlass
	@deploy/image.sh target/release/windlass windlass:local

lint: ## clippy with warnings as errors, over the host and the guests
	@scripts/host-tools.sh
	cargo clippy --workspace --all-targets -- -D warnings
	@scripts/guests.sh lint

fmt: ## format all Rust code
	@scripts/host-tools.sh
	cargo fmt --all
	@scripts/guests.sh fmt

clean: ## remove all build output, but not the data folder
	rm -rf target guest-sdk/*/target plugins/target plugins/*/target
