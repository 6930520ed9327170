"""What must hold of every rendering of the charts and that no general tool knows.

A rule takes the objects of a rendering and yields what is wrong with them. The Pod Security Standard is the one called
"restricted"; readOnlyRootFilesystem, resources, image tags, budgets and network policies are kube-score's.
"""

import re
import tomllib

TEMPLATES = {"Deployment", "StatefulSet", "Job"}
VOLUMES = {"configMap", "secret", "emptyDir", "persistentVolumeClaim", "downwardAPI", "projected"}


def of_kind(objects, *kinds):
    return [thing for thing in objects if thing["kind"] in kinds]


def pods(objects):
    """Yields what each object makes of Pods: its name, their labels, their specification."""
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
    """Returns the coordinators' Deployment, where there is one, with its container and its configuration."""
    for thing in of_kind(objects, "Deployment"):
        if thing["spec"]["template"]["metadata"]["labels"]["app.kubernetes.io/component"] == "coordinator":
            name = thing["metadata"]["name"]
            maps = [m for m in of_kind(objects, "ConfigMap") if m["metadata"]["name"] == name]
            config = tomllib.loads(maps[0]["data"]["teamwire.toml"])
            return thing, thing["spec"]["template"]["spec"]["containers"][0], config
    return None


def is_alone(objects):
    """Returns whether the coordinator has a file for its store."""
    found = coordinator(objects)
    return bool(found) and all(variable["name"] != "TEAMWIRE_STORE" for variable in found[1]["env"])


def seconds(duration):
    number, unit = re.fullmatch(r"(\d+)(ms|s|m|h)", duration).groups()
    return int(number) * {"ms": 0.001, "s": 1, "m": 60, "h": 3600}[unit]


def port_of(address):
    return int(address.rsplit(":", 1)[1])


def restricted(objects):
    """Pods keep to the Pod Security Standard "restricted"."""
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


def stranger_to_the_api(objects):
    """Nobody speaks to the API server, and no Service's variables are taken for the configuration's."""
    for name, _, spec in pods(objects):
        if spec.get("automountServiceAccountToken") is not False:
            yield f"{name} has a token of its service account"
        if spec.get("enableServiceLinks") is not False:
            yield f"{name} has the Services in its environment"


def bounded_volumes(objects):
    """What a Pod writes to its node is bounded."""
    for name, _, spec in pods(objects):
        for volume in spec.get("volumes", []):
            if "emptyDir" in volume and "sizeLimit" not in (volume["emptyDir"] or {}):
                yield f"{name}: {volume['name']} has no bound"


def private_secrets(objects):
    """Secrets are read by our group only, and no more of them than is needed."""
    for name, _, spec in pods(objects):
        for volume in spec.get("volumes", []):
            if "secret" in volume and volume["secret"].get("defaultMode") != 0o440:
                yield f"{name}: {volume['name']} can be read by all"
            if volume["name"] == "tls" and "items" not in volume["secret"]:
                yield f"{name}: {volume['name']} has more than its files, perhaps an authority's key"


def probes(objects):
    """Readiness follows the store and the drain; liveness does not, or a silent store would restart everybody."""
    if not (found := coordinator(objects)):
        return
    _, container, config = found
    for probe, service in (("startupProbe", "live"), ("livenessProbe", "live"), ("readinessProbe", "")):
        grpc = container.get(probe, {}).get("grpc")
        if not grpc or grpc["port"] != port_of(config["health"]) or grpc.get("service", "") != service:
            yield f"{probe} is {grpc}"


def ports(objects):
    """The ports that are named are those that the configuration listens at."""
    if not (found := coordinator(objects)):
        return
    _, container, config = found
    keys = {"grpc": "listen", "health": "health", "metrics": "metrics"}
    listened = {name: port_of(config[key]) for name, key in keys.items() if key in config}
    named = {port["name"]: port["containerPort"] for port in container["ports"]}
    if named != listened:
        yield f"the container names {named}, the configuration {listened}"


def drain(objects):
    """A coordinator that ends is not killed before its hard stop, and waits until nobody is sent to it."""
    if not (found := coordinator(objects)):
        return
    deployment, container, config = found
    wait = container.get("lifecycle", {}).get("preStop", {}).get("sleep", {}).get("seconds", 0)
    if wait < 1:
        yield "it does not wait before it ends"
    needed = wait + seconds(config.get("drain", {}).get("hard_stop", "30s"))
    given = deployment["spec"]["template"]["spec"].get("terminationGracePeriodSeconds", 30)
    if given <= needed:
        yield f"it is killed after {given} s, and needs {needed:g} s"


def rollout(objects):
    """An update takes no coordinator away before another one has been there for a while. A file has one owner at a time."""
    if not (found := coordinator(objects)):
        return
    spec = found[0]["spec"]
    if not is_alone(objects):
        update = spec.get("strategy", {}).get("rollingUpdate", {})
        if (update.get("maxUnavailable"), update.get("maxSurge")) != (0, 1) or spec.get("minReadySeconds", 0) < 5:
            yield f"it is updated by {spec.get('strategy')} after {spec.get('minReadySeconds')} s"
    elif spec.get("strategy", {}).get("type") != "Recreate" or spec["replicas"] != 1:
        yield "an embedded store is shared"


def spread(objects):
    """Coordinators are spread over nodes."""
    if found := coordinator(objects):
        constraints = found[0]["spec"]["template"]["spec"].get("topologySpreadConstraints", [])
        if "kubernetes.io/hostname" not in [constraint["topologyKey"] for constraint in constraints]:
            yield "all coordinators may be on one node"


def balanced(objects):
    """There is a name with the addresses of all coordinators, it is what they advertise, and a certificate of ours has it."""
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
            yield f"the certificate is not good for {name}"


def closed(objects):
    """Network policies name whom they let in, and let out only to names, the store and coordinators."""
    for policy in of_kind(objects, "NetworkPolicy"):
        name = policy["metadata"]["name"]
        if set(policy["spec"]["policyTypes"]) != {"Ingress", "Egress"}:
            yield f"{name} does not hold for both directions"
        for rule in policy["spec"].get("ingress") or []:
            if not rule.get("from") or not rule.get("ports"):
                yield f"{name} lets anybody in: {rule}"
        for rule in policy["spec"].get("egress") or []:
            if not rule.get("ports"):
                yield f"{name} lets out to any port: {rule}"


def teammates(objects):
    """A teammate has the time to end well, and is not tried again when it is not permitted."""
    for thing in of_kind(objects, "Job", "StatefulSet"):
        spec = thing["spec"]["template"]["spec"]
        container = spec["containers"][0]
        if container["name"] != "teammate":
            continue
        arguments = container["args"]
        grace = int(arguments[arguments.index("--grace") + 1])
        # After the program: 5 s to kill it, 10 s for a last question, 5 s for acknowledgements, 60 s for the report.
        if spec["terminationGracePeriodSeconds"] < grace + 80:
            yield f"it is killed after {spec['terminationGracePeriodSeconds']} s"
        mounted = [mount["mountPath"] for mount in container["volumeMounts"]]
        context = next(v["value"] for v in container["env"] if v["name"] == "TEAMWIRE_CONTEXT")
        if not any(context.startswith(f"{path}/") for path in mounted):
            yield "a container that starts again has forgotten who it is"
        if thing["kind"] != "Job":
            continue
        rules = thing["spec"].get("podFailurePolicy", {}).get("rules", [])
        fatal = [code for rule in rules if rule["action"] == "FailIndex" for code in rule["onExitCodes"]["values"]]
        if fatal != [64, 77] or spec["restartPolicy"] != "Never":
            yield f"final are {fatal}"
        if not any(rule["action"] == "Ignore" and rule.get("onPodConditions") for rule in rules):
            yield "an eviction counts as a failure"


RULES = [
    restricted,
    stranger_to_the_api,
    bounded_volumes,
    private_secrets,
    probes,
    ports,
    drain,
    rollout,
    spread,
    balanced,
    closed,
    teammates,
]


def broken(objects):
    """Returns what is wrong, by the name of the rule."""
    found = {}
    for rule in RULES:
        if problems := list(rule(objects)):
            found[rule.__name__] = problems
    return found
