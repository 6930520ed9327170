"""Plays what the charts render on this machine: each container is a process, with the files, the environment and the
arguments that Kubernetes would give it. There are no namespaces, networks or limits; what is proven is that what the
manifests say is what teamwire understands, and that members end and come back as the charts promise.
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

NAMESPACE = "teamwire"
PATIENCE = 60


class Cluster:
    """Has the objects, and where the coordinators really are."""

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
        """Turns addresses of the cluster into those of this machine."""
        for port in set(re.findall(r"(?:0\.0\.0\.0|\.svc):(\d+)", text)):
            if port not in self.ports:
                with socket.socket() as free:
                    free.bind(("127.0.0.1", 0))
                    self.ports[port] = free.getsockname()[1]
        text = re.sub(r"0\.0\.0\.0:(\d+)", lambda found: f"127.0.0.1:{self.ports[found[1]]}", text)
        return re.sub(r"[\w-]+\.[\w-]+\.svc:(\d+)", lambda found: f"localhost:{self.ports[found[1]]}", text)


class Pod:
    """A Pod, whose volumes last as long as it does."""

    def __init__(self, cluster, template, name, labels=None):
        self.cluster, self.spec, self.name = cluster, template["spec"], name
        self.fields = {"metadata.name": name, "metadata.namespace": NAMESPACE, "spec.nodeName": "here", "metadata.uid": name}
        self.fields |= {f"metadata.labels['{key}']": value for key, value in (labels or {}).items()}
        self.directory = pathlib.Path(tempfile.mkdtemp(prefix=f"{name}-", dir=cluster.directory))
        for volume in self.spec["volumes"]:
            path = self.directory / volume["name"]
            path.mkdir()
            for kind, key in (("Secret", "secret"), ("ConfigMap", "configMap")):
                if key in volume:
                    source = volume[key]
                    files = cluster.files[kind, source.get("secretName") or source["name"]]
                    items = {i["key"]: i["path"] for i in source.get("items", [])} or {name: name for name in files}
                    for item, target in items.items():
                        (path / target).write_bytes(files[item])

    def start(self, container, **environment):
        """Starts a container. `environment`: what is otherwise here than in the manifest."""
        mounts = {mount["mountPath"]: str(self.directory / mount["name"]) for mount in container["volumeMounts"]}
        # The longest first: a path may be within another.
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
    """A container that runs."""

    def __init__(self, process, log):
        self.process, self.log = process, log

    def wait(self):
        try:
            return self.process.wait(PATIENCE)
        except subprocess.TimeoutExpired:
            raise TimeoutError(f"{self.process.args} did not end within {PATIENCE} s: {self.said()}") from None

    def send(self, number):
        self.process.send_signal(number)

    def said(self):
        self.log.flush()
        return pathlib.Path(self.log.name).read_text()


def until(what, is_so):
    """Waits until something is so."""
    end = time.monotonic() + PATIENCE
    while not (found := is_so()):
        if time.monotonic() > end:
            raise TimeoutError(f"{what} did not happen within {PATIENCE} s")
        time.sleep(0.1)
    return found


def play(program, root, render):
    """Yields each act's name, and what went wrong in it."""
    with contextlib.ExitStack() as stack:
        directory = stack.enter_context(tempfile.TemporaryDirectory(prefix="teamwire-charts-"))
        cluster = Cluster(pathlib.Path(program).absolute(), directory)
        _, objects = render("teamwire")
        cluster.take(objects)
        template = next(thing for thing in objects if thing["kind"] == "Deployment")["spec"]["template"]
        coordinator = Pod(cluster, template, "teamwire-0")
        # The bundled store is no process of ours; a file does here.
        serving = coordinator.first(TEAMWIRE_STORE="")
        stack.callback(serving.process.kill)
        tested = Pod(cluster, next(thing for thing in objects if thing["kind"] == "Pod"), "teamwire-test")
        acts = {
            "probes": probed(cluster, template["spec"]["containers"][0]),
            "helm test": steps(tested),
            "deploy/examples": example(cluster, render, stack),
            "a coordinator that is told to end": ended(serving),
        }
        for name, act in acts.items():
            problems = []
            try:
                problems.extend(act)
            except TimeoutError as error:
                problems += [str(error), f"the coordinator has said {serving.said()}"]
            yield f"played: {name}", problems


def ended(process):
    """Ends a process as Kubernetes does."""
    process.send(signal.SIGTERM)
    if code := process.wait():
        yield f"it ended with {code}: {process.said()}"


def probed(cluster, container):
    """Asks what the probes ask."""
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
            yield f"{container['name']} ended with {code}: {step.said()}"
            return
        if container["name"] == "inbox" and "The member is up." not in step.said():
            yield f"the lead was not written to: {step.said()}"


def example(cluster, render, stack):
    """Plays the team of the example, and what may happen to a Pod."""
    home = cluster.directory / "operator"
    home.mkdir()
    environment = {
        "TEAMWIRE_ADDRESS": cluster.here("https://teamwire-headless.teamwire.svc:7420"),
        "TEAMWIRE_CA": str(home / "ca.crt"),
        "TEAMWIRE_CREDENTIAL": cluster.files["Secret", "teamwire-operator"]["credential"].decode(),
        "TEAMWIRE_CONTEXT": str(home / "context.json"),
        "TEAMWIRE_TEAM": "acme",
    }
    (home / "ca.crt").write_bytes(cluster.files["Secret", "teamwire-tls"]["ca.crt"])

    def operator(*words):
        said = subprocess.run([cluster.program, *words], env=environment, capture_output=True, text=True, check=False)
        if said.returncode:
            raise TimeoutError(f"{words}: {said.stderr}")
        return said.stdout

    def member(name):
        found = [m for m in json.loads(operator("status", "--json"))["members"] if m["name"] == name]
        return found[0] if found else {}

    # What the page says.
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
    told = member("worker-2")["attributes"]["labels"]
    if told != {"k8s.pod.name": "acme-worker-2", "k8s.namespace.name": NAMESPACE, "k8s.node.name": "here"}:
        yield f"worker-2 tells {told} of itself"

    lead = start(Pod(cluster, jobs["acme-lead"], "acme-lead"))

    def held(name):
        tasks = [json.loads(line) for line in operator("task", "list", "--status", "in-progress", "--json").splitlines()]
        return any(task.get("owner") == name for task in tasks)

    # Both in the middle of a task, without which the lead does not come to its end.
    until("tasks for worker-0 and worker-1", lambda: held("worker-0") and held("worker-1"))
    running[1].send(signal.SIGKILL)
    running[0].send(signal.SIGTERM)

    # Evicted: it says that it goes, its task is on the board again, and a Pod in its place joins with the same token.
    if (code := running[0].wait()) != 143:
        yield f"an evicted worker ended with {code}: {running[0].said()}"
    if member("worker-0")["state"] != "MEMBER_STATE_EXITED" or held("worker-0"):
        yield f"an evicted worker left {member('worker-0')}"
    running[0] = start(worker(0, "acme-worker-0-again"))

    # Killed with its Pod: who comes in its place too early is told so, with a code that is not final.
    running[1].wait()
    early = start(worker(1, "acme-worker-1-again"))
    if (code := early.wait()) != 75:
        yield f"who came too early ended with {code}: {early.said()}"
    # Killed, and started again in its Pod: it is still who it was.
    running[1] = start(workers[1])
    until("a second life", lambda: member("worker-1").get("incarnation") == 2)

    if code := lead.wait():
        yield f"the lead ended with {code}: {lead.said()}"
    if lead.said().count("words, counted by worker-") != 6:
        yield f"the lead has counted {lead.said()}"
    for process in running:
        # Approved: the Job is complete.
        if code := process.wait():
            yield f"a worker ended with {code}: {process.said()}"
    operator("team", "delete", "acme")
