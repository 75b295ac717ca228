tools := go tool -modfile=internal/tools/go.mod

.DEFAULT_GOAL := help

.PHONY: help
help: ## list the targets
	@awk -F ':.*## ' '/^[a-z-]+:.*## / { printf "  %-14s %s\n", $$1, $$2 }' Makefile

.PHONY: build
build: ## build bin/checkpointd, a static binary
	CGO_ENABLED=0 go build -trimpath -o bin/checkpointd ./cmd/server

.PHONY: test
test: ## run every test with the race detector
	go test -race ./...

.PHONY: lint
lint: ## run the linter; its first run compiles it
	$(tools) golangci-lint run

.PHONY: bench
bench: ## measure everything against its goals, and write docs/performance.md; up to 15 minutes
	cd bench && go run . -write

.PHONY: bench-quick
bench-quick: ## the same on less data in under two minutes; writes nothing
	cd bench && go run . -quick

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
