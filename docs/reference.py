"""Write the pages that come from code: keys of the configuration, methods, figures and tables."""

from pathlib import Path
from typing import Any

from flrml.methods import METHODS
from flrml.pipeline.config.resolve import load_schema
from flrml.pipeline.report.catalog import FIGURES, TABLES, Entry

ROOT = Path(__file__).parents[1]


def _kind(rule: dict[str, Any]) -> str:
    kind = rule.get("type", "mapping" if "properties" in rule else "")
    return " or ".join(kind) if isinstance(kind, list) else kind


def _rows(rules: dict[str, Any], root: dict[str, Any], prefix: str = "") -> list[str]:
    lines = []
    for name, rule in rules.get("properties", {}).items():
        if "$ref" in rule:
            rule = root["$defs"][rule["$ref"].rsplit("/", 1)[1]] | {k: v for k, v in rule.items() if k != "$ref"}
        default = f"`{rule['default']}`" if "default" in rule else "–"
        text = str(rule.get("description", "")).replace("|", "\\|")
        lines.append(f"| `{prefix}{name}` | {_kind(rule)} | {default} | {text} |")
        if prefix.count(".") < 2:
            lines += _rows(rule, root, f"{prefix}{name}.")
        others = rule.get("additionalProperties")
        if isinstance(others, dict) and "$ref" in others:
            lines += _rows(root["$defs"][others["$ref"].rsplit("/", 1)[1]], root, f"{prefix}{name}.<name>.")
    return lines


def configuration() -> str:
    """Return the reference of the configuration as a Markdown table."""
    schema = load_schema(ROOT / "workflow" / "schemas" / "config.schema.yaml")
    head = ["| key | type | default | meaning |", "|---|---|---|---|"]
    return "\n".join([*head, *_rows(schema, schema)]) + "\n"


def methods() -> str:
    """Return the registered methods as a Markdown table."""
    head = ["| name | method | class | starts from an SVD | compared by |", "|---|---|---|---|---|"]
    lines = [
        f"| `{m.name}` | {m.title} | `{m.estimator.__module__}.{m.estimator.__name__}` | "
        f"{'yes' if m.uses_spectrum else 'no'} | {m.metric} |"
        for m in METHODS.values()
    ]
    return "\n".join([*head, *lines]) + "\n"


def catalog(kind: str, entries: dict[str, Entry]) -> str:
    """Return figures or tables as a Markdown table: the rule, and the caption."""
    head = [f"| rule | {kind} |", "|---|---|"]
    lines = [f"| `{kind}_{name}` | {entry.caption} |" for name, entry in entries.items()]
    return "\n".join([*head, *lines]) + "\n"


def _write(app: Any) -> None:
    folder = Path(app.srcdir) / "_generated"
    folder.mkdir(exist_ok=True)
    pages = {
        "configuration": configuration(),
        "methods": methods(),
        "figures": catalog("figure", {**FIGURES}),
        "tables": catalog("table", TABLES),
    }
    for name, text in pages.items():
        path = folder / f"{name}.md"
        if not path.exists() or path.read_text() != text:
            path.write_text(text)


def setup(app: Any) -> dict[str, bool]:
    """Write the pages before Sphinx reads any."""
    app.connect("builder-inited", _write)
    return {"parallel_read_safe": True}
