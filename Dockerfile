# ForgeFS in a container: docker build -t forgefs . && docker run --rm -i -v "$PWD/forge.toml:/work/forge.toml:ro" forgefs
# docs/install.md says what such a container needs.

FROM rust:1.95.0-bookworm AS build
WORKDIR /source
COPY . .
# QuickJS builds from the package registry alone; FEATURES=v8 adds V8, whose library the build downloads.
ARG FEATURES=quickjs
RUN cargo build --release --locked --bin forgefs --features "$FEATURES"

FROM debian:bookworm-slim
# Certificates for servers on https.
# hadolint ignore=DL3008
RUN apt-get update \
    && apt-get install --yes --no-install-recommends ca-certificates \
    && rm -rf /var/lib/apt/lists/* \
    && useradd --uid 10001 --create-home --home-dir /work --shell /usr/sbin/nologin forgefs
COPY --from=build /source/target/release/forgefs /usr/local/bin/forgefs
USER 10001
WORKDIR /work
ENTRYPOINT ["/usr/local/bin/forgefs"]
CMD ["serve"]
