"""Checks the charts and their renderings. `cargo xtask charts` runs it and sets its environment.

It renders each chart with every file in its `ci/`. It checks every rendering against the schemas of five versions of Kubernetes,
kube-score and `rules.py`, and lets teamwire read its configuration. `faults.py` then breaks renderings, and the checks must
notice. Finally `pods.py` runs what was rendered. With `--write` it renders the manifests in `deploy/` instead.
"""

import json
import os
import pathlib
import re
import subprocess
import sys
import tempfile
import tomllib

import kubernetes_validate
import yaml

import faults
import pods
import rules

ROOT = pathlib.Path(__file__).parents[2]
HELM, KUBE_SCORE = os.environ["HELM"], os.environ["KUBE_SCORE"]
# None with --write.
TEAMWIRE = os.environ.get("TEAMWIRE")

# The oldest version that the charts support, and the latest four; and the kinds that Kubernetes' schemas lack.
VERSIONS = ["1.30", "1.34", "1.35", "1.36", "1.37"]
FOREIGN = {
    ("cert-manager.io/v1", "Certificate"),
    ("gateway.networking.k8s.io/v1", "BackendTLSPolicy"),
    ("gateway.networking.k8s.io/v1", "GRPCRoute"),
    ("keda.sh/v1alpha1", "ScaledObject"),
    ("monitoring.coreos.com/v1", "PrometheusRule"),
    ("monitoring.coreos.com/v1", "ServiceMonitor"),
}

# The tests of kube-score that do not apply, and why.
UNSCORED = {
    "container-image-pull-policy": "tags never move, and imagePullSecrets are not for access control",
    "deployment-has-host-podantiaffinity": "topologySpreadConstraints replace it",
    "statefulset-has-host-podantiaffinity": "the bundled store has one Pod, and members may share a node",
    "statefulset-has-poddisruptionbudget": "the bundled store has one Pod, and members return with their identity",
    "statefulset-has-servicename": "members accept no connections",
}
# And those that do not apply to an embedded store, which allows only one coordinator.
UNSCORED_ALONE = ["deployment-strategy", "deployment-replicas"]

# The manifests for use without Helm: the file, its chart, release and values.
RENDERED = [
    ("deploy/kubernetes/teamwire.yaml", "teamwire", "teamwire", "deploy/kubernetes/values.yaml"),
    ("deploy/examples/team.yaml", "teammate", "acme-lead", "deploy/examples/lead.yaml"),
    ("deploy/examples/team.yaml", "teammate", "acme-worker", "deploy/examples/workers.yaml"),
]
NAMESPACE = "teamwire"

failures = []
checks = 0


def check(what, problems):
    """Counts a check, and records its problems."""
    global checks
    checks += 1
    for problem in problems:
        failures.append(f"{what}: {problem}")


def run(*command, **options):
    return subprocess.run(command, cwd=ROOT, capture_output=True, text=True, check=False, **options)


def helm(action, *arguments):
    return run(HELM, action, *arguments, "--namespace", NAMESPACE, "--kube-version", VERSIONS[-1])


def render(chart, *arguments, release="teamwire"):
    """Returns the rendering of a chart, as text and as objects."""
    made = helm("template", release, f"deploy/helm/{chart}", *arguments)
    if made.returncode:
        sys.exit(f"{chart} {' '.join(arguments)}: {made.stderr}")
    return made.stdout, [thing for thing in yaml.safe_load_all(made.stdout) if thing]


def score(objects):
    """Returns what kube-score finds, by test."""
    # A hook's Pod is short-lived and serves nothing.
    lasting = [thing for thing in objects if "helm.sh/hook" not in thing["metadata"].get("annotations", {})]
    arguments = ["--output-format", "json", "--kubernetes-version", f"v{VERSIONS[0]}", "--ignore-container-cpu-limit"]
    ignored = [*UNSCORED, *(UNSCORED_ALONE if rules.is_alone(objects) else [])]
    arguments += [word for test in ignored for word in ("--ignore-test", test)]
    scored = run(KUBE_SCORE, "score", *arguments, "-", input=yaml.safe_dump_all(lasting))
    found = {}
    for thing in json.loads(scored.stdout):
        for test in thing["checks"]:
            # 10 is the best grade.
            if not test["skipped"] and test["grade"] < 10:
                found.setdefault(test["check"]["id"], []).append(f"{thing['object_name']}: {test['comments']}")
    return found


def schema(objects):
    """Yields where objects violate the schema of a version of Kubernetes."""
    for thing in objects:
        if (thing["apiVersion"], thing["kind"]) in FOREIGN:
            continue
        for version in VERSIONS:
            try:
                kubernetes_validate.validate(thing, version, strict=True)
            except kubernetes_validate.ValidationError as error:
                yield f"{version}: {thing['kind']}: {error.message} at {list(error.path)}"
            except (kubernetes_validate.SchemaNotFoundError, kubernetes_validate.InvalidSchemaError) as error:
                yield f"{version}: {thing['kind']}: {error}"


def rejection(objects):
    """Returns why teamwire rejects the configuration of a rendering. None: it accepts it."""
    _, _, config = rules.coordinator(objects)
    text = next(m["data"]["teamwire.toml"] for m in objects if m["kind"] == "ConfigMap" and "teamwire.toml" in m["data"])
    with tempfile.NamedTemporaryFile("w", suffix=".toml") as file:
        file.write(text)
        file.flush()
        read = run(TEAMWIRE, "serve", "--config", file.name, "--print-config", env={})
    if read.returncode:
        return read.stderr.strip()
    held = tomllib.loads(read.stdout)
    for key, value in config.items():
        pairs = [(held[key][k], v) for k, v in value.items()] if isinstance(value, dict) else [(held[key], value)]
        if any(there != given for there, given in pairs):
            return f"{key} is {held[key]}, not {value}"
    return None


def good(name, objects):
    """Runs all checks on a rendering."""
    check(name, schema(objects))
    check(name, (f"{rule}: {problems}" for rule, problems in rules.broken(objects).items()))
    check(name, (f"{test}: {problems}" for test, problems in score(objects).items()))
    if rules.coordinator(objects):
        check(name, filter(None, [rejection(objects)]))


def written():
    """Returns the manifests in deploy/ as they should be, by path."""
    files = {}
    for path, chart, release, values in RENDERED:
        text, _ = render(chart, "--values", values, "--skip-tests", release=release)
        files.setdefault(path, "# Rendered by `cargo xtask manifests`; docs/kubernetes.md says how to use it.\n")
        # Without the labels that claim that Helm manages the objects.
        lines = [line.rstrip() for line in text.splitlines() if not re.match(r"\s+(helm\.sh/chart|.*managed-by):", line)]
        files[path] += "\n".join(lines) + "\n"
    return files


def main():
    if sys.argv[1:] == ["--write"]:
        for path, text in written().items():
            (ROOT / path).write_text(text)
        return

    # The metrics that dashboards, alerts and autoscalers use.
    metrics = set()
    version = tomllib.loads((ROOT / "Cargo.toml").read_text())["workspace"]["package"]["version"]
    for chart in ("teamwire", "teammate"):
        meta = yaml.safe_load((ROOT / "deploy/helm" / chart / "Chart.yaml").read_text())
        same = meta["appVersion"] == version
        check(chart, [] if same else [f"appVersion is {meta['appVersion']}, but teamwire is {version}"])
        for values in sorted((ROOT / "deploy/helm" / chart / "ci").glob("*.yaml")):
            name = str(values.relative_to(ROOT))
            linted = helm("lint", f"deploy/helm/{chart}", "--strict", "--quiet", "--values", name)
            check(name, filter(None, [linted.returncode and linted.stdout + linted.stderr]))
            objects = render(chart, "--values", name)[1]
            good(name, objects)
            metrics |= rules.metrics(objects)

    # The values in the page start with the name of their chart.
    page = (ROOT / "docs/kubernetes.md").read_text()
    for number, (chart, values) in enumerate(re.findall(r"```yaml\n# values of (\w+)\n(.*?)```", page, re.DOTALL)):
        with tempfile.NamedTemporaryFile("w", suffix=".yaml") as file:
            file.write(values.replace("REGISTRY", "registry.example.com"))
            file.flush()
            good(f"docs/kubernetes.md, values {number + 1}", render(chart, "--values", file.name)[1])

    # The alerts are written in two forms.
    alerts = [re.findall(r"alert: (\w+)", (ROOT / path).read_text()) for path in ("docs/operations.md", "deploy/helm/teamwire/files/alerts.yaml")]
    check("alerts", [] if alerts[0] == alerts[1] else [f"docs/operations.md has {alerts[0]}, but the chart has {alerts[1]}"])

    for path, text in written().items():
        check(path, [] if (ROOT / path).read_text() == text else ["it differs from what the charts render: run `cargo xtask manifests`"])
        objects = list(filter(None, yaml.safe_load_all(text)))
        good(path, objects)
        check(path, ("a Secret is committed" for thing in objects if thing["kind"] == "Secret"))

    # The checks must notice these.
    unseen = {rule.__name__ for rule in rules.RULES}
    for what, chart, values, change, expected in faults.FAULTS:
        _, objects = render(chart, "--values", f"deploy/helm/{chart}/ci/{values}.yaml")
        change(objects)
        found = rules.broken(objects) | score(objects)
        check(f"planted fault: {what}", [] if expected in found else [f"{expected} did not notice it; these did: {list(found)}"])
        unseen.discard(expected)
    check("planted faults", (f"no fault tests the rule {rule}" for rule in unseen))
    for what, change in faults.SCHEMA_FAULTS:
        _, objects = render("teamwire")
        change(objects)
        check(f"planted fault: {what}", [] if list(schema(objects)) else ["the schemas accept it"])
    for chart, arguments, expected in faults.REJECTED:
        made = helm("template", "x", f"deploy/helm/{chart}", *arguments)
        text = made.stderr
        if not made.returncode:
            text = rejection(list(filter(None, yaml.safe_load_all(made.stdout)))) or "it was accepted"
        check(f"{chart} {' '.join(arguments)}", [] if expected in text else [f"it should say {expected!r}: {text}"])

    check("metrics", [] if len(metrics) > 15 else [f"the charts use only {sorted(metrics)}"])
    for name, problems in pods.run(TEAMWIRE, ROOT, render, metrics):
        check(name, problems)

    for failure in failures:
        print(f"charts: {failure}", file=sys.stderr)
    print(f"charts: {checks} checks, {len(failures)} failures")
    sys.exit(bool(failures))


main()
