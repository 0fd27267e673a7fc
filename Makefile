# The README's two commands are `make run` and `make test`. Everything here works
# from a clean clone with Go installed.

GO    ?= go
TOOLS  = $(GO) tool -modfile=tools.mod
BIN    = bin/iris
FUZZ  ?= 30s
RUNS  ?= 5

.PHONY: run build deps test vet e2e soak fuzz bench hooks clean

run: build
	./$(BIN) serve

build:
	CGO_ENABLED=0 $(GO) build -buildvcs=auto -ldflags='-s -w' -o $(BIN) ./cmd/iris

deps:
	@./scripts/deps.sh

vet:
	@test -z "$$(gofmt -l cmd internal facilitate *.go 2>/dev/null)" || { gofmt -l cmd internal facilitate *.go; exit 1; }
	$(GO) vet ./...
	$(TOOLS) staticcheck ./...

# Under the race detector every process sleeps a second before it exits, so that
# others may still find something. Tests start hundreds: a moment has to do.
test: export GORACE = atexit_sleep_ms=20
# `vet` has vetted all of it: go test need not do part of it again, package by package.
test: deps vet
	$(GO) test -vet=off -race -timeout 12m ./...
	$(GO) test -vet=off -timeout 5m ./facilitate/ ./facilitate/facilitatetest
	$(GO) test -vet=off -timeout 4m -run 'TestThousandStreams|TestModelFaults|TestReadyAtOnce' ./internal/app
	$(GO) test -vet=off -timeout 4m -run 'ResidentProcesses|FirstToken|HundredMegabytes' ./internal/runner/agentcli/...
	$(GO) test -vet=off -timeout 5m -run 'Chaos|Outage' ./internal/delivery/
	cd bench && $(GO) vet ./... && $(GO) test -vet=off -short -timeout 2m ./...

# Tests that need what a machine may lack: a browser. The script installs it
# where it may and says what it could not.
e2e: build
	./scripts/e2e.sh

fuzz:
	./scripts/fuzz.sh $(FUZZ)

# IRIS_CHAOS_RUNS=n makes fewer worlds than 300 of the chaos, IRIS_CHAOS_FROM=seed
# begins elsewhere.
soak:
	$(GO) test -run 'Soak|SlackChaos' -tags soak -timeout 60m -v ./internal/app/...
	$(GO) test -run RandomDocuments -tags soak -timeout 60m ./internal/transport/slack/mrkdwn
	$(GO) test -run 'Telegram|DocumentsAreNeverRefused' -tags soak -timeout 60m ./internal/app ./internal/transport/telegram

bench: build
	./scripts/bench.sh $(RUNS)

# Formatting, vet and the house test before every commit.
hooks:
	git config core.hooksPath .githooks

clean:
	rm -rf bin dist
