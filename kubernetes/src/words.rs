//! Puts what Kubernetes reports about a Pod into a sentence.

use k8s_openapi::api::core::v1::{
    ContainerState, ContainerStateTerminated, ContainerStatus, Pod, PodCondition, PodStatus,
};
use teamwire_proto::{v1::ExitReport, word};

use crate::profiles::CONTAINER;

/// How many characters of a line a reason repeats.
const LINE_CHARS_MAX: usize = 500;

/// How many characters the detail of an exit may have.
const DETAIL_CHARS_MAX: usize = 200;

/// Why a Pod does not start.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Obstacle {
    /// Why, in a sentence.
    pub(crate) reason: String,
    /// `true` if waiting does not help.
    pub(crate) is_final: bool,
    /// `true` if another host may be able to start the member.
    pub(crate) try_another_host: bool,
}

/// How a member's program ended.
#[derive(Clone, Debug, PartialEq)]
pub(crate) struct End {
    /// The report for the coordinator, in case the member has not reported its exit.
    pub(crate) exit: ExitReport,
    /// The sentence, and the program's last lines, if any.
    pub(crate) reason: String,
}

impl End {
    fn new(sentence: &str, code: Option<i32>, last_lines: Option<&str>) -> Self {
        let sentence = word::shorten(sentence, LINE_CHARS_MAX);
        let detail = word::shorten(&sentence, DETAIL_CHARS_MAX);
        let lines = last_lines.map(str::trim).filter(|lines| !lines.is_empty());
        let reason = lines.map_or_else(|| sentence.clone(), |lines| format!("{sentence}\n{lines}"));
        let code = code.filter(|code| (0..=255).contains(code));
        Self { exit: ExitReport { code, detail, ..ExitReport::default() }, reason }
    }

    /// Returns the end of a member whose Pod ended unobserved.
    pub(crate) fn unseen(sentence: &str) -> Self {
        Self::new(sentence, None, None)
    }
}

/// Returns why a Pod has not started, if Kubernetes reports it.
pub(crate) fn obstacle(pod: &Pod) -> Option<Obstacle> {
    let status = pod.status.as_ref()?;
    let mut waiting = statuses(status).filter_map(|container| {
        let waiting = container.state.as_ref()?.waiting.as_ref()?;
        let message = waiting.message.as_deref().unwrap_or_default();
        of_waiting(waiting.reason.as_deref()?, &container.name, &container.image, message)
    });
    waiting.next().or_else(|| unschedulable(status))
}

fn of_waiting(reason: &str, container: &str, image: &str, message: &str) -> Option<Obstacle> {
    let (what, is_final) = match reason {
        // The first failure may be temporary. After a second one, Kubernetes reports that it backs off.
        "ErrImagePull" => (format!("The image {image} cannot be pulled"), false),
        "ImagePullBackOff" | "ImageInspectError" | "RegistryUnavailable" | "SignatureValidationFailed" => {
            (format!("The image {image} cannot be pulled"), true)
        }
        "ErrImageNeverPull" => (format!("The image {image} is not on the node, and may not be pulled"), true),
        "InvalidImageName" => (format!("\"{image}\" is not the name of an image"), true),
        "CreateContainerConfigError" => (format!("The container {container} cannot be configured"), true),
        "CreateContainerError" | "RunContainerError" | "StartError" | "ContainerCannotRun" => {
            (format!("The container {container} cannot start"), true)
        }
        "PostStartHookError" => (format!("The postStart hook of the container {container} failed"), true),
        "CrashLoopBackOff" => (format!("The container {container} fails again and again"), true),
        _ => return None,
    };
    Some(Obstacle { reason: sentence(&what, message), is_final, try_another_host: false })
}

/// Returns why no node fits. Not final, because a node may be added.
fn unschedulable(status: &PodStatus) -> Option<Obstacle> {
    let condition = condition(status, "PodScheduled").filter(|condition| condition.status == "False")?;
    let message = condition.message.as_deref().unwrap_or_default();
    let what = match condition.reason.as_deref() {
        Some("SchedulingGated") => "Its Pod waits for a scheduling gate to be removed",
        _ => "No node fits its Pod",
    };
    Some(Obstacle { reason: sentence(what, message), is_final: false, try_another_host: true })
}

/// Returns what a Pod that does not run waits for, if Kubernetes reports no cause.
pub(crate) fn unexplained(pod: Option<&Pod>) -> Obstacle {
    let status = pod.and_then(|pod| pod.status.as_ref());
    let waiting = status.and_then(|status| {
        statuses(status).find_map(|container| container.state.as_ref()?.waiting.as_ref()?.reason.clone())
    });
    let what = match (pod, waiting) {
        (None, _) => "Kubernetes created no Pod for it in time".to_owned(),
        (Some(_), Some(reason)) => format!("Its Pod did not start in time: it is still in {reason}"),
        (Some(_), None) => "Its Pod did not start in time".to_owned(),
    };
    Obstacle { reason: sentence(&what, ""), is_final: false, try_another_host: false }
}

/// Returns whether the program's container runs.
pub(crate) fn is_running(pod: &Pod) -> bool {
    program(pod).and_then(|container| container.state.as_ref()).is_some_and(|state| state.running.is_some())
}

/// Returns how the program of a Pod ended. `None` if it has not ended, or never started.
pub(crate) fn end(pod: &Pod) -> Option<End> {
    let status = pod.status.as_ref()?;
    let is_failed = status.phase.as_deref() == Some("Failed");
    // For a Pod that the kubelet or a controller ended, the Pod's status says more than the status of its containers.
    if is_failed && let Some(end) = of_pod(status) {
        return Some(end);
    }
    let terminated = program(pod).and_then(|container| container.state.as_ref()?.terminated.as_ref());
    if let Some(terminated) = terminated {
        return Some(of_program(terminated, memory_limit(pod).as_deref()));
    }
    let preparation = status.init_container_statuses.iter().flatten().find_map(|container| {
        let terminated =
            container.state.as_ref()?.terminated.as_ref().filter(|terminated| terminated.exit_code != 0)?;
        let what = format!("The init container {} failed with the exit code {}", container.name, terminated.exit_code);
        Some(End::new(&sentence(&what, ""), None, terminated.message.as_deref()))
    });
    let others = || match status.phase.as_deref() {
        Some("Failed") => Some(End::new(&sentence("Its Pod failed", &text_of(status)), None, None)),
        Some("Succeeded") => Some(End::new("Its Pod is complete.", Some(0), None)),
        _ => None,
    };
    preparation.filter(|_| is_failed).or_else(others)
}

/// Returns how Kubernetes ended a Pod, if it did.
fn of_pod(status: &PodStatus) -> Option<End> {
    let message = text_of(status);
    let what = match status.reason.as_deref() {
        Some("Evicted") => "Kubernetes evicted its Pod",
        Some("DeadlineExceeded") => "Its Pod exceeded its activeDeadlineSeconds",
        Some("NodeLost") => "The node of its Pod was lost",
        Some("Terminated" | "NodeShutdown" | "Shutdown") => "The node of its Pod shut down",
        Some("Preempting" | "Preempted") => "A Pod with a higher priority took the place of its Pod",
        Some("UnexpectedAdmissionError" | "NodeAffinity") => "The node refused its Pod",
        Some(reason) if reason.starts_with("OutOf") => "The node refused its Pod",
        _ => return disrupted(status),
    };
    Some(End::new(&sentence(what, &message), exit_code(status), None))
}

/// Returns which disruption ended a Pod.
fn disrupted(status: &PodStatus) -> Option<End> {
    let condition = condition(status, "DisruptionTarget").filter(|condition| condition.status == "True")?;
    let what = match condition.reason.as_deref().unwrap_or_default() {
        "PreemptionByScheduler" => "A Pod with a higher priority took the place of its Pod",
        "DeletionByTaintManager" => "The node of its Pod became unfit for it",
        "EvictionByEvictionAPI" => "Its Pod was evicted, as when a node is drained",
        "DeletionByPodGC" => "The node of its Pod is gone",
        _ => "Kubernetes ended its Pod",
    };
    let message = condition.message.as_deref().unwrap_or_default();
    Some(End::new(&sentence(what, message), exit_code(status), None))
}

/// Returns how a program ended, by itself or because it reached a limit of its container.
fn of_program(terminated: &ContainerStateTerminated, memory: Option<&str>) -> End {
    let code = terminated.exit_code;
    let message = terminated.message.as_deref();
    match terminated.reason.as_deref() {
        Some("OOMKilled") => {
            let limit = memory.map_or_else(String::new, |limit| format!(" of {limit}"));
            End::new(&format!("It was killed because it exceeded its memory limit{limit}."), Some(code), message)
        }
        Some("ContainerCannotRun" | "StartError") => {
            End::new(&sentence("Its container cannot start", message.unwrap_or_default()), Some(code), None)
        }
        _ if code == 0 => End::new("It exited with 0.", Some(0), None),
        _ => End::new(&format!("It exited with {code}{}.", meaning(code)), Some(code), message),
    }
}

/// Returns what an exit code of a runner means; see `teamwire run`.
fn meaning(code: i32) -> &'static str {
    match code {
        64 => ": its command cannot be used",
        69 => ": it could not reach the coordinator",
        75 => ": its name was taken",
        77 => ": the coordinator did not permit it to join or to continue",
        126 => ": its program cannot be executed",
        127 => ": its program was not found in the image",
        137 => ": it was killed",
        143 => ": it was asked to end",
        _ => "",
    }
}

fn statuses(status: &PodStatus) -> impl Iterator<Item = &ContainerStatus> {
    status.init_container_statuses.iter().chain(&status.container_statuses).flatten()
}

fn condition<'s>(status: &'s PodStatus, kind: &str) -> Option<&'s PodCondition> {
    status.conditions.iter().flatten().find(|condition| condition.type_ == kind)
}

/// Returns the status of the program's container.
fn program(pod: &Pod) -> Option<&ContainerStatus> {
    let containers = &pod.spec.as_ref()?.containers;
    let name = &crate::profiles::program_container(containers)?.name;
    let statuses = pod.status.as_ref()?.container_statuses.iter().flatten();
    statuses.into_iter().find(|status| status.name == *name)
}

fn memory_limit(pod: &Pod) -> Option<String> {
    let container = crate::profiles::program_container(&pod.spec.as_ref()?.containers)?;
    Some(container.resources.as_ref()?.limits.as_ref()?.get("memory")?.0.clone())
}

/// Returns the exit code of the program in a Pod that was ended.
fn exit_code(status: &PodStatus) -> Option<i32> {
    let statuses = status.container_statuses.as_ref()?;
    let of_program = statuses.iter().find(|status| status.name == CONTAINER).or(statuses.first())?;
    of_program.state.as_ref().and_then(|ContainerState { terminated, .. }| terminated.as_ref()).map(|it| it.exit_code)
}

fn text_of(status: &PodStatus) -> String {
    status.message.clone().or_else(|| status.reason.clone()).unwrap_or_default()
}

/// Returns a sentence whose second part is Kubernetes' own message.
fn sentence(what: &str, message: &str) -> String {
    let message = word::shorten(message, LINE_CHARS_MAX);
    let message = message.trim_end_matches('.');
    if message.is_empty() { format!("{what}.") } else { format!("{what}: {message}.") }
}

#[cfg(test)]
#[path = "words_tests.rs"]
mod tests;
