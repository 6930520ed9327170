"""Programs that use the packages of the clients, each in a new project, with a coordinator from the archive."""

import json
import shutil
import zipfile

from clients import JARS, MODULE
from machine import Machine
from source import ROOT, output, run, say

# The project that uses the jar.
POM = """\
<project xmlns="http://maven.apache.org/POM/4.0.0">
  <modelVersion>4.0.0</modelVersion>
  <groupId>example</groupId>
  <artifactId>consumer</artifactId>
  <version>1</version>
  <properties>
    <maven.compiler.release>17</maven.compiler.release>
    <project.build.sourceEncoding>UTF-8</project.build.sourceEncoding>
  </properties>
  <repositories>
    <repository>
      <id>release</id>
      <url>{repository}</url>
    </repository>
  </repositories>
  <dependencies>
    <dependency>
      <groupId>io.teamwire</groupId>
      <artifactId>teamwire-client</artifactId>
      <version>{version}</version>
    </dependency>
  </dependencies>
  <build>
    <plugins>
      <plugin>
        <artifactId>maven-compiler-plugin</artifactId>
        <version>3.14.0</version>
      </plugin>
      <plugin>
        <artifactId>maven-dependency-plugin</artifactId>
        <version>3.8.1</version>
      </plugin>
      <plugin>
        <artifactId>maven-resources-plugin</artifactId>
        <version>3.3.1</version>
      </plugin>
    </plugins>
  </build>
</project>
"""


def everything(source, out, program, directory):
    """Installs the package of each client into a new project, and lets the example in it join a team."""
    with Machine(program) as machine:
        machine.lead()
        python(source, out, machine, directory / "python")
        typescript(source, out, machine, directory / "typescript")
        if not source.quick:
            go(source, machine, directory / "go")
            java(source, out, machine, directory / "java")


def python(source, out, machine, directory):
    """Installs the wheel into one environment and the source distribution into another."""
    kinds = {"wheel": f"teamwire_client-{source.version}-py3-none-any.whl"}
    if not source.quick:
        kinds["sdist"] = f"teamwire_client-{source.version}.tar.gz"
    for name, package in kinds.items():
        place = directory / name
        run("python3", "-m", "venv", place)
        install = [place / "bin/pip", "install", "--quiet", "--disable-pip-version-check", "--no-cache-dir"]
        run(*install, out / package, cwd=directory)
        run(place / "bin/pip", "check", "--disable-pip-version-check", cwd=directory)
        # The package is found where it was installed, not in the sources beside the example.
        example = shutil.copy(source.root / "client/python/examples/echo.py", place)
        machine.converse(name, place / "bin/python", example, cwd=directory)
        say(f"{package} works")


def typescript(source, out, machine, directory):
    """Installs the npm package into a new project."""
    directory.mkdir()
    (directory / "package.json").write_text(
        json.dumps({"name": "consumer", "version": "1.0.0", "private": True, "type": "module"})
    )
    package = out / f"teamwire-client-{source.version}.tgz"
    run("npm", "install", "--ignore-scripts", "--no-audit", "--no-fund", package, cwd=directory)
    example = shutil.copy(directory / "node_modules/@teamwire/client/examples/teammate.js", directory)
    machine.converse("typescript", "node", example, cwd=directory)
    say(f"{package.name} works")


def go(source, machine, directory):
    """Adds the module as a proxy would serve it at its tag: only what is in its directory."""
    directory.mkdir()
    served = directory / "proxy" / MODULE / "@v"
    served.mkdir(parents=True)
    version, sources = f"v{source.version}", source.root / "client/go"
    (served / "list").write_text(f"{version}\n")
    (served / f"{version}.info").write_text(json.dumps({"Version": version}))
    shutil.copyfile(sources / "go.mod", served / f"{version}.mod")
    with zipfile.ZipFile(served / f"{version}.zip", "w", zipfile.ZIP_DEFLATED) as module:
        names = [name.removeprefix("client/go/") for name in source.names if name.startswith("client/go/")]
        for name in names:
            module.write(sources / name, f"{MODULE}@{version}/{name}")
    # The modules that it needs come from this machine's cache, or else from the usual proxy.
    cache, proxy = output("go", "env", "GOMODCACHE").strip(), output("go", "env", "GOPROXY").strip()
    proxies = f"file://{directory}/proxy,file://{cache}/cache/download,{proxy}"
    environment = source.environment | {
        "GOPROXY": proxies,
        "GOMODCACHE": f"{directory}/cache",
        "GONOSUMDB": MODULE,
        "GOFLAGS": "-mod=mod -modcacherw",
    }
    consumer = directory / "consumer"
    consumer.mkdir()
    shutil.copyfile(sources / "examples/teammate/main.go", consumer / "main.go")
    # The sums of what the module needs. They leave out the module itself, which is in no database yet.
    shutil.copyfile(sources / "go.sum", consumer / "go.sum")
    run("go", "mod", "init", "example.com/consumer", cwd=consumer, env=environment)
    run("go", "get", f"{MODULE}@{version}", cwd=consumer, env=environment)
    run("go", "build", "-o", "teammate", ".", cwd=consumer, env=environment)
    machine.converse("go", consumer / "teammate", cwd=consumer)
    say(f"{MODULE}@{version} works")


def java(source, out, machine, directory):
    """Adds the jar to a new project, from a repository that has nothing else."""
    name, version = f"teamwire-client-{source.version}", source.version
    served = directory / "repository/io/teamwire/teamwire-client" / version
    served.mkdir(parents=True)
    for file in [f"{name}.pom", *(f"{name}{kind}.jar" for kind in JARS)]:
        shutil.copyfile(out / file, served / file)
    consumer = directory / "consumer"
    (consumer / "src/main/java").mkdir(parents=True)
    shutil.copyfile(source.root / "client/java/examples/Echo.java", consumer / "src/main/java/Echo.java")
    repository = (directory / "repository").as_uri()
    (consumer / "pom.xml").write_text(POM.format(repository=repository, version=version))
    # Its own local repository: no jar of an earlier build is in it. The next run reuses what it has downloaded.
    local = ROOT / "target/tools/maven"
    shutil.rmtree(local / "io/teamwire", ignore_errors=True)
    maven = ["mvn", "--batch-mode", "--no-transfer-progress", "--quiet", f"-Dmaven.repo.local={local}"]
    run(
        *maven, "compile", "dependency:copy-dependencies", "-DoutputDirectory=lib", cwd=consumer, env=source.environment
    )
    machine.converse("java", "java", "-cp", f"{consumer}/target/classes:{consumer}/lib/*", "Echo", cwd=consumer)
    say(f"{name}.jar works")
