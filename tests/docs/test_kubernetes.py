"""deploy/kubernetes, as far as it can be read without a cluster."""

from __future__ import annotations

import json
import os
import re
import sys
from contextlib import closing
from pathlib import Path

import kubernetes_validate
import yaml

from agent_utilities.gateway.upstreams.sealed_store import new_key
from agent_utilities.settings import VARIABLES
from tests.docs.test_compose import ENDING_S
from tests.every import every
from tests.fleet.processes.services import redis_server
from tests.wire.http_raw import RawHttp
from tests.wire.processes import HttpProcess

FILES = sorted((Path(__file__).parents[2] / "deploy" / "kubernetes").glob("*.yaml"))
DOCUMENTS = {each["kind"]: each for file in FILES for each in yaml.safe_load_all(file.read_text(encoding="utf-8"))}
POD = DOCUMENTS["Deployment"]["spec"]["template"]
(CONTAINER,) = POD["spec"]["containers"]
ENV = {each["name"]: each for each in CONTAINER["env"]}
PROBES = {name: CONTAINER[name]["httpGet"] for name in ("startupProbe", "livenessProbe", "readinessProbe")}
KINDS = ["ConfigMap", "Deployment", "Service", "PodDisruptionBudget", "HorizontalPodAutoscaler"]


def test_there_is_what_a_fleet_needs():
    assert list(DOCUMENTS) == KINDS


@every("kind", KINDS)
@every("version", ["1.30", "1.37"])
def test_kubernetes_own_schema_takes_it(kind, version):
    kubernetes_validate.validate(DOCUMENTS[kind], version, strict=True)


def test_every_variable_of_ours_is_a_setting():
    assert {name for name in ENV if name.startswith("MCP_")} - set(VARIABLES) == set()


def test_what_is_secret_is_in_a_secret_that_the_file_says_how_to_make():
    refs = {name: each["valueFrom"]["secretKeyRef"] for name, each in ENV.items() if "valueFrom" in each}
    assert list(refs) == ["MCP_STATE_URL", "MCP_SECRET_KEY"]
    text = "".join(file.read_text(encoding="utf-8") for file in FILES)
    (made,) = re.findall(r"create secret generic (\S+)", text)
    keys = re.findall(r"--from-literal=(\w+)=", text)
    assert [(ref["name"], ref["key"]) for ref in refs.values()] == [(made, key) for key in keys]


def test_whoever_selects_pods_selects_these():
    labels = POD["metadata"]["labels"]
    specs = {kind: each["spec"] for kind, each in DOCUMENTS.items() if "spec" in each}
    selectors = [specs[kind]["selector"]["matchLabels"] for kind in ("Deployment", "PodDisruptionBudget")]
    assert [*selectors, specs["Service"]["selector"]] == [labels] * 3
    scaled = specs["HorizontalPodAutoscaler"]["scaleTargetRef"]
    assert (scaled["kind"], scaled["name"]) == ("Deployment", DOCUMENTS["Deployment"]["metadata"]["name"])


def test_a_pod_is_stopped_only_after_it_has_drained_and_the_probe_has_told():
    drain_s = int(CONTAINER["args"][CONTAINER["args"].index("--drain") + 1])
    ready = CONTAINER["readinessProbe"]
    assert POD["spec"]["terminationGracePeriodSeconds"] >= drain_s + ENDING_S
    assert ready["periodSeconds"] * ready["failureThreshold"] + ready["timeoutSeconds"] < drain_s


def test_ports_and_volumes_are_those_that_are_named():
    (port,), (service,) = CONTAINER["ports"], DOCUMENTS["Service"]["spec"]["ports"]
    assert str(port["containerPort"]) in CONTAINER["args"]
    assert {port["name"]} == {service["targetPort"], *(probe["port"] for probe in PROBES.values())}
    volumes = {each["name"] for each in POD["spec"]["volumes"]}
    assert {each["name"] for each in CONTAINER["volumeMounts"]} == volumes


def test_a_gateway_started_as_it_says_answers_every_probe(tmp_path):
    config = tmp_path / "mcp.json"
    config.write_text(DOCUMENTS["ConfigMap"]["data"]["mcp.json"], encoding="utf-8")
    # A loopback address that is none by its name stands for 0.0.0.0: no test listens on a network.
    swapped = {"0.0.0.0": "127.1", "8001": "0", "/etc/gateway/mcp.json": str(config)}
    command, *line = (swapped.get(word, word) for word in [*CONTAINER["command"], *CONTAINER["args"]])
    kept = {name: value for name, value in os.environ.items() if not name.startswith("MCP_")}
    given = {name: each["value"] for name, each in ENV.items() if "value" in each} | {"HOME": str(tmp_path)}
    with redis_server(tmp_path, "secret") as redis:
        secret = {"MCP_STATE_URL": redis.url(), "MCP_SECRET_KEY": new_key(), "MCP_FIRST_LIST_S": "0"}
        gateway = HttpProcess([str(Path(sys.executable).parent / command), *line], {**kept, **given, **secret})
        try:
            port = gateway.wait_for(re.compile(r"Uvicorn running on http://127\.1:(\d+)"))[1]
            with closing(RawHttp(f"http://127.0.0.1:{port}")) as http:
                for probe in PROBES.values():
                    headers = [(each["name"], each["value"]) for each in probe["httpHeaders"]]
                    assert http.get(probe["path"], headers).status == 200
                assert http.get("/ready", [("host", "10.0.0.1:8001")]).status == 421
                while (ready := http.get("/ready", [("host", "gateway")]).json)["state"] != {"status": "ready"}:
                    pass  # a busy machine may not have had an answer of Redis yet
            assert ready["server"] == "gateway"
            assert list(json.loads(config.read_text())["mcpServers"]) == ["logs"]
        finally:
            gateway.process.kill()  # it would drain
            gateway.stop()
