"""Planted faults in renderings, and values that must be rejected."""


def find(objects, kind):
    return next(thing for thing in objects if thing["kind"] == kind)


def host(objects):
    """Returns the Deployment of the host."""
    return next(t for t in objects if t["kind"] == "Deployment" and t["metadata"]["labels"]["app.kubernetes.io/component"] == "host")


def spec(kind, change):
    """Changes the specification of the first object of a kind."""
    return lambda objects: change(find(objects, kind)["spec"])


def pod(change, kind="Deployment"):
    """Changes the specification of the Pods of the first object of a kind."""
    return spec(kind, lambda it: change(it["template"]["spec"]))


def container(change, kind="Deployment"):
    """Changes the first container of those Pods."""
    return pod(lambda it: change(it["containers"][0]), kind)


def without(kind):
    return lambda objects: objects.remove(find(objects, kind))


def drop(*path):
    """Deletes the entry at a path."""

    def change(thing):
        for key in path[:-1]:
            thing = thing[key]
        del thing[path[-1]]

    return change


def put(*path, to):
    """Sets the entry at a path."""

    def change(thing):
        for key in path[:-1]:
            thing = thing[key]
        thing[path[-1]] = to

    return change


def volume(name, change, kind="Deployment"):
    return pod(lambda it: change(next(v for v in it["volumes"] if v["name"] == name)), kind)


FAULTS = [
    # What, chart, values, change, the check that must notice.
    ("a writable root", "teamwire", "minimal", container(put("securityContext", "readOnlyRootFilesystem", to=False)), "container-security-context-readonlyrootfilesystem"),
    ("a writable root of a teammate", "teammate", "job", container(drop("securityContext", "readOnlyRootFilesystem"), "Job"), "container-security-context-readonlyrootfilesystem"),
    ("the tag latest", "teamwire", "minimal", container(put("image", to="teamwire:latest")), "container-image-tag"),
    ("no memory limit", "teamwire", "minimal", container(drop("resources", "limits", "memory")), "container-resources"),
    ("no disk limit", "teamwire", "minimal", container(drop("resources", "limits", "ephemeral-storage")), "container-ephemeral-storage-request-and-limit"),
    ("no network policy", "teamwire", "embedded", without("NetworkPolicy"), "pod-networkpolicy"),
    ("no disruption budget", "teamwire", "minimal", without("PodDisruptionBudget"), "deployment-has-poddisruptionbudget"),
    ("no readiness probe", "teamwire", "minimal", container(drop("readinessProbe")), "pod-probes"),
    ("a Service without Pods", "teamwire", "minimal", spec("Service", put("selector", to={"app": "other"})), "service-targets-pod"),
    ("replicas beside an autoscaler", "teamwire", "everything", spec("Deployment", put("replicas", to=2)), "deployment-targeted-by-hpa-does-not-have-replicas-configured"),
    ("root", "teamwire", "minimal", pod(drop("securityContext", "runAsNonRoot")), "restricted"),
    ("no seccomp profile", "teamwire", "minimal", pod(drop("securityContext", "seccompProfile")), "restricted"),
    ("a capability", "teamwire", "minimal", container(put("securityContext", "capabilities", "add", to=["NET_ADMIN"])), "restricted"),
    ("privilege escalation", "teammate", "workers", container(drop("securityContext", "allowPrivilegeEscalation"), "Job"), "restricted"),
    ("a directory of the node", "teamwire", "minimal", pod(lambda it: it["volumes"].append({"name": "x", "hostPath": {"path": "/"}})), "restricted"),
    ("a token", "teamwire", "minimal", pod(drop("automountServiceAccountToken")), "no_api_access"),
    ("environment variables of Services", "teammate", "job", pod(drop("enableServiceLinks"), "Job"), "no_api_access"),
    ("an unbounded volume", "teammate", "job", volume("tmp", put("emptyDir", to={}), "Job"), "bounded_volumes"),
    ("a world-readable Secret", "teamwire", "minimal", volume("operator", drop("secret", "defaultMode")), "private_secrets"),
    ("the authority's key", "teamwire", "minimal", volume("tls", drop("secret", "items")), "private_secrets"),
    ("liveness that depends on the store", "teamwire", "minimal", container(drop("livenessProbe", "grpc", "service")), "probes"),
    ("readiness without the store", "teamwire", "minimal", container(put("readinessProbe", "grpc", "service", to="live")), "probes"),
    ("a port without a listener", "teamwire", "minimal", container(put("ports", 0, "containerPort", to=7000)), "ports"),
    ("a kill during the drain", "teamwire", "external-redis", pod(put("terminationGracePeriodSeconds", to=60)), "drain"),
    ("a drain without a wait", "teamwire", "minimal", container(drop("lifecycle")), "drain"),
    ("an alert about others' coordinators", "teamwire", "everything", spec("PrometheusRule", put("groups", 0, "rules", 0, "expr", to="max(teamwire_store_up) == 0")), "selected_coordinators"),
    ("two numbers of workers", "teammate", "autoscaled", spec("StatefulSet", put("replicas", to=2)), "scaled_workers"),
    ("an autoscaler that ends those who work", "teammate", "autoscaled", spec("ScaledObject", put("triggers", 0, "metadata", "query", to="teamwire_team_tasks{status=\"ready\"}")), "scaled_workers"),
    ("a host that reads Secrets", "teamwire", "host", lambda it: find(it, "Role")["rules"][1]["verbs"].append("get"), "host_rights"),
    ("a host with rights everywhere", "teamwire", "host", lambda it: find(it, "RoleBinding").update(kind="ClusterRoleBinding"), "host_rights"),
    ("two hosts under one name", "teamwire", "host", lambda it: host(it)["spec"].pop("strategy"), "one_host"),
    ("a host without a token", "teamwire", "host", lambda it: host(it)["spec"]["template"]["spec"].update(automountServiceAccountToken=False), "no_api_access"),
    ("an update below the requested number", "teamwire", "minimal", spec("Deployment", put("strategy", "rollingUpdate", "maxUnavailable", to=1)), "rollout"),
    ("an update with two owners of a file", "teamwire", "embedded", spec("Deployment", put("strategy", to={"type": "RollingUpdate"})), "rollout"),
    ("no spreading", "teamwire", "minimal", pod(drop("topologySpreadConstraints")), "spread"),
    ("one address for all", "teamwire", "minimal", spec("Service", drop("clusterIP")), "headless_service"),
    ("a certificate without the name", "teamwire", "cert-manager", spec("Certificate", put("dnsNames", to=["localhost"])), "headless_service"),
    ("a policy for any client", "teamwire", "minimal", spec("NetworkPolicy", drop("ingress", 0, "from")), "network_policies"),
    ("a policy without egress", "teammate", "job", spec("NetworkPolicy", put("policyTypes", to=["Ingress"])), "network_policies"),
    ("a teammate without time to end", "teammate", "workers", pod(put("terminationGracePeriodSeconds", to=60), "Job"), "teammates"),
    ("a member that loses its identity", "teammate", "statefulset", container(lambda it: it["volumeMounts"].pop(0), "StatefulSet"), "teammates"),
    ("endless retries", "teammate", "job", spec("Job", lambda it: it["podFailurePolicy"]["rules"].pop()), "teammates"),
    ("evictions that count as failures", "teammate", "job", spec("Job", lambda it: it["podFailurePolicy"]["rules"].pop(0)), "teammates"),
]

SCHEMA_FAULTS = [
    ("a field that does not exist", pod(put("terminationGracePeriod", to=60))),
    ("a number as text", spec("Deployment", put("replicas", to="two"))),
]

REDIS = ["--set", "store.kind=redis,store.existingSecret=x"]
EMBEDDED = ["--set", "store.kind=embedded"]

REJECTED = [
    # Chart, values, what the message must contain.
    ("teamwire", ["--set", "replica=3"], "replica"),
    ("teamwire", ["--set", "image.tag=latest"], "tag"),
    ("teamwire", ["--set", "store.bundled.size=3"], "size"),
    ("teamwire", EMBEDDED, "set replicas to 1"),
    ("teamwire", [*EMBEDDED, "--set", "replicas=1,autoscaling.enabled=true"], "autoscaling.enabled"),
    ("teamwire", ["--set", "store.kind=redis"], "store.url"),
    ("teamwire", [*REDIS, "--set", "store.url=redis://x"], "leave it out"),
    ("teamwire", ["--set", "store.url=redis://x"], "leave it out"),
    ("teamwire", ["--set", "tls.kind=existingSecret"], "tls.existingSecret"),
    ("teamwire", ["--set", "tls.kind=certManager"], "issuerRef.name"),
    ("teamwire", ["--set", "config.listen=0.0.0.0:1"], "the chart's to set"),
    ("teamwire", ["--set", "config.tls.cert=x"], "the chart's to set"),
    ("teamwire", ["--set", "config.drain.hard_stop=soon"], "hard_stop"),
    # Teamwire itself rejects these.
    ("teamwire", ["--set", "config.limits.members_mx=3"], "members_max"),
    ("teamwire", ["--set", "config.limits.members_max=0"], "members_max"),
    ("teamwire", ["--set", "metrics.prometheusRule.enabled=true"], "serviceMonitor"),
    ("teamwire", ["--set", "route.enabled=true"], "route.parentRefs"),
    ("teamwire", ["--set", "route.enabled=true,route.parentRefs[0].name=x"], "join strings would identify"),
    ("teamwire", ["--set", "host.enabled=true"], "host.join.existingSecret"),
    ("teamwire", ["--set", "host.enabled=true,host.join.existingSecret=x"], "host.profiles"),
    ("teammate", ["--set", "command={sh},join.existingSecret=x,autoscaling.enabled=true"], "kind StatefulSet"),
    ("teammate", ["--set", "command={sh},join.existingSecret=x,kind=StatefulSet,autoscaling.enabled=true"], "autoscaling.prometheus"),
    ("teammate", ["--set", "join.existingSecret=x"], "say what the program is"),
    ("teammate", ["--set", "command={sh}"], "join.existingSecret"),
    ("teammate", ["--set", "command={sh},join.existingSecret=x,kind=Deployment"], "kind"),
]
