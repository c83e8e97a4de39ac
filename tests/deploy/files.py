"""Checks of the files beside the chart: image, compose, dashboard, alerts, and the pages that describe them."""

from __future__ import annotations

import re
from collections.abc import Callable
from pathlib import Path
from typing import Any

import yaml

from helm import dashboard
from tests.deploy.tools import ROOT, Wrong, python, run
from trimtab.settings import parse
from trimtab.telemetry.catalogue import CATALOGUE

NAMES = {metric.name for metric in CATALOGUE}
_IN_QUERY = re.compile(r"\b(?:trimtab|gen_ai)_[a-z_]+\b")
_SUFFIX = re.compile(r"_(?:bucket|sum|count)$")
_PROMQL_LABELS = {label for metric in CATALOGUE for label in metric.labels}

# Grafana's own model reads the dashboard. A key that is lost on the way is unknown to Grafana.
_GRAFANA_MODEL = """
import json, sys
from grafana_foundation_sdk.cog.encoder import JSONEncoder
from grafana_foundation_sdk.cog.plugins import register_default_plugins
from grafana_foundation_sdk.models.dashboard import Dashboard
register_default_plugins()
def lost(given, kept, place):
    if isinstance(given, dict):
        gone = [place + "/" + key for key in given if key not in kept]
        return gone + [p for k, v in given.items() if k in kept for p in lost(v, kept[k], place + "/" + k)]
    if isinstance(given, list):
        return [p for i, v in enumerate(given) for p in lost(v, kept[i], f"{place}[{i}]")]
    return [] if given == kept else [f"{place}: {given!r} is read as {kept!r}"]
given = json.load(sys.stdin)
kept = json.loads(json.dumps(Dashboard.from_json(given), cls=JSONEncoder))
if places := lost(given, kept, ""):
    sys.exit("unknown to Grafana: " + ", ".join(places))
"""


def image_lint() -> str:
    run("hadolint", "Dockerfile")
    return "hadolint Dockerfile"


def image_needs_what_it_is_given() -> str:
    """Every file the Dockerfile copies passes .dockerignore and is there."""
    allowed = {line[1:] for line in (ROOT / ".dockerignore").read_text().splitlines() if line.startswith("!")}
    copied = [
        name
        for line in re.findall(r"^COPY (?!--from)(.+)$", (ROOT / "Dockerfile").read_text(), re.M)
        for name in line.split()[:-1]
    ]
    for name in copied:
        if name.split("/")[0] not in allowed or not (ROOT / name).exists():
            raise Wrong(f"{name} is copied, and ignored or missing")
    return f"{len(copied)} files and folders copied, nothing else sent"


def compose() -> str:
    run("check-jsonschema", "--builtin-schema", "vendor.compose-spec", "docker-compose.yaml")
    whole = yaml.safe_load((ROOT / "docker-compose.yaml").read_text())
    services = whole["services"]
    if not parse(_defaults(whole["configs"]["trimtab"]["content"]), {}).upstreams:
        raise Wrong("its trimtab.toml has no upstream")
    for name, service in services.items():
        for mount in service.get("volumes", []):
            source = mount.split(":")[0]
            if source.startswith("./") and not (ROOT / source).exists():
                raise Wrong(f"{name} mounts {source}, which is not there")
    return f"docker-compose.yaml by the compose schema: {', '.join(services)}"


def workflow_runs_what_a_desk_runs() -> str:
    """The workflow is valid, and its only command is `.ci/run`; actions are pinned by commit."""
    path = ".github/workflows/ci.yaml"
    run("check-jsonschema", "--builtin-schema", "vendor.github-workflows", path)
    steps = yaml.safe_load((ROOT / path).read_text())["jobs"]["run"]["steps"]
    if [step["run"] for step in steps if "run" in step] != [".ci/run"]:
        raise Wrong(f"{path} runs another command than .ci/run")
    if loose := [step["uses"] for step in steps if not re.search(r"@[0-9a-f]{40}$", step.get("uses", "@" + "0" * 40))]:
        raise Wrong(f"{path} uses {loose}, which is not pinned by a commit")
    return f"{path} by the workflow schema, {len(steps)} steps"


def _defaults(text: str) -> str:
    """Compose's `${NAME:-default}` as it reads when NAME is not set."""
    return re.sub(r"\$\{\w+:-([^}]*)\}", r"\1", text)


def dashboard_is_built() -> str:
    if (ROOT / "helm/dashboards/trimtab.json").read_text() != dashboard.text():
        raise Wrong("helm/dashboards/trimtab.json is out of date: python -m helm.dashboard")
    return "dashboards/trimtab.json is what helm/dashboard.py writes"


def dashboard_schema() -> str:
    schema = Path(__file__).with_name("dashboard.schema.json")
    run("check-jsonschema", "--schemafile", schema, "helm/dashboards/trimtab.json")
    python(_GRAFANA_MODEL, dashboard.text())
    return "dashboard by its schema, and read by Grafana's own model without a loss"


def dashboard_layout() -> str:
    """No two panels overlap, none leaves the grid, no id twice."""
    taken: dict[tuple[int, int], str] = {}
    panels = dashboard.panels()
    for panel in panels:
        grid = panel["gridPos"]
        for x in range(grid["x"], grid["x"] + grid["w"]):
            for y in range(grid["y"], grid["y"] + grid["h"]):
                if x >= 24 or taken.setdefault((x, y), panel["title"]) != panel["title"]:
                    raise Wrong(f"{panel['title']} overlaps {taken.get((x, y))} or leaves the grid")
    if len({panel["id"] for panel in panels}) != len(panels):
        raise Wrong("an id is used twice")
    return f"{len(panels)} rows and panels, none over another"


def queries_name_what_there_is() -> str:
    """Dashboards and alerts use only metrics of the catalogue, and every metric is on the dashboard."""
    on_dashboard = _metrics(dashboard.text())
    in_alerts = _metrics((ROOT / "helm/files/alerts.yaml").read_text())
    if unknown := (on_dashboard | in_alerts) - NAMES:
        raise Wrong(f"no such metric: {sorted(unknown)}")
    if unseen := NAMES - on_dashboard - {"gen_ai_client_token_usage"}:
        raise Wrong(f"on no panel: {sorted(unseen)}")
    return f"{len(on_dashboard)} metrics on the dashboard, {len(in_alerts)} in alerts, all in the catalogue"


def _metrics(text: str) -> set[str]:
    found = {name if name in NAMES else _SUFFIX.sub("", name) for name in _IN_QUERY.findall(text)}
    return found - _PROMQL_LABELS


def alerts() -> str:
    run("promtool", "check", "rules", "helm/files/alerts.yaml")
    run("promtool", "test", "rules", "tests/deploy/alerts_test.yaml")
    tested = set(re.findall(r"Trimtab\w+", (ROOT / "tests/deploy/alerts_test.yaml").read_text()))
    names = [rule["alert"] for rule in _rules()]
    if untested := set(names) - tested:
        raise Wrong(f"no unit test for {sorted(untested)}")
    return f"{len(names)} alerts checked, each with a unit test that passed"


def too_long_is_no_alert() -> str:
    """A conversation that is too long is a decision for a person."""
    for rule in _rules():
        if re.search(r"refused|overflow|context_length", rule["expr"]):
            raise Wrong(f"{rule['alert']} alerts on conversations that are too long")
    return "no alert looks at refusals or overflow"


def _rules() -> list[dict[str, Any]]:
    groups = yaml.safe_load((ROOT / "helm/files/alerts.yaml").read_text())["groups"]
    return [rule for group in groups for rule in group["rules"]]


def every_metric_is_described() -> str:
    page = (ROOT / "docs/metrics.md").read_text()
    if missing := [name for name in sorted(NAMES) if f"`{name}`" not in page]:
        raise Wrong(f"docs/metrics.md does not describe {missing}")
    if unknown := sorted(_metrics(page) - NAMES):
        raise Wrong(f"docs/metrics.md describes {unknown}, which do not exist")
    return f"{len(NAMES)} metrics described in docs/metrics.md"


def every_alert_is_explained() -> str:
    """Each alert has a section in the guide, where its link leads, and a line in the table of metrics."""
    sections, table = _anchors(ROOT / "docs/operations.md"), (ROOT / "docs/metrics.md").read_text()
    for rule in _rules():
        name, link = rule["alert"], rule["annotations"]["runbook_url"]
        if link != f"docs/operations.md#{name.lower()}" or name.lower() not in sections:
            raise Wrong(f"{name} has no section in docs/operations.md")
        if f"[`{name}`](operations.md#{name.lower()}) | {rule['labels']['severity']} |" not in table:
            raise Wrong(f"docs/metrics.md does not list {name} with its severity")
    return f"{len(_rules())} alerts, each with a section of its own in the guide"


def links_lead_somewhere() -> str:
    """Links of the pages lead to files, and to sections that are there."""
    count = 0
    for page in [*(ROOT / "docs").glob("*.md"), ROOT / "helm/README.md"]:
        for target, anchor in re.findall(r"\]\((?!https?:)([^)#]*)#?([^)]*)\)", page.read_text()):
            count += 1
            to = page.parent / target if target else page
            if not to.exists() or (anchor and anchor not in _anchors(to)):
                raise Wrong(f"{page.name} links to {target}#{anchor}, which is not there")
    return f"{count} links of the pages lead to a file or a section"


def _anchors(page: Path) -> set[str]:
    """The anchors that GitHub gives the headings of a page."""
    headings = re.findall(r"^#+ (.+)$", page.read_text(), re.M)
    return {re.sub(r"[^\w\- ]", "", heading.lower()).replace(" ", "-") for heading in headings}


CHECKS: tuple[Callable[[], str], ...] = (
    image_lint,
    image_needs_what_it_is_given,
    compose,
    workflow_runs_what_a_desk_runs,
    dashboard_is_built,
    dashboard_schema,
    dashboard_layout,
    queries_name_what_there_is,
    alerts,
    too_long_is_no_alert,
    every_metric_is_described,
    every_alert_is_explained,
    links_lead_somewhere,
)
