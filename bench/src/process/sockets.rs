//! What went through the connections to a port, as `ss` reports it.

use std::process::Command;

use crate::Result;

/// The payload and the segments of TCP in both directions.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct Traffic {
    /// Bytes, without headers.
    pub(crate) bytes: f64,
    /// Segments, those without payload included.
    pub(crate) segments: f64,
}

/// Returns the traffic of all open connections that a process of this machine has accepted on a port. `None` if `ss` is
/// not installed.
pub(crate) fn traffic(port: u16) -> Result<Option<Traffic>> {
    let Some(ss) = super::find("ss") else { return Ok(None) };
    let said = Command::new(ss).args(["-t", "-i", "-n", "-H", "sport", "=", &format!(":{port}")]).output()?;
    if !said.status.success() {
        return Err(format!("ss failed: {}", String::from_utf8_lossy(&said.stderr)).into());
    }
    Ok(Some(parse(&String::from_utf8_lossy(&said.stdout))))
}

fn parse(said: &str) -> Traffic {
    let sum = |keys: [&str; 2]| {
        let words = said.split_whitespace();
        let numbers = words.filter_map(|word| {
            let (key, number) = word.split_once(':')?;
            keys.contains(&key).then(|| number.parse::<f64>().ok()).flatten()
        });
        numbers.sum()
    };
    Traffic { bytes: sum(["bytes_sent", "bytes_received"]), segments: sum(["segs_out", "segs_in"]) }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_traffic_that_ss_reports_is_summed_over_all_connections() {
        let said = "\
ESTAB 0 0 127.0.0.1:5000 127.0.0.1:60000
\t cubic wscale:7,7 bytes_sent:120 bytes_acked:120 bytes_received:30 segs_out:9 segs_in:8 data_segs_out:7
ESTAB 0 0 127.0.0.1:5000 127.0.0.1:60001
\t cubic wscale:7,7 bytes_sent:1000 bytes_retrans:5 bytes_received:300 segs_out:90 segs_in:80 send 6.5Gbps";
        let Traffic { bytes, segments } = parse(said);
        assert_eq!((bytes, segments), (1450.0, 187.0));
    }
}
