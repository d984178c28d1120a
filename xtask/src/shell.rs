//! Where things are, and how other programs are run and talked about.
//!
//! Owns the paths of the workspace and the two ways of printing: `print_line` for results, `talk` for the rest.
//! It knows no word of `cargo xtask`.

use std::ffi::OsStr;
use std::io::Write as _;
use std::path::{Path, PathBuf};
use std::process::{Command, Output, Stdio};

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

/// The cargo that runs this program.
pub(crate) fn cargo() -> Command {
    let mut command = Command::new(std::env::var_os("CARGO").unwrap_or_else(|| "cargo".into()));
    command.current_dir(root());
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
