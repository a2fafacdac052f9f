FROM python:3.11-slim
RUN apt-get update && apt-get install -y --no-install-recommends git && rm -rf /var/lib/apt/lists/*
WORKDIR /app
COPY . .
RUN pip install --no-cache-dir -c constraints.txt . ./agents/git-agent ./agents/filesystem-agent ./agents/logs-agent \
    && useradd --create-home agent
USER agent
