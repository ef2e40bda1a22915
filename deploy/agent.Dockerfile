# A GPU machine that judges for a server. In a copy of the project:
# docker build -f deploy/agent.Dockerfile -t kernelcup-agent:0.1 .
# The driver's libraries come from the host, by NVIDIA's container toolkit.
FROM debian:bookworm-slim AS build
RUN apt-get update && apt-get install -y --no-install-recommends python3 python3-venv
WORKDIR /src
COPY requirements requirements
RUN --mount=type=cache,target=/root/.cache/pip \
    python3 -m venv /opt/kernelcup && /opt/kernelcup/bin/pip install --require-hashes -r requirements/server.txt

# PyPI's torch is a build with CUDA; --build-arg TORCH_INDEX=https://download.pytorch.org/whl/cuNNN names another one.
# Triton comes with those; CPU builds lack it.
ARG TORCH_INDEX=
RUN --mount=type=cache,target=/root/.cache/pip \
    /opt/kernelcup/bin/pip install torch==2.13.0 ${TORCH_INDEX:+--index-url $TORCH_INDEX} \
    && /opt/kernelcup/bin/pip install triton==3.7.1
# The extra `cuda` has NVIDIA's compiler for submissions in CUDA C++ (372 MB); --build-arg EXTRAS= leaves it out,
# EXTRAS=[cuda,fleet] adds Ray.
ARG EXTRAS=[cuda]
COPY pyproject.toml README.md LICENSE ./
COPY scripts/pack_documents.py scripts/
COPY src src
RUN --mount=type=cache,target=/root/.cache/pip \
    /opt/kernelcup/bin/pip install --no-build-isolation ".$EXTRAS"

FROM debian:bookworm-slim
# bubblewrap holds submissions; g++ and Python's headers are for Triton and extensions in C++, which ninja builds.
RUN apt-get update \
    && apt-get install -y --no-install-recommends bubblewrap ca-certificates g++ ninja-build python3-dev \
    && rm -rf /var/lib/apt/lists/*
RUN useradd --uid 10001 --create-home --home-dir /var/lib/kernelcup kernelcup && chmod 700 /var/lib/kernelcup
COPY --from=build /opt/kernelcup /opt/kernelcup
ENV PATH=/opt/kernelcup/bin:/usr/local/bin:/usr/bin:/bin
ENV KERNELCUP_HOME=/var/lib/kernelcup
ENV NVIDIA_VISIBLE_DEVICES=all
ENV NVIDIA_DRIVER_CAPABILITIES=compute,utility
WORKDIR /var/lib/kernelcup
USER kernelcup
CMD ["kernelcup", "doctor", "--runner"]
