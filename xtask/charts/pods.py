"""Runs the charts' renderings on this machine, without Kubernetes.

Each container is a process with the files, environment and arguments that Kubernetes would give it, but without namespaces,
networks or limits. This shows that teamwire understands the manifests, and that members exit and return as the charts promise.
"""

import base64
import contextlib
import json
import pathlib
import re
import signal
import socket
import subprocess
import tempfile
import time
import urllib.request

NAMESPACE = "teamwire"
PATIENCE = 60


class Cluster:
    """Holds the objects, and the real ports of the coordinators."""

    def __init__(self, program, directory):
        self.program = program
        self.directory = pathlib.Path(directory)
        self.files = {}
        self.ports = {}
        self.bin = self.directory / "bin"
        self.bin.mkdir()
        (self.bin / "teamwire").symlink_to(program)

    def take(self, objects):
        for thing in objects:
            if thing["kind"] == "Secret":
                data = {key: base64.b64decode(text) for key, text in thing["data"].items()}
            elif thing["kind"] == "ConfigMap":
                data = {key: text.encode() for key, text in thing["data"].items()}
            else:
                continue
            self.files[thing["kind"], thing["metadata"]["name"]] = data

    def secret(self, name, **data):
        self.files["Secret", name] = {key: text.encode() for key, text in data.items()}

    def here(self, text):
        """Replaces the cluster's addresses by those of this machine."""
        for port in set(re.findall(r"(?:0\.0\.0\.0|\.svc):(\d+)", text)):
            if port not in self.ports:
                with socket.socket() as free:
                    free.bind(("127.0.0.1", 0))
                    self.ports[port] = free.getsockname()[1]
        text = re.sub(r"0\.0\.0\.0:(\d+)", lambda found: f"127.0.0.1:{self.ports[found[1]]}", text)
        return re.sub(r"[\w-]+\.[\w-]+\.svc:(\d+)", lambda found: f"localhost:{self.ports[found[1]]}", text)


class Pod:
    """A Pod with its volumes, which live as long as it does."""

    def __init__(self, cluster, template, name, labels=None):
        self.cluster, self.spec, self.name = cluster, template["spec"], name
        self.fields = {"metadata.name": name, "metadata.namespace": NAMESPACE, "spec.nodeName": "here", "metadata.uid": name}
        self.fields |= {f"metadata.labels['{key}']": value for key, value in (labels or {}).items()}
        self.directory = pathlib.Path(tempfile.mkdtemp(prefix=f"{name}-", dir=cluster.directory))
        for volume in self.spec["volumes"]:
            path = self.directory / volume["name"]
            # In a cluster these belong to root, and the container to another user; here both are the user who runs this.
            path.mkdir(mode=0o700)
            for kind, key in (("Secret", "secret"), ("ConfigMap", "configMap")):
                if key in volume:
                    source = volume[key]
                    files = cluster.files[kind, source.get("secretName") or source["name"]]
                    items = {i["key"]: i["path"] for i in source.get("items", [])} or {name: name for name in files}
                    for item, target in items.items():
                        (path / target).write_bytes(files[item])
                        (path / target).chmod(0o600)

    def start(self, container, **environment):
        """Starts a container. `environment` overrides that of the manifest."""
        mounts = {mount["mountPath"]: str(self.directory / mount["name"]) for mount in container["volumeMounts"]}
        # The longest first: a path may be inside another.
        paths = re.compile(rf"(?<![\w/])({'|'.join(sorted(mounts, key=len, reverse=True))})(?=/|\"|$)")

        def local(text):
            return paths.sub(lambda found: mounts[found[1]], self.cluster.here(text))

        given = {"PATH": f"{self.cluster.bin}:/usr/local/bin:/usr/bin:/bin"}
        for variable in container["env"]:
            source = variable.get("valueFrom", {})
            if "secretKeyRef" in source:
                found = self.cluster.files["Secret", source["secretKeyRef"]["name"]][source["secretKeyRef"]["key"]].decode()
            elif "fieldRef" in source:
                found = self.fields[source["fieldRef"]["fieldPath"]]
            else:
                found = variable["value"]
            given[variable["name"]] = local(found)
        given |= environment
        for file in self.directory.glob("*/*.toml"):
            file.write_text(local(file.read_text()))
        words = container.get("command", ["/teamwire"]) + container["args"]
        words = [re.sub(r"\$\((\w+)\)", lambda found: given[found[1]], word) for word in words]
        words = [str(self.cluster.bin / "teamwire") if word == "/teamwire" else local(word) for word in words]
        work = local(container["workingDir"]) if "workingDir" in container else self.directory
        log = (self.directory / f"{container['name']}.log").open("w+")
        return Process(subprocess.Popen(words, env=given, cwd=work, stdin=subprocess.DEVNULL, stdout=log, stderr=log), log)

    def first(self, **environment):
        return self.start(self.spec["containers"][0], **environment)


class Process:
    """A running container."""

    def __init__(self, process, log):
        self.process, self.log = process, log

    def wait(self):
        try:
            return self.process.wait(PATIENCE)
        except subprocess.TimeoutExpired:
            raise TimeoutError(f"{self.process.args} did not end within {PATIENCE} s: {self.output()}") from None

    def send(self, number):
        self.process.send_signal(number)

    def output(self):
        self.log.flush()
        return pathlib.Path(self.log.name).read_text()


def until(what, condition):
    """Waits until a condition holds, and returns its value."""
    end = time.monotonic() + PATIENCE
    while not (found := condition()):
        if time.monotonic() > end:
            raise TimeoutError(f"{what} did not happen within {PATIENCE} s")
        time.sleep(0.1)
    return found


def run(program, root, render, metrics):
    """Yields the name of each test, and its problems. `metrics`: the names that the charts use."""
    with contextlib.ExitStack() as stack:
        directory = stack.enter_context(tempfile.TemporaryDirectory(prefix="teamwire-charts-"))
        cluster = Cluster(pathlib.Path(program).absolute(), directory)
        _, objects = render("teamwire")
        cluster.take(objects)
        template = next(thing for thing in objects if thing["kind"] == "Deployment")["spec"]["template"]
        coordinator = Pod(cluster, template, "teamwire-0")
        # An embedded store replaces the bundled one, whose server is not installed here.
        serving = coordinator.first(TEAMWIRE_STORE="", TEAMWIRE_METRICS_TEAMS="true")
        stack.callback(serving.process.kill)
        tested = Pod(cluster, next(thing for thing in objects if thing["kind"] == "Pod"), "teamwire-test")
        tests = {
            "probes": probed(cluster, template["spec"]["containers"][0]),
            "helm test": steps(tested),
            "metrics": measured(cluster, metrics),
            "deploy/examples": example(cluster, render, stack),
            "a coordinator that gets SIGTERM": ended(serving),
        }
        for name, test in tests.items():
            problems = []
            try:
                problems.extend(test)
            except TimeoutError as error:
                problems += [str(error), f"the coordinator printed {serving.output()}"]
            yield f"run: {name}", problems


def ended(process):
    """Ends a process as Kubernetes does, by SIGTERM."""
    process.send(signal.SIGTERM)
    if code := process.wait():
        yield f"it ended with {code}: {process.output()}"


def probed(cluster, container):
    """Runs the probes."""
    for probe in ("startupProbe", "livenessProbe", "readinessProbe"):
        asked = container[probe]["grpc"]

        def healthy():
            address = cluster.here(f"http://0.0.0.0:{asked['port']}")
            question = [cluster.program, "health", "--address", address, "--service", asked.get("service", "")]
            return subprocess.run(question, env={}, capture_output=True, check=False).returncode == 0

        until(probe, healthy)
    return []


def steps(pod):
    """Runs the containers of a test one after the other."""
    for container in pod.spec["initContainers"] + pod.spec["containers"]:
        step = pod.start(container)
        if code := step.wait():
            yield f"{container['name']} ended with {code}: {step.output()}"
            return
        if container["name"] == "inbox" and "The member is up." not in step.output():
            yield f"the lead got no message: {step.output()}"


def operator_of(cluster, team):
    """Returns a function that runs a command as the operator, for a team."""
    home = cluster.directory / f"operator-{team}"
    home.mkdir()
    environment = {
        "TEAMWIRE_ADDRESS": cluster.here("https://teamwire-headless.teamwire.svc:7420"),
        "TEAMWIRE_CA": str(home / "ca.crt"),
        "TEAMWIRE_CREDENTIAL": cluster.files["Secret", "teamwire-operator"]["credential"].decode(),
        "TEAMWIRE_CONTEXT": str(home / "context.json"),
        "TEAMWIRE_TEAM": team,
    }
    (home / "ca.crt").write_bytes(cluster.files["Secret", "teamwire-tls"]["ca.crt"])

    def operator(*words):
        done = subprocess.run([cluster.program, *words], env=environment, capture_output=True, text=True, check=False)
        if done.returncode:
            raise TimeoutError(f"{words}: {done.stderr}")
        return done.stdout

    return operator


def measured(cluster, metrics):
    """Looks up in a scrape every metric that the charts use, with the labels that they use."""
    operator = operator_of(cluster, "measured")
    operator("team", "create", "measured", "--json")
    address = cluster.here("http://0.0.0.0:9464/metrics")

    def missing():
        with urllib.request.urlopen(address, timeout=PATIENCE) as scrape:
            text = scrape.read().decode()
        found = {(name, label) for name, labels in re.findall(r"^(\w+)(?:{(.*)})? ", text, re.MULTILINE) for label in labels_of(labels)}
        return sorted(metrics - found)

    # A team is counted a few seconds later.
    with contextlib.suppress(TimeoutError):
        until("every metric", lambda: not missing())
    for name, label in missing():
        yield f"the charts use {name} with the label {label!r}, which no scrape has" if label else f"the charts use {name}, which no scrape has"


def labels_of(text):
    """Yields the names of the labels of a series, and an empty one for the series itself."""
    yield ""
    yield from re.findall(r"(\w+)=\"", text)


def example(cluster, render, stack):
    """Runs the example team while its Pods are evicted, killed and replaced."""
    operator = operator_of(cluster, "acme")

    def member(name):
        found = [m for m in json.loads(operator("status", "--json"))["members"] if m["name"] == name]
        return found[0] if found else {}

    # The steps in docs/kubernetes.md.
    credential = json.loads(operator("team", "create", "acme", "--json"))["credential"]
    cluster.secret("acme-lead", join=credential)
    cluster.secret("acme-worker", join=operator("invite", "--uses", "30", "--minutes", "1440").strip())

    jobs = {}
    for release, values in (("acme-lead", "lead"), ("acme-worker", "workers")):
        _, objects = render("teammate", "--values", f"deploy/examples/{values}.yaml", release=release)
        cluster.take(objects)
        jobs[release] = next(thing for thing in objects if thing["kind"] == "Job")["spec"]["template"]

    def worker(index, name):
        labels = {"batch.kubernetes.io/job-completion-index": str(index)}
        return Pod(cluster, jobs["acme-worker"], name, labels)

    def start(pod):
        started = pod.first()
        stack.callback(started.process.kill)
        return started

    workers = [worker(index, f"acme-worker-{index}") for index in range(3)]
    running = [start(pod) for pod in workers]
    until("three members", lambda: all(member(f"worker-{index}") for index in range(3)))
    labels = member("worker-2")["attributes"]["labels"]
    if labels != {"k8s.pod.name": "acme-worker-2", "k8s.namespace.name": NAMESPACE, "k8s.node.name": "here"}:
        yield f"worker-2 has the labels {labels}"

    lead = start(Pod(cluster, jobs["acme-lead"], "acme-lead"))

    def held(name):
        tasks = [json.loads(line) for line in operator("task", "list", "--status", "in-progress", "--json").splitlines()]
        return any(task.get("owner") == name for task in tasks)

    # Both are in the middle of a task, which the lead waits for.
    until("tasks for worker-0 and worker-1", lambda: held("worker-0") and held("worker-1"))
    running[1].send(signal.SIGKILL)
    running[0].send(signal.SIGTERM)

    # Evicted: it reports its exit, its task is on the board again, and a replacement Pod joins with the same token.
    if (code := running[0].wait()) != 143:
        yield f"an evicted worker exited with {code}: {running[0].output()}"
    if member("worker-0")["state"] != "exited" or held("worker-0"):
        yield f"an evicted worker left {member('worker-0')}"
    running[0] = start(worker(0, "acme-worker-0-again"))

    # Killed with its Pod: a replacement that comes too early exits with a code that Kubernetes retries.
    running[1].wait()
    early = start(worker(1, "acme-worker-1-again"))
    if (code := early.wait()) != 75:
        yield f"an early replacement exited with {code}: {early.output()}"
    # Killed and restarted in its Pod: it keeps its identity.
    running[1] = start(workers[1])
    until("a second life", lambda: member("worker-1").get("incarnation") == 2)

    if code := lead.wait():
        yield f"the lead exited with {code}: {lead.output()}"
    if lead.output().count("words, counted by worker-") != 6:
        yield f"the lead printed {lead.output()}"
    for process in running:
        # Approved: the Job is complete.
        if code := process.wait():
            yield f"a worker exited with {code}: {process.output()}"
    operator("team", "delete", "acme", "--yes")
