# The server. In a copy of the project: docker build -f deploy/server.Dockerfile -t kernelcup-server:0.1 .
# The first five instructions are those of agent.Dockerfile too, so both share what they make.
FROM debian:bookworm-slim AS build
RUN apt-get update && apt-get install -y --no-install-recommends python3 python3-venv
WORKDIR /src
COPY requirements requirements
RUN --mount=type=cache,target=/root/.cache/pip \
    python3 -m venv /opt/kernelcup && /opt/kernelcup/bin/pip install --require-hashes -r requirements/server.txt

# --build-arg EXTRAS=[fleet] adds Ray, for a server whose machines are nodes of a cluster.
ARG EXTRAS=
# The documentation, which the server shows at /docs, goes into the package that is installed then.
RUN --mount=type=cache,target=/root/.cache/pip \
    python3 -m venv /opt/docs && /opt/docs/bin/pip install --require-hashes -r requirements/docs.txt
COPY pyproject.toml README.md LICENSE mkdocs.yml ./
COPY scripts/pack_documents.py scripts/deploy_files.py scripts/
COPY docs docs
COPY deploy deploy
COPY src src
# The routes of KernelBot's clients, and what moves a competition here.
COPY packages/kernelbot packages/kernelbot
RUN /opt/docs/bin/mkdocs build --strict \
    && /opt/kernelcup/bin/pip install --no-build-isolation ".$EXTRAS" ./packages/kernelbot

FROM debian:bookworm-slim
# postgresql-client: what backups are made with. Its version is not below that of the server in compose.yaml.
RUN apt-get update \
    && apt-get install -y --no-install-recommends ca-certificates postgresql-client python3 \
    && rm -rf /var/lib/apt/lists/*
# The folder of backups is there so that a volume that is mounted on it belongs to the same user.
RUN useradd --uid 10001 --create-home --home-dir /var/lib/kernelcup kernelcup \
    && install -d -m 700 -o kernelcup -g kernelcup /var/lib/kernelcup /var/lib/kernelcup/backups
COPY --from=build /opt/kernelcup /opt/kernelcup
ENV PATH=/opt/kernelcup/bin:/usr/local/bin:/usr/bin:/bin
ENV KERNELCUP_HOME=/var/lib/kernelcup
ENV KERNELCUP_CONFIG=/etc/kernelcup/kernelcup.toml
WORKDIR /var/lib/kernelcup
USER kernelcup
EXPOSE 8000
CMD ["kernelcup", "serve", "--drain", "--log-format", "json"]
