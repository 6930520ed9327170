"""Rules for every rendering of the charts that no general tool knows.

A rule takes the objects of a rendering and yields what is wrong with them. kube-score checks readOnlyRootFilesystem, resources,
image tags, disruption budgets, and that network policies exist.
"""

import json
import re
import tomllib

# By API group and resource.
HOST_RIGHTS = {
    ("batch", "jobs"): {"create", "delete", "get", "list", "patch", "watch"},
    ("", "secrets"): {"create"},
    ("", "pods"): {"list", "watch"},
    ("", "events"): {"list", "watch"},
    ("", "configmaps"): {"get"},
}

TEMPLATES = {"Deployment", "StatefulSet", "Job"}
VOLUMES = {"configMap", "secret", "emptyDir", "persistentVolumeClaim", "downwardAPI", "projected"}


def of_kind(objects, *kinds):
    return [thing for thing in objects if thing["kind"] in kinds]


def pods(objects):
    """Yields the Pods of each object: its name, their labels, their specification."""
    for thing in objects:
        name = f"{thing['kind']} {thing['metadata']['name']}"
        if thing["kind"] in TEMPLATES:
            template = thing["spec"]["template"]
            yield name, template["metadata"]["labels"], template["spec"]
        elif thing["kind"] == "Pod":
            yield name, thing["metadata"]["labels"], thing["spec"]


def containers(spec):
    return spec.get("initContainers", []) + spec["containers"]


def coordinator(objects):
    """Returns the coordinators' Deployment with its container and its configuration. None: there is none."""
    for thing in of_kind(objects, "Deployment"):
        if thing["spec"]["template"]["metadata"]["labels"]["app.kubernetes.io/component"] == "coordinator":
            name = thing["metadata"]["name"]
            maps = [m for m in of_kind(objects, "ConfigMap") if m["metadata"]["name"] == name]
            config = tomllib.loads(maps[0]["data"]["teamwire.toml"])
            return thing, thing["spec"]["template"]["spec"]["containers"][0], config
    return None


def is_alone(objects):
    """Returns whether the coordinator has an embedded store."""
    found = coordinator(objects)
    return bool(found) and all(variable["name"] != "TEAMWIRE_STORE" for variable in found[1]["env"])


def seconds(duration):
    number, unit = re.fullmatch(r"(\d+)(ms|s|m|h)", duration).groups()
    return int(number) * {"ms": 0.001, "s": 1, "m": 60, "h": 3600}[unit]


def port_of(address):
    return int(address.rsplit(":", 1)[1])


# Prometheus adds these when it scrapes.
SCRAPED = {"namespace", "job", "pod"}


def expressions(objects):
    """Yields the queries of dashboards, alerts and autoscalers."""
    for dashboard in of_kind(objects, "ConfigMap"):
        if "teamwire.json" in dashboard["data"]:
            for panel in json.loads(dashboard["data"]["teamwire.json"])["panels"]:
                yield from (target["expr"] for target in panel["targets"])
    for thing in of_kind(objects, "PrometheusRule"):
        yield from (rule["expr"] for group in thing["spec"]["groups"] for rule in group["rules"])
    for thing in of_kind(objects, "ScaledObject"):
        yield from (trigger["metadata"]["query"] for trigger in thing["spec"]["triggers"])
    for thing in of_kind(objects, "HorizontalPodAutoscaler"):
        yield from (metric["pods"]["metric"]["name"] for metric in thing["spec"]["metrics"])


def metrics(objects):
    """Returns the metrics that a rendering uses, each alone and with every label that selects or groups it."""
    used = set()
    for query in expressions(objects):
        grouped = {label.strip() for labels in re.findall(r"by \(([^)]*)\)", query) for label in labels.split(",") if label.strip()}
        for name, selectors in re.findall(r"\b(teamwire_\w+)(?:{([^}]*)})?", query):
            selected = set(re.findall(r"(\w+)(?:=~|!~|!=|=)", selectors))
            used |= {(name, label) for label in {"", *selected, *grouped} - SCRAPED}
    return used


def restricted(objects):
    """Pods meet the Pod Security Standard "restricted"."""
    for name, _, spec in pods(objects):
        context = spec.get("securityContext", {})
        if context.get("runAsNonRoot") is not True or context.get("runAsUser", 1) == 0:
            yield f"{name} may run as root"
        if context.get("seccompProfile", {}).get("type") != "RuntimeDefault":
            yield f"{name} has no seccomp profile"
        for host in ("hostNetwork", "hostPID", "hostIPC"):
            if spec.get(host):
                yield f"{name} shares the node: {host}"
        for volume in spec.get("volumes", []):
            if not VOLUMES & volume.keys():
                yield f"{name} mounts {volume}"
        for container in containers(spec):
            own = container.get("securityContext", {})
            if own.get("allowPrivilegeEscalation") is not False or own.get("privileged"):
                yield f"{name}: {container['name']} may gain privileges"
            if own.get("capabilities") != {"drop": ["ALL"]}:
                yield f"{name}: {container['name']} has capabilities"
            if any(port.get("hostPort") for port in container.get("ports", [])):
                yield f"{name}: {container['name']} has a port of the node"


def no_api_access(objects):
    """No Pod but a host's can use the API server, and no variables of Services can pass for configuration."""
    for name, labels, spec in pods(objects):
        is_host = labels.get("app.kubernetes.io/component") == "host"
        if spec.get("automountServiceAccountToken") is not is_host:
            yield f"{name} has {'no' if is_host else 'a'} token of its service account"
        if spec.get("enableServiceLinks") is not False:
            yield f"{name} has the Services in its environment"


def bounded_volumes(objects):
    """A Pod can write only a limited amount to its node."""
    for name, _, spec in pods(objects):
        for volume in spec.get("volumes", []):
            if "emptyDir" in volume and "sizeLimit" not in (volume["emptyDir"] or {}):
                yield f"{name}: {volume['name']} has no bound"


def private_secrets(objects):
    """Only our group can read Secrets, and a Pod gets only the files that it needs."""
    for name, _, spec in pods(objects):
        for volume in spec.get("volumes", []):
            if "secret" in volume and volume["secret"].get("defaultMode") != 0o440:
                yield f"{name}: {volume['name']} is world-readable"
            if volume["name"] == "tls" and "items" not in volume["secret"]:
                yield f"{name}: {volume['name']} may include the key of an authority"


def probes(objects):
    """Readiness depends on the store and the drain. Liveness does not, or a silent store would restart all coordinators."""
    if not (found := coordinator(objects)):
        return
    _, container, config = found
    for probe, service in (("startupProbe", "live"), ("livenessProbe", "live"), ("readinessProbe", "")):
        grpc = container.get(probe, {}).get("grpc")
        if not grpc or grpc["port"] != port_of(config["health"]) or grpc.get("service", "") != service:
            yield f"{probe} is {grpc}"


def ports(objects):
    """The named ports are those of the configuration."""
    if not (found := coordinator(objects)):
        return
    _, container, config = found
    keys = {"grpc": "listen", "health": "health", "metrics": "metrics"}
    listened = {name: port_of(config[key]) for name, key in keys.items() if key in config}
    named = {port["name"]: port["containerPort"] for port in container["ports"]}
    if named != listened:
        yield f"the container names {named}, the configuration {listened}"


def drain(objects):
    """A terminating coordinator waits until no client is sent to it, and is not killed before its hard stop."""
    if not (found := coordinator(objects)):
        return
    deployment, container, config = found
    wait = container.get("lifecycle", {}).get("preStop", {}).get("sleep", {}).get("seconds", 0)
    if wait < 1:
        yield "it does not wait before it drains"
    needed = wait + seconds(config.get("drain", {}).get("hard_stop", "30s"))
    given = deployment["spec"]["template"]["spec"].get("terminationGracePeriodSeconds", 30)
    if given <= needed:
        yield f"it is killed after {given} s, but needs {needed:g} s"


def rollout(objects):
    """An update removes a coordinator only after a new one has been ready for a while. A file has one owner at a time."""
    if not (found := coordinator(objects)):
        return
    spec = found[0]["spec"]
    if not is_alone(objects):
        update = spec.get("strategy", {}).get("rollingUpdate", {})
        if (update.get("maxUnavailable"), update.get("maxSurge")) != (0, 1) or spec.get("minReadySeconds", 0) < 5:
            yield f"its update strategy is {spec.get('strategy')} after {spec.get('minReadySeconds')} s"
    elif spec.get("strategy", {}).get("type") != "Recreate" or spec["replicas"] != 1:
        yield "coordinators share an embedded store"


def spread(objects):
    """Coordinators are spread over nodes."""
    if found := coordinator(objects):
        constraints = found[0]["spec"]["template"]["spec"].get("topologySpreadConstraints", [])
        if "kubernetes.io/hostname" not in [constraint["topologyKey"] for constraint in constraints]:
            yield "all coordinators may be on one node"


def headless_service(objects):
    """A headless Service has the addresses of all coordinators, and a certificate of the chart includes its name."""
    if not (found := coordinator(objects)):
        return
    labels = found[0]["spec"]["template"]["metadata"]["labels"]
    headless = [
        service
        for service in of_kind(objects, "Service")
        if service["spec"].get("clusterIP") == "None" and service["spec"]["selector"].items() <= labels.items()
    ]
    if not headless:
        yield "there is no headless Service"
        return
    name = f"{headless[0]['metadata']['name']}.{headless[0]['metadata']['namespace']}.svc"
    for certificate in of_kind(objects, "Certificate"):
        if name not in certificate["spec"]["dnsNames"]:
            yield f"the certificate is not valid for {name}"


def network_policies(objects):
    """Network policies cover both directions, and name the peers and ports of ingress and the ports of egress."""
    for policy in of_kind(objects, "NetworkPolicy"):
        name = policy["metadata"]["name"]
        if set(policy["spec"]["policyTypes"]) != {"Ingress", "Egress"}:
            yield f"{name} does not cover both directions"
        for rule in policy["spec"].get("ingress") or []:
            if not rule.get("from") or not rule.get("ports"):
                yield f"{name} admits any peer: {rule}"
        for rule in policy["spec"].get("egress") or []:
            if not rule.get("ports"):
                yield f"{name} allows egress to any port: {rule}"


def teammates(objects):
    """A teammate has time to exit in order, keeps its identity, and is not retried after it lost its permission."""
    for thing in of_kind(objects, "Job", "StatefulSet"):
        spec = thing["spec"]["template"]["spec"]
        container = spec["containers"][0]
        if container["name"] != "teammate":
            continue
        arguments = container["args"]
        grace = int(arguments[arguments.index("--grace") + 1])
        # After the grace: 5 s to kill the program, 10 s for its last question, 5 s for acknowledgements, 60 s for the report.
        if spec["terminationGracePeriodSeconds"] < grace + 80:
            yield f"it is killed after {spec['terminationGracePeriodSeconds']} s"
        mounted = [mount["mountPath"] for mount in container["volumeMounts"]]
        context = next(v["value"] for v in container["env"] if v["name"] == "TEAMWIRE_CONTEXT")
        if not any(context.startswith(f"{path}/") for path in mounted):
            yield "a restarted container loses its identity"
        if thing["kind"] != "Job":
            continue
        rules = thing["spec"].get("podFailurePolicy", {}).get("rules", [])
        fatal = [code for rule in rules if rule["action"] == "FailIndex" for code in rule["onExitCodes"]["values"]]
        if fatal != [64, 77] or spec["restartPolicy"] != "Never":
            yield f"the final exit codes are {fatal}"
        if not any(rule["action"] == "Ignore" and rule.get("onPodConditions") for rule in rules):
            yield "an eviction counts as a failure"


def host_rights(objects):
    """A host may do what docs/kubernetes.md says, in its own namespace, and nothing else."""
    if of_kind(objects, "ClusterRole", "ClusterRoleBinding"):
        yield "it has rights in all namespaces"
    for role in of_kind(objects, "Role"):
        may = {
            (group, resource): set(rule["verbs"])
            for rule in role["rules"]
            for group in rule["apiGroups"]
            for resource in rule["resources"]
        }
        if may != HOST_RIGHTS:
            yield f"{role['metadata']['name']} may {may}"
        if any(rule.get("resourceNames") is None for rule in role["rules"] if "configmaps" in rule["resources"]):
            yield f"{role['metadata']['name']} may read every ConfigMap"


def one_host(objects):
    """A host that is replaced ends before the new one starts, and keeps its identity."""
    for thing in of_kind(objects, "Deployment"):
        spec = thing["spec"]["template"]
        if spec["metadata"]["labels"].get("app.kubernetes.io/component") != "host":
            continue
        if thing["spec"]["replicas"] != 1 or thing["spec"].get("strategy", {}).get("type") != "Recreate":
            yield "two hosts may have one name"
        if not any("persistentVolumeClaim" in volume for volume in spec["spec"]["volumes"]):
            yield "a replaced host loses its identity"


def selected_coordinators(objects):
    """An alert is about the coordinators of its release only."""
    for thing in of_kind(objects, "PrometheusRule"):
        for rule in (rule for group in thing["spec"]["groups"] for rule in group["rules"]):
            for selectors in re.findall(r"teamwire_\w+({[^}]*})?", rule["expr"]):
                if rule["alert"].startswith("Teamwire") and f'namespace="{thing["metadata"]["namespace"]}"' not in selectors:
                    yield f"{rule['alert']} is about all namespaces"


def scaled_workers(objects):
    """An autoscaler owns the number of members, and counts the tasks that members work on."""
    for thing in of_kind(objects, "ScaledObject"):
        name = thing["spec"]["scaleTargetRef"]["name"]
        for target in of_kind(objects, "StatefulSet"):
            if target["metadata"]["name"] == name and "replicas" in target["spec"]:
                yield f"{name} has a number of replicas, too"
        if "in_progress" not in thing["spec"]["triggers"][0]["metadata"]["query"]:
            yield f"{name} ends members that work"


RULES = [
    restricted,
    host_rights,
    one_host,
    selected_coordinators,
    scaled_workers,
    no_api_access,
    bounded_volumes,
    private_secrets,
    probes,
    ports,
    drain,
    rollout,
    spread,
    headless_service,
    network_policies,
    teammates,
]


def broken(objects):
    """Returns the problems of a rendering, by rule."""
    found = {}
    for rule in RULES:
        if problems := list(rule(objects)):
            found[rule.__name__] = problems
    return found
