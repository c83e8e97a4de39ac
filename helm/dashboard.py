"""Writes `dashboards/trimtab.json`: `python -m helm.dashboard`. Lays out the rows of `panels` on Grafana's grid of 24
columns and puts them into Grafana's own words: types, options, variables.
"""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

from helm.panels import ROWS, Panel
from trimtab.telemetry import catalogue as names

HERE = Path(__file__).parent
SOURCE = {"type": "prometheus", "uid": "${datasource}"}

Json = dict[str, Any]


def _panel(panel: Panel, number: int, x: int, y: int, height: int) -> Json:
    defaults: Json = {"unit": panel.unit, "min": 0, "color": {"mode": "palette-classic"}}
    if panel.most is not None:
        defaults["max"] = panel.most
    if panel.thresholds:
        steps = [{"color": color, "value": value or None} for value, color in panel.thresholds]
        defaults |= {"thresholds": {"mode": "absolute", "steps": steps}, "color": {"mode": "thresholds"}}
    if panel.kind == "timeseries":
        defaults["custom"] = {
            "fillOpacity": 30 if panel.stack else 0,
            "lineWidth": 1,
            "showPoints": "never",
            "stacking": {"mode": "normal" if panel.stack else "none", "group": "A"},
        }
    return {
        "id": number,
        "type": panel.kind,
        "title": panel.title,
        "description": panel.about,
        "datasource": SOURCE,
        "gridPos": {"x": x, "y": y, "w": panel.width, "h": height},
        "fieldConfig": {"defaults": defaults, "overrides": []},
        "options": OPTIONS[panel.kind],
        "targets": [_target(panel, index, *query) for index, query in enumerate(panel.queries)],
    }


def _target(panel: Panel, index: int, query: str, legend: str) -> Json:
    return {
        "refId": chr(ord("A") + index),
        "datasource": SOURCE,
        "expr": query,
        "legendFormat": legend or "__auto",
        "format": "heatmap" if panel.kind == "heatmap" else "time_series",
        "instant": "$__range" in query,
        "range": "$__range" not in query,
    }


_LAST = {"calcs": ["lastNotNull"], "fields": "", "values": False}
OPTIONS: dict[str, Json] = {
    "timeseries": {
        "legend": {"displayMode": "list", "placement": "bottom", "showLegend": True, "calcs": []},
        "tooltip": {"mode": "multi", "sort": "desc"},
    },
    "stat": {"reduceOptions": _LAST, "colorMode": "value", "graphMode": "area", "textMode": "auto"},
    "bargauge": {"reduceOptions": _LAST, "orientation": "horizontal", "displayMode": "basic"},
    "heatmap": {
        "calculate": False,
        "yAxis": {"unit": "percentunit"},
        "color": {"mode": "scheme", "scheme": "Oranges", "steps": 64},
        "cellGap": 1,
    },
}


def _row(title: str, number: int, y: int) -> Json:
    return {
        "id": number,
        "type": "row",
        "title": title,
        "collapsed": False,
        "gridPos": {"x": 0, "y": y, "w": 24, "h": 1},
        "panels": [],
    }


def panels() -> list[Json]:
    """Rows and panels, laid out left to right; a line is as high as its highest panel."""
    placed: list[Json] = []
    y = 0
    for title, row in ROWS:
        placed.append(_row(title, len(placed) + 1, y))
        x, y, height = 0, y + 1, 0
        for panel in row:
            if x + panel.width > 24:
                x, y, height = 0, y + height, 0
            own = 4 if panel.kind == "stat" and panel.width < 8 else 8
            placed.append(_panel(panel, len(placed) + 1, x, y, own))
            x, height = x + panel.width, max(height, own)
        y += height
    return placed


def _variable(name: str, label: str, query: str) -> Json:
    return {
        "name": name,
        "label": label,
        "type": "query",
        "datasource": SOURCE,
        "query": {"query": query, "refId": name},
        "refresh": 2,
        "sort": 1,
        "multi": True,
        "includeAll": True,
        "allValue": ".*",
        "current": {"text": "All", "value": "$__all"},
        "options": [],
    }


def built() -> Json:
    """The dashboard."""
    source = {
        "name": "datasource",
        "label": "Data source",
        "type": "datasource",
        "query": "prometheus",
        "refresh": 1,
        "current": {},
        "options": [],
    }
    build, requests = names.BUILD.name, names.REQUESTS.name
    variables = [
        source,
        _variable("namespace", "Namespace", f"label_values({build}, namespace)"),
        _variable("job", "Job", f'label_values({build}{{namespace=~"$namespace"}}, job)'),
        _variable("model", "Model", f'label_values({requests}{{namespace=~"$namespace", job=~"$job"}}, model)'),
    ]
    return {
        "uid": "trimtab",
        "title": "Trimtab",
        "description": "Conversations kept in their window: is it healthy, what did it save, what did it cost.",
        "tags": ["llm", "trimtab"],
        "schemaVersion": 39,
        "version": 1,
        "editable": True,
        "graphTooltip": 1,
        "refresh": "30s",
        "time": {"from": "now-6h", "to": "now"},
        "timepicker": {},
        "timezone": "browser",
        "templating": {"list": variables},
        "annotations": {"list": []},
        "links": [],
        "panels": panels(),
    }


def text() -> str:
    """The file's content."""
    return json.dumps(built(), indent=1) + "\n"


if __name__ == "__main__":
    (HERE / "dashboards" / "trimtab.json").write_text(text())
