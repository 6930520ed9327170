//! Two machines and the cable between them: network namespaces and a pair of virtual interfaces.

use std::{
    env, fs,
    os::unix::fs::MetadataExt as _,
    process::{self, Command},
    sync::atomic::{AtomicU32, Ordering},
};

/// The name of the interface, on either machine.
const INTERFACE: &str = "eth0";

/// Two machines that reach only each other. Dropping it removes them; their processes must have ended before.
pub(crate) struct Network {
    machines: [Machine; 2],
}

/// One of the two: a network namespace.
#[derive(Clone)]
pub(crate) struct Machine {
    namespace: String,
    /// Its address in the network.
    pub ip: &'static str,
}

impl Network {
    /// Makes two machines and connects them. `None`, with a notice, where that is not possible: it takes root and `ip`.
    /// To root, CI must give both.
    pub(crate) fn of_two() -> Option<Self> {
        static NETWORKS: AtomicU32 = AtomicU32::new(0);
        let name = format!("teamwire-{}-{}", process::id(), NETWORKS.fetch_add(1, Ordering::Relaxed));
        let machine = |place, ip| Machine { namespace: format!("{name}-{place}"), ip };
        // From here on it removes whatever there is of it.
        let network = Self { machines: [machine("a", "192.0.2.1"), machine("b", "192.0.2.2")] };
        let made = network.make();
        if let Err(why) = made {
            let is_root = fs::metadata("/proc/self").is_ok_and(|process| process.uid() == 0);
            let must_be = is_root && env::var_os("CI").is_some_and(|ci| ci == "true");
            assert!(!must_be, "no network namespaces, and CI must test with them where it is root: {why}");
            eprintln!("skipped: no network namespaces (they take root, and `ip` of iproute2): {why}");
            return None;
        }
        Some(network)
    }

    fn make(&self) -> Result<(), String> {
        let [a, b] = &self.machines;
        for machine in &self.machines {
            ip(&["netns", "add", &machine.namespace])?;
        }
        let peer = ["type", "veth", "peer", "name", INTERFACE, "netns", &b.namespace];
        ip(&[&["link", "add", INTERFACE, "netns", &a.namespace][..], &peer].concat())?;
        for machine in &self.machines {
            let address = format!("{}/24", machine.ip);
            ip(&["-n", &machine.namespace, "addr", "add", &address, "dev", INTERFACE])?;
            ip(&["-n", &machine.namespace, "link", "set", "lo", "up"])?;
            machine.connect();
        }
        Ok(())
    }

    /// Returns both machines.
    pub(crate) fn machines(&self) -> [&Machine; 2] {
        self.machines.each_ref()
    }
}

impl Drop for Network {
    fn drop(&mut self) {
        for machine in &self.machines {
            // There may be none, where it could not be made. The cable goes with them.
            let _ = ip(&["netns", "del", &machine.namespace]);
        }
    }
}

impl Machine {
    /// Returns a command that runs on it. It keeps the process id.
    pub(super) fn command(&self, program: &str) -> Command {
        let around = self.around();
        let mut command = Command::new(&around[0]);
        command.args(&around[1..]).arg(program);
        command
    }

    /// Returns what runs a command on it: a program and its arguments, before those of the command.
    pub(super) fn around(&self) -> Vec<String> {
        ["ip", "netns", "exec", &self.namespace].map(str::to_owned).to_vec()
    }

    /// Unplugs the cable. From now on neither machine receives anything from the other.
    pub(crate) fn disconnect(&self) {
        ip(&["-n", &self.namespace, "link", "set", INTERFACE, "down"]).unwrap();
    }

    /// Puts the cable in.
    pub(crate) fn connect(&self) {
        ip(&["-n", &self.namespace, "link", "set", INTERFACE, "up"]).unwrap();
    }
}

fn ip(arguments: &[&str]) -> Result<(), String> {
    let what = format!("ip {}", arguments.join(" "));
    let output = Command::new("ip").args(arguments).output().map_err(|error| format!("{what}: {error}"))?;
    if output.status.success() {
        return Ok(());
    }
    Err(format!("{what}: {}", String::from_utf8_lossy(&output.stderr).trim()))
}
