tools := go tool -modfile=internal/tools/go.mod
audit := go tool -modfile=internal/tools/audit/go.mod

.DEFAULT_GOAL := help

.PHONY: help
help: ## list the targets
	@awk -F ':.*## ' '/^[a-z-]+:.*## / { printf "  %-14s %s\n", $$1, $$2 }' Makefile

.PHONY: build
build: ## build bin/checkpointd, a static binary
	CGO_ENABLED=0 go build -trimpath -o bin/checkpointd ./cmd/server

.PHONY: check
check: ## build, vet, format and the quick part of the tests
	go build ./...
	go vet ./...
	$(tools) golangci-lint fmt --diff
	go test -short ./...

.PHONY: test
test: ## run every test with the race detector
	go test -race ./...

.PHONY: malformed
malformed: ## send 10 000 wrong requests, made from the contract, to a server; CHECKPOINTD_MALFORMED=N sends N
	CHECKPOINTD_MALFORMED=$${CHECKPOINTD_MALFORMED:-10000} go test ./internal/server -run Malformed -count 1 -v

.PHONY: fuzz
fuzz: ## run each fuzz test for FUZZTIME (default 1m)
	scripts/fuzz

.PHONY: vulnerabilities
vulnerabilities: ## hold the modules against the Go vulnerability database, which is on the network
	$(audit) govulncheck ./...

.PHONY: sbom
sbom: build ## write bin/checkpointd.cdx.json, what is in bin/checkpointd (CycloneDX)
	$(audit) cyclonedx-gomod bin -std -json -version "$$(git describe --tags --always --dirty)" -output bin/checkpointd.cdx.json bin/checkpointd

.PHONY: lint
lint: ## run the linter; its first run compiles it
	$(tools) golangci-lint run

.PHONY: bench
bench: ## measure everything against its goals, and write docs/performance.md; up to 15 minutes
	cd bench && go run . -write

.PHONY: bench-quick
bench-quick: ## the same on less data in under two minutes; writes nothing
	cd bench && go run . -quick

.PHONY: torture
torture: DURATION ?= 10m
torture: TARGET ?= redis
torture: ## besiege servers and check what clients heard; TARGET=embedded|redis|sentinel|cluster DURATION=10m
	CHECKPOINTD_TORTURE_TARGET=$(TARGET) CHECKPOINTD_TORTURE_DURATION=$(DURATION) \
		go test ./internal/torture -run TestServersAreLinearizable -count=1 -timeout=0 -v

.PHONY: overload
overload: ## load a server with 50 uploads and 200 slow restores, and judge what becomes of acknowledgements and memory; needs 60 GiB of disk
	CHECKPOINTD_OVERLOAD=1 go test ./internal/processtest -run AcknowledgementsGoOn -count=1 -v -timeout 60m

.PHONY: failover
failover: ## kill the master of a Redis 20 times under load, with sentinels and on a cluster; 5 to 10 minutes
	CHECKPOINTD_FAILOVERS=20 go test ./internal/processtest -run TestAMasterThatDiesUnderLoad -count=1 -timeout=60m -v

.PHONY: moving-address
moving-address: ## move the address of a Redis to its replica 20 times, while connections to the former master stay open; about 2 minutes
	CHECKPOINTD_MOVES=20 go test ./internal/processtest -run TestAnAddressThatMoves -count=1 -timeout=30m -v

.PHONY: rotation
rotation: ## change the password of a Redis 20 times under load; about a minute
	CHECKPOINTD_ROTATIONS=20 go test ./internal/processtest -run TestAPasswordThatChanges -count=1 -timeout=30m -v

.PHONY: fmt
fmt: ## format the code the way the linter wants it
	$(tools) golangci-lint fmt

.PHONY: generate
generate: ## regenerate what comes from api/openapi.yaml
	go generate ./...

.PHONY: verify
verify: generate ## regenerate, and fail when a tracked file or the module files change
	git diff --exit-code
	go mod tidy -diff

.PHONY: images
images: ## build base images from this machine, for an engine that cannot pull
	scripts/local-images

.PHONY: compose-up
compose-up: ## start two replicas over one Redis, on 127.0.0.1:8081 and :8082
	docker-compose up --build --detach

.PHONY: compose-down
compose-down: ## stop them; their Redis keeps its data
	docker-compose down

.PHONY: ci
ci: ## run everything that a change must pass
	bash .ci/run
