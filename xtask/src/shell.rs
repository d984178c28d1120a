//! Where things are, and how other programs are run and talked about.
//!
//! Owns the paths of the workspace, the scratch directory of a run, and the two ways of printing: `print_line` for
//! results, `talk` for the rest.
//! It knows no word of `cargo xtask`.

use std::ffi::OsStr;
use std::io::Write as _;
use std::path::{Path, PathBuf};
use std::process::{Command, Output, Stdio};
use std::sync::{Mutex, MutexGuard, PoisonError};
use std::time::Instant;

use anyhow::{Context as _, Result, bail};

/// The directory of the workspace's `Cargo.toml`.
pub(crate) fn root() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).parent().map_or_else(PathBuf::new, Path::to_path_buf)
}

/// Where cargo builds, and where everything that can be made again is kept.
pub(crate) fn target_dir() -> PathBuf {
    match std::env::var_os("CARGO_TARGET_DIR") {
        Some(dir) => root().join(dir),
        None => root().join("target"),
    }
}

/// A directory of this run inside the target directory; it goes when the value is dropped.
pub(crate) struct Scratch {
    path: PathBuf,
}

impl Scratch {
    pub(crate) fn new(name: &str) -> Result<Self> {
        let target = target_dir();
        remove_left_behind(&target, name);
        let path = target.join(format!("{name}-{}", std::process::id()));
        std::fs::create_dir_all(&path).with_context(|| format!("cannot create {}", path.display()))?;
        in_use().push(path.clone());
        Ok(Self { path })
    }

    pub(crate) fn path(&self) -> &Path {
        &self.path
    }
}

impl Drop for Scratch {
    fn drop(&mut self) {
        // What cannot be removed is only in the target directory.
        let _ = std::fs::remove_dir_all(&self.path);
    }
}

/// The scratch directories of this run, for its sudden end.
static IN_USE: Mutex<Vec<PathBuf>> = Mutex::new(Vec::new());

fn in_use() -> MutexGuard<'static, Vec<PathBuf>> {
    IN_USE.lock().unwrap_or_else(PoisonError::into_inner)
}

/// Removes the scratch directories of a run that ends here and now.
pub(crate) fn remove_scratch() {
    for path in &*in_use() {
        // As when it is dropped.
        let _ = std::fs::remove_dir_all(path);
    }
}

/// Removes what runs that were interrupted could not: directories named after a process that is gone.
fn remove_left_behind(target: &Path, name: &str) {
    if !Path::new("/proc/self").exists() {
        return;
    }
    for entry in std::fs::read_dir(target).into_iter().flatten().flatten() {
        let entry_name = entry.file_name();
        let process = entry_name.to_str().and_then(|it| it.strip_prefix(name)?.strip_prefix('-')?.parse::<u32>().ok());
        if process.is_some_and(|process| !Path::new("/proc").join(process.to_string()).exists()) {
            // The next run tries again.
            let _ = std::fs::remove_dir_all(entry.path());
        }
    }
}

/// The cargo that runs this program.
pub(crate) fn cargo() -> Command {
    let mut command = Command::new(std::env::var_os("CARGO").unwrap_or_else(|| "cargo".into()));
    command.current_dir(root());
    command
}

/// The same, for what lets others go first.
pub(crate) fn patient_cargo() -> Command {
    let mut command = Command::new("nice");
    command.args(["-n", "10"]).arg(cargo().get_program()).current_dir(root());
    command
}

/// A result, for standard output.
pub(crate) fn print_line(line: &str) {
    // A reader that went away is no reason to fail.
    let _ = writeln!(std::io::stdout().lock(), "{}", line.trim_end());
}

/// Progress and complaints, for standard error.
pub(crate) fn talk(line: &str) {
    let _ = writeln!(std::io::stderr().lock(), "{}", line.trim_end());
}

/// Talk without ending the line, so that a later `talk` completes it.
pub(crate) fn talk_start(text: &str) {
    let mut stderr = std::io::stderr().lock();
    let _ = write!(stderr, "{text}");
    let _ = stderr.flush();
}

/// Runs a command quietly; on failure the error carries everything it printed.
pub(crate) fn run_quietly(command: &mut Command) -> Result<Output> {
    let shown = format!("{command:?}");
    let output = command.stdin(Stdio::null()).output().with_context(|| format!("cannot run {shown}"))?;
    if !output.status.success() {
        bail!("{shown} failed ({})\n{}", output.status, text_of(&output));
    }
    Ok(output)
}

/// Both outputs of a finished command, standard output first.
pub(crate) fn text_of(output: &Output) -> String {
    format!("{}{}", String::from_utf8_lossy(&output.stdout), String::from_utf8_lossy(&output.stderr))
}

/// The first executable of that name on the search path.
pub(crate) fn find_program(name: impl AsRef<OsStr>) -> Option<PathBuf> {
    let path = std::env::var_os("PATH")?;
    std::env::split_paths(&path).map(|dir| dir.join(name.as_ref())).find(|candidate| candidate.is_file())
}

/// One slow step: its name at once, its duration when it is done, or that it failed when it is dropped before.
pub(crate) struct Step {
    start: Instant,
    is_done: bool,
}

impl Step {
    pub(crate) fn start(what: &str) -> Self {
        talk_start(&format!("{what} ... "));
        Self { start: Instant::now(), is_done: false }
    }

    pub(crate) fn done(mut self) {
        self.is_done = true;
        talk(&format!("{:.0} s", self.start.elapsed().as_secs_f64()));
    }
}

impl Drop for Step {
    fn drop(&mut self) {
        if !self.is_done {
            talk("failed");
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn directories_of_processes_that_are_gone_are_removed() {
        let scratch = Scratch::new("shell-test").expect("the target directory can be written");
        let own = std::process::id();
        // No process has the number 0.
        let names = ["run-0".to_owned(), format!("run-{own}"), "run-x".to_owned(), "other-0".to_owned()];
        for name in &names {
            std::fs::create_dir(scratch.path().join(name)).expect("a directory can be made");
        }
        remove_left_behind(scratch.path(), "run");
        assert_eq!(names.map(|name| scratch.path().join(name).exists()), [false, true, true, true]);
    }
}
