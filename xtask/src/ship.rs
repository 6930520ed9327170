//! Publishes what `cargo xtask dist` made. docs/releasing.md says in which order.
//!
//! Only the workflow that a pushed tag of this version started publishes anything. Everywhere else, each command shows
//! what it would run, and runs what changes nothing outside this machine.

use std::{
    env,
    fs::{self, OpenOptions},
    io::Write,
    path::{Path, PathBuf},
};

use crate::{
    charts,
    install::go,
    step::{Failure, Step, root},
};

/// Where the images and the charts go.
const REGISTRY: &str = "ghcr.io/teamwire";

/// The repository of the Homebrew formula, as GitHub's API names the file in it.
const FORMULA: &str = "repos/teamwire/homebrew-tap/contents/Formula/teamwire.rb";

/// The stages of deploy/Dockerfile, and the names of their images.
const IMAGES: [(&str, &str); 2] = [("teamwire", "teamwire"), ("teammate", "teamwire-teammate")];

/// The charts in deploy/helm.
const CHARTS: [&str; 2] = ["teamwire", "teammate"];

/// A command: its name, whether it takes the directory of a release, and what it does.
type Target = (&'static str, bool, fn(&Release) -> Result<(), Failure>);

const TARGETS: [Target; 9] = [
    ("draft", true, draft),
    ("npm", true, npm),
    ("pypi", true, pypi),
    ("crates", false, crates),
    ("image", false, image),
    ("index", false, index),
    ("charts", false, helm),
    ("tap", true, tap),
    ("release", false, release),
];

/// A version that is being released.
struct Release {
    version: String,
    /// The directory that `cargo xtask dist` filled.
    files: PathBuf,
    /// Whether to publish. Otherwise this shows what it would do.
    for_real: bool,
}

/// Publishes to the place that the first argument names. The second one is the directory of a release.
pub(crate) fn run(arguments: &[&str]) -> Result<(), Failure> {
    let name = arguments.first().copied().unwrap_or_default();
    let Some((_, takes_files, publish)) = TARGETS.into_iter().find(|(target, ..)| *target == name) else {
        let known = TARGETS.map(|(target, ..)| target).join(", ");
        return Err(Failure::new(format!("there is no place `{name}` to publish to; there are {known}"), "name one"));
    };
    if arguments.len() != 1 + usize::from(takes_files) {
        let usage = if takes_files { "ship NAME DIR" } else { "ship NAME" };
        return Err(Failure::new(
            format!("`ship {name}` has the wrong number of arguments: the usage is `{usage}`"),
            "name the directory that `cargo xtask dist --out DIR` filled, and only where it is needed",
        ));
    }
    let version = version()?;
    let for_real = is_pushed_tag(&version);
    if !for_real {
        eprintln!("xtask: dry run: only the workflow that the pushed tag v{version} starts publishes");
    }
    publish(&Release { version, files: arguments.get(1).unwrap_or(&"").into(), for_real })
}

/// Returns the version in the workspace's manifest.
fn version() -> Result<String, Failure> {
    let manifest = root().join("Cargo.toml");
    let text = fs::read_to_string(&manifest).map_err(|error| Failure::io(&manifest, &error))?;
    let of_workspace = text.split_once("[workspace.package]").map_or("", |(_, after)| after);
    let version = of_workspace.lines().find_map(|line| line.strip_prefix("version = \"")?.strip_suffix('"'));
    version.map(str::to_owned).ok_or_else(|| Failure::new("Cargo.toml has no version", "see [workspace.package]"))
}

/// Returns whether GitHub runs this for the tag of this version. A run that a person started is never one.
fn is_pushed_tag(version: &str) -> bool {
    let is = |variable: &str, value: &str| env::var_os(variable).is_some_and(|found| found == value);
    is("GITHUB_EVENT_NAME", "push") && is("GITHUB_REF", &format!("refs/tags/v{version}"))
}

impl Release {
    /// Runs a command that publishes. In a dry run, shows it.
    fn step(&self, program: impl AsRef<std::ffi::OsStr>, arguments: &[&str]) -> Result<(), Failure> {
        let program = program.as_ref();
        if !self.for_real {
            eprintln!("xtask: dry run: would run `{} {}`", Path::new(program).display(), arguments.join(" "));
            return Ok(());
        }
        Step::new(program, arguments).advice("see docs/releasing.md, and run this job again").run()
    }

    /// Returns the files of the release with such names, sorted. Fails if there is none.
    fn files(&self, what: &str, is_one: impl Fn(&str) -> bool) -> Result<Vec<String>, Failure> {
        let entries = fs::read_dir(&self.files).map_err(|error| Failure::io(&self.files, &error))?;
        let names = entries.flatten().map(|entry| entry.file_name().to_string_lossy().into_owned());
        let mut names: Vec<_> = names.filter(|name| is_one(name)).collect();
        names.sort();
        if names.is_empty() {
            let missing = format!("{} has no {what}", self.files.display());
            return Err(Failure::new(missing, "fill it with `cargo xtask dist --out DIR`"));
        }
        Ok(names.iter().map(|name| self.files.join(name).to_string_lossy().into_owned()).collect())
    }

    fn tag(&self) -> String {
        format!("v{}", self.version)
    }

    /// Writes the changelog's section about this version, and returns the file. A dry run takes *Unreleased* if there is
    /// no such section yet.
    fn notes(&self) -> Result<String, Failure> {
        let page = root().join("CHANGELOG.md");
        let text = fs::read_to_string(&page).map_err(|error| Failure::io(&page, &error))?;
        let section = |name: &str| {
            let (_, after) = text.split_once(&format!("\n## [{name}]"))?;
            let (_, body) = after.split_once('\n')?;
            Some(body.split("\n## [").next().unwrap_or(body).trim().to_owned())
        };
        let unreleased = || section("Unreleased").filter(|_| !self.for_real);
        let notes = section(&self.version).or_else(unreleased).filter(|notes| !notes.is_empty()).ok_or_else(|| {
            let missing = format!("CHANGELOG.md has no section [{}]", self.version);
            Failure::new(missing, "give the section Unreleased the version and the date")
        })?;
        let file = emptied("notes")?.join("notes.md");
        fs::write(&file, notes + "\n").map_err(|error| Failure::io(&file, &error))?;
        Ok(file.to_string_lossy().into_owned())
    }
}

/// Returns an empty directory below `target/ship`.
fn emptied(name: &str) -> Result<PathBuf, Failure> {
    let directory = root().join("target/ship").join(name);
    // Left by an earlier run.
    let _ = fs::remove_dir_all(&directory);
    fs::create_dir_all(&directory).map_err(|error| Failure::io(&directory, &error))?;
    Ok(directory)
}

/// Creates the draft of a GitHub release with all files. Replaces the files of a draft that an earlier run created.
fn draft(release: &Release) -> Result<(), Failure> {
    let (tag, notes) = (release.tag(), release.notes()?);
    let files = release.files("files", |_| true)?;
    let files: Vec<&str> = files.iter().map(String::as_str).collect();
    if release.for_real && Step::new("gh", &["release", "view", &tag]).succeeds() {
        return release.step("gh", &[&["release", "upload", &tag, "--clobber"], &files[..]].concat());
    }
    let title = format!("teamwire {}", release.version);
    let create = ["release", "create", &tag, "--draft", "--verify-tag", "--title", &title, "--notes-file", &notes];
    release.step("gh", &[&create, &files[..]].concat())
}

/// Makes the draft public.
fn release(release: &Release) -> Result<(), Failure> {
    release.step("gh", &["release", "edit", &release.tag(), "--draft=false"])
}

/// Publishes the npm packages. The parts come before the package that needs them, whose name is the last in reverse order.
fn npm(release: &Release) -> Result<(), Failure> {
    for file in release.files("npm packages", |name| name.ends_with(".tgz"))?.iter().rev() {
        // `npm publish` takes a path without `./` for the name of a repository.
        let file = std::path::absolute(file).map_err(|error| Failure::io(file.as_ref(), &error))?;
        let file = file.to_string_lossy();
        let publish = ["publish", "--access", "public", &file];
        if release.for_real {
            release.step("npm", &publish)?;
        } else {
            Step::new("npm", &[&publish[..], &["--dry-run"]].concat()).advice("fix the package").run()?;
        }
    }
    Ok(())
}

/// Copies what belongs on PyPI to `target/ship/pypi`, from where PyPI's own action uploads it.
fn pypi(release: &Release) -> Result<(), Failure> {
    let source = format!("-{}.tar.gz", release.version);
    let directory = emptied("pypi")?;
    for file in release.files("Python packages", |name| name.ends_with(".whl") || name.ends_with(&source))? {
        let copy = directory.join(Path::new(&file).file_name().unwrap_or_default());
        fs::copy(&file, &copy).map_err(|error| Failure::io(&copy, &error))?;
        eprintln!("xtask: {} goes to PyPI", copy.display());
    }
    Ok(())
}

/// Publishes the crates, in the order of their dependencies.
fn crates(release: &Release) -> Result<(), Failure> {
    let mut publish = vec!["publish", "--workspace", "--locked"];
    if !release.for_real {
        publish.push("--dry-run");
    }
    Step::cargo(&publish).advice("see docs/releasing.md, and run this job again").run()
}

/// Builds the images for this machine's architecture, and pushes them.
fn image(release: &Release) -> Result<(), Failure> {
    let revision = Step::new("git", &["rev-parse", "HEAD"]).output().unwrap_or_default();
    let (version, revision) = (format!("VERSION={}", release.version), format!("REVISION={revision}"));
    for (stage, name) in IMAGES {
        let tag = format!("{REGISTRY}/{name}:{}-{}", release.version, env::consts::ARCH);
        let build = ["buildx", "build", "--file", "deploy/Dockerfile", "--target", stage, "--tag", &tag];
        let arguments = ["--build-arg", &version, "--build-arg", &revision];
        let push: &[&str] = if release.for_real { &["--push"] } else { &[] };
        Step::new("docker", &[&build[..], &arguments, push, &["."]].concat())
            .advice("it needs Docker with buildx, and a sign-in to the registry")
            .run()?;
    }
    Ok(())
}

/// Joins the images of all architectures under the version. Says their digests to the workflow, which attests them.
fn index(release: &Release) -> Result<(), Failure> {
    for (_, name) in IMAGES {
        let image = format!("{REGISTRY}/{name}");
        let tags = [format!("{image}:{}", release.version), format!("{image}:latest")];
        let parts = ["x86_64", "aarch64"].map(|architecture| format!("{}-{architecture}", tags[0]));
        let create = ["buildx", "imagetools", "create", "--tag", &tags[0], "--tag", &tags[1], &parts[0], &parts[1]];
        release.step("docker", &create)?;
        if let (true, Some(outputs)) = (release.for_real, env::var_os("GITHUB_OUTPUT")) {
            let inspect = ["buildx", "imagetools", "inspect", &tags[0], "--format", "{{.Manifest.Digest}}"];
            let digest = Step::new("docker", &inspect).output().filter(|digest| !digest.is_empty());
            let digest = digest.ok_or_else(|| Failure::new(format!("{} has no digest", tags[0]), "run this again"))?;
            let outputs = PathBuf::from(outputs);
            let file = OpenOptions::new().append(true).create(true).open(&outputs);
            file.and_then(|mut file| writeln!(file, "{name}={digest}"))
                .map_err(|error| Failure::io(&outputs, &error))?;
        }
    }
    Ok(())
}

/// Packs the charts, and pushes them.
fn helm(release: &Release) -> Result<(), Failure> {
    let helm = go("helm.sh/helm/v3/cmd/helm", charts::HELM)?;
    let directory = emptied("charts")?;
    for chart in CHARTS {
        let source = format!("deploy/helm/{chart}");
        let pack = ["package", &source, "--version", &release.version, "--destination", &directory.to_string_lossy()];
        Step::new(&helm, &pack).run()?;
        let packed = directory.join(format!("{chart}-{}.tgz", release.version));
        release.step(&helm, &["push", &packed.to_string_lossy(), &format!("oci://{REGISTRY}/charts")])?;
    }
    Ok(())
}

/// Replaces the formula in the Homebrew tap.
fn tap(release: &Release) -> Result<(), Failure> {
    let formula = release.files("Homebrew formula (teamwire.rb)", |name| name == "teamwire.rb")?;
    let content = Step::new("base64", &[&formula[0]]).output().unwrap_or_default().replace('\n', "");
    if content.is_empty() {
        return Err(Failure::new(format!("{} cannot be read", formula[0]), "make the release again"));
    }
    let [message, content] = [format!("message=teamwire {}", release.version), format!("content={content}")];
    let mut put = vec!["api", "--silent", "--method", "PUT", FORMULA, "-f", &message, "-f", &content];
    // GitHub replaces a file only for a caller that knows which version it replaces. The first release has none.
    let replaced = release.for_real.then(|| Step::new("gh", &["api", FORMULA, "--jq", ".sha"]).output()).flatten();
    let replaced = replaced.map(|sha| format!("sha={sha}"));
    put.extend(replaced.iter().flat_map(|sha| ["-f", sha.as_str()]));
    release.step("gh", &put)
}
