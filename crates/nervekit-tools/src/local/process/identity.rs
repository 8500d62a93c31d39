//! What proves that a process is the one that was started.

use std::io;

use rustix::process::Pid;

use crate::process::ProcessRef;

/// Whether a reference still names its process.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Verdict {
    /// It does, and the process is alive.
    Same,
    /// Its process has ended.
    Gone,
    /// Nobody can tell: another machine, or facts that cannot be read.
    Unproven,
}

/// The reference of a child that has not been reaped.
pub(super) fn reference(pid: Pid) -> io::Result<ProcessRef> {
    let id = pid.as_raw_nonzero().get().unsigned_abs();
    let facts = facts(id)?.ok_or_else(|| io::Error::other("the process is gone"))?;
    Ok(ProcessRef::new(host(), boot_id()?, id, id, facts.start_time))
}

pub(super) fn verify(reference: &ProcessRef) -> Verdict {
    if reference.host != host() {
        return Verdict::Unproven;
    }
    match boot_id() {
        Err(_) => return Verdict::Unproven,
        // No process outlives the boot of its machine.
        Ok(boot) if boot != reference.boot_id => return Verdict::Gone,
        Ok(_) => {}
    }
    match facts(reference.pid) {
        Err(_) => Verdict::Unproven,
        Ok(Some(facts)) if facts.start_time == reference.start_time && facts.group == reference.group => {
            if facts.zombie {
                Verdict::Gone
            } else {
                Verdict::Same
            }
        }
        Ok(_) => Verdict::Gone,
    }
}

fn host() -> String {
    rustix::system::uname().nodename().to_string_lossy().into_owned()
}

/// What the system says about a process.
#[derive(Debug)]
struct Facts {
    group: u32,
    start_time: u64,
    zombie: bool,
}

#[cfg(target_os = "linux")]
mod system {
    use std::{fs, io};

    use rustix::process::Pid;

    use super::Facts;

    pub(super) fn boot_id() -> io::Result<String> {
        fs::read_to_string("/proc/sys/kernel/random/boot_id").map(|id| id.trim().to_owned())
    }

    /// `None` when there is no such process.
    pub(super) fn facts(pid: u32) -> io::Result<Option<Facts>> {
        match fs::read_to_string(format!("/proc/{pid}/stat")) {
            Ok(stat) => {
                parse(&stat).map(Some).ok_or_else(|| io::Error::other("the process table cannot be read"))
            }
            // A process that ends while its file is read gives ESRCH.
            Err(error)
                if error.kind() == io::ErrorKind::NotFound
                    || error.raw_os_error() == Some(rustix::io::Errno::SRCH.raw_os_error()) =>
            {
                Ok(None)
            }
            Err(error) => Err(error),
        }
    }

    /// Fields 3 (state), 5 (process group) and 22 (start time in clock ticks since boot) of `proc_pid_stat(5)`.
    /// The name in field 2 may hold spaces and parentheses, so the fields are counted from its last `)`.
    pub(super) fn parse(stat: &str) -> Option<Facts> {
        let mut fields = stat.rsplit_once(')')?.1.split_ascii_whitespace();
        let state = fields.next()?;
        let group = fields.nth(1)?.parse().ok()?;
        let start_time = fields.nth(16)?.parse().ok()?;
        Some(Facts { group, start_time, zombie: matches!(state, "Z" | "X" | "x") })
    }

    /// A group with only a zombie in it still takes signals here, so the process table is asked.
    pub(in crate::local::process) fn has_living_members(group: Pid) -> bool {
        if rustix::process::test_kill_process_group(group).is_err() {
            return false;
        }
        let group = group.as_raw_nonzero().get().unsigned_abs();
        let Ok(table) = fs::read_dir("/proc") else { return true };
        table.flatten().any(|entry| {
            let pid = entry.file_name().to_str().and_then(|name| name.parse().ok());
            let facts = pid.and_then(|pid| facts(pid).ok().flatten());
            facts.is_some_and(|facts| facts.group == group && !facts.zombie)
        })
    }
}

#[cfg(not(target_os = "linux"))]
mod system {
    use std::io;
    use std::process::{Command, Stdio};

    use rustix::process::Pid;

    use super::Facts;

    fn ask(program: &str, arguments: &[&str]) -> io::Result<String> {
        let output = Command::new(program)
            .args(arguments)
            .env("LC_ALL", "C")
            .env("TZ", "UTC")
            .stdin(Stdio::null())
            .output()?;
        Ok(String::from_utf8_lossy(&output.stdout).trim().to_owned())
    }

    /// macOS: `kern.bootsessionuuid`; the BSDs know the time of boot.
    pub(super) fn boot_id() -> io::Result<String> {
        let name = if cfg!(target_os = "macos") { "kern.bootsessionuuid" } else { "kern.boottime" };
        let id = ask("/usr/sbin/sysctl", &["-n", name])?;
        if id.is_empty() { Err(io::Error::other("the system does not name its boot")) } else { Ok(id) }
    }

    /// Process group, state and start time by `ps` (POSIX has no `lstart`; macOS and the BSDs do). The start
    /// time becomes a number by the first eight bytes of its digest: it only has to be equal.
    pub(super) fn facts(pid: u32) -> io::Result<Option<Facts>> {
        let line = ask("/bin/ps", &["-o", "pgid=,stat=,lstart=", "-p", &pid.to_string()])?;
        if line.is_empty() {
            return Ok(None);
        }
        let unreadable = || io::Error::other("the process table cannot be read");
        let (group, rest) = line.split_once(char::is_whitespace).ok_or_else(unreadable)?;
        let (state, started) = rest.trim_start().split_once(char::is_whitespace).ok_or_else(unreadable)?;
        let digest = nervekit_types::Digest::of(started.trim());
        let start_time =
            digest.as_bytes().iter().take(8).fold(0, |value, byte| value << 8 | u64::from(*byte));
        let group = group.parse().map_err(|_| unreadable())?;
        Ok(Some(Facts { group, start_time, zombie: state.starts_with('Z') }))
    }

    /// A group with only a zombie in it takes no signals here (XNU and FreeBSD `killpg1` skip zombies).
    pub(in crate::local::process) fn has_living_members(group: Pid) -> bool {
        rustix::process::test_kill_process_group(group).is_ok()
    }
}

use system::{boot_id, facts};

pub(super) use system::has_living_members;

#[cfg(all(test, target_os = "linux"))]
mod tests {
    use super::*;

    #[test]
    fn a_name_with_spaces_and_parentheses_does_not_shift_the_fields() {
        let facts =
            system::parse("42 (a) R 1 (b) S 1 7 7 0 -1 4194560 1 0 0 0 0 0 0 0 20 0 1 0 987 0 0").unwrap();
        assert_eq!((facts.group, facts.start_time, facts.zombie), (7, 987, false));
        assert!(system::parse("42 (x").is_none());
    }

    #[test]
    fn this_process_is_proven_and_any_other_fact_is_not() {
        let own = rustix::process::getpid();
        let group = rustix::process::getpgrp().as_raw_nonzero().get().unsigned_abs();
        let mut reference = reference(own).unwrap();
        reference.group = group;
        assert_eq!(verify(&reference), Verdict::Same);
        let with = |change: fn(&mut ProcessRef)| {
            let mut other = reference.clone();
            change(&mut other);
            verify(&other)
        };
        assert_eq!(with(|other| other.start_time += 1), Verdict::Gone);
        assert_eq!(with(|other| other.group += 1), Verdict::Gone);
        assert_eq!(with(|other| other.boot_id.push('x')), Verdict::Gone);
        assert_eq!(with(|other| other.host.push('x')), Verdict::Unproven);
    }
}
