//! What the operating system says about the process.

use std::fs;

/// One reading.
#[derive(Clone, Copy, Debug)]
pub(super) struct Process {
    pub(super) cpu_seconds: f64,
    pub(super) resident_bytes: u64,
    pub(super) threads: u64,
    pub(super) open_descriptors: u64,
    pub(super) descriptors_max: Option<u64>,
}

impl Process {
    /// `None` where there is no `/proc`.
    pub(super) fn read() -> Option<Self> {
        let stat = Stat::parse(&fs::read_to_string("/proc/self/stat").ok()?)?;
        // One of them is the directory that is being read.
        let open_descriptors = fs::read_dir("/proc/self/fd").ok()?.count().saturating_sub(1) as u64;
        Some(Self {
            cpu_seconds: stat.cpu_ticks as f64 / rustix::param::clock_ticks_per_second().max(1) as f64,
            resident_bytes: stat.resident_pages * rustix::param::page_size() as u64,
            threads: stat.threads,
            open_descriptors,
            descriptors_max: rustix::process::getrlimit(rustix::process::Resource::Nofile).current,
        })
    }
}

/// The fields of `/proc/self/stat` that matter.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct Stat {
    cpu_ticks: u64,
    threads: u64,
    resident_pages: u64,
}

impl Stat {
    /// Fields are counted behind the name, which may hold anything, parentheses too.
    fn parse(text: &str) -> Option<Self> {
        let (_, rest) = text.rsplit_once(')')?;
        let fields: Vec<&str> = rest.split_whitespace().collect();
        let field = |number: usize| fields.get(number - 3)?.parse::<u64>().ok();
        Some(Self { cpu_ticks: field(14)? + field(15)?, threads: field(20)?, resident_pages: field(24)? })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn fields_are_found_behind_any_name() {
        let text =
            "7 (a) b (c) S 1 7 7 0 -1 4194304 900 0 0 0 12 30 0 0 20 0 5 0 100 1000000 321 18446744073709551615 1";
        assert_eq!(Stat::parse(text), Some(Stat { cpu_ticks: 42, threads: 5, resident_pages: 321 }));
        assert_eq!(Stat::parse("7 (a) S 1"), None);
    }
}
