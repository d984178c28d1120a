//! Runs inputs through a target without libFuzzer: to see again what was found, on any machine.
//!
//! It catches no panic: the first input that breaks a promise ends the program with its message.

use std::{fs, path::Path, process::ExitCode};

use anyhow::{Context as _, Result, bail};
use riparian_fuzz::{TARGETS, corpus, seeds, target};

const USAGE: &str = "\
usage: cargo run -p riparian-fuzz -- TARGET FILE-OR-DIRECTORY...   run these inputs
       cargo run -p riparian-fuzz -- seeds TARGET DIRECTORY        write what a corpus begins with

targets:";

fn main() -> ExitCode {
    let arguments: Vec<String> = std::env::args().skip(1).collect();
    let arguments: Vec<&str> = arguments.iter().map(String::as_str).collect();
    let result = match arguments[..] {
        ["seeds", target, dir] => write_seeds(target, Path::new(dir)),
        [target, ref paths @ ..] if !paths.is_empty() => run(target, paths),
        _ => Err(anyhow::anyhow!(usage())),
    };
    match result {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => {
            eprintln!("{error:#}");
            ExitCode::FAILURE
        }
    }
}

fn usage() -> String {
    let targets = TARGETS.iter().map(|target| format!("\n  {:<9} {}", target.name, target.shows));
    std::iter::once(USAGE.to_owned()).chain(targets).collect()
}

fn run(name: &str, paths: &[&str]) -> Result<()> {
    let Some(target) = target(name) else { bail!("there is no target {name}\n\n{}", usage()) };
    let mut count = 0;
    for path in paths {
        for input in corpus::load(Path::new(path)).with_context(|| format!("cannot read {path}"))? {
            // Said before, since a panic ends the program.
            eprintln!("{name} {} ({} bytes)", input.name, input.bytes.len());
            (target.run)(&input.bytes);
            count += 1;
        }
    }
    if count == 0 {
        bail!("there is no input in {}", paths.join(", "));
    }
    eprintln!("{count} inputs, no promise broken");
    Ok(())
}

fn write_seeds(name: &str, dir: &Path) -> Result<()> {
    let Some(target) = target(name) else { bail!("there is no target {name}\n\n{}", usage()) };
    fs::create_dir_all(dir).with_context(|| format!("cannot create {}", dir.display()))?;
    for (index, seed) in seeds(target).iter().enumerate() {
        let path = dir.join(format!("seed-{index:04}"));
        fs::write(&path, seed).with_context(|| format!("cannot write {}", path.display()))?;
    }
    Ok(())
}
