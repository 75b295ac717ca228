# Two stages: a static binary, then nothing but that binary. The build needs no
# BuildKit, so that it runs on every engine; GO_IMAGE names another toolchain
# image where the public one cannot be pulled (see scripts/local-images).
ARG GO_IMAGE=golang:1.26-bookworm

FROM ${GO_IMAGE} AS build
WORKDIR /src
COPY . .
ARG VERSION=dev
# No layer for "go mod download": it fetches the tests' modules too, several times
# as many as the binary needs, and the build fetches those by itself.
#
# The image from scratch below has neither /tmp, where large uploads spill their
# key fingerprints, nor a folder that the embedded store may write: made here.
RUN CGO_ENABLED=0 go build -trimpath -ldflags "-s -w -X github.com/checkpointd/checkpointd/internal/server.version=${VERSION}" \
	-o /out/checkpointd ./cmd/server && \
	mkdir -p /out/writable/data /out/writable/tmp

FROM scratch
COPY --from=build --chown=65532:65532 /out/writable /
COPY --from=build /out/checkpointd /usr/local/bin/checkpointd

USER 65532:65532
# Inside a container loopback reaches nobody; publishing the port is the
# operator's decision. Without CHECKPOINTD_REDIS the embedded store writes to
# /data: mount a volume there to keep it.
ENV CHECKPOINTD_LISTEN=0.0.0.0:8080 CHECKPOINTD_DATA=/data
EXPOSE 8080

# There is no shell and no curl in here: the binary asks its own /healthz.
HEALTHCHECK --interval=5s --timeout=3s --start-period=5s --retries=3 \
	CMD ["/usr/local/bin/checkpointd", "--healthcheck"]
ENTRYPOINT ["/usr/local/bin/checkpointd"]
