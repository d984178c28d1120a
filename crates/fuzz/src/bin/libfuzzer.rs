//! The program that `cargo xtask fuzz` builds: libFuzzer over one target.
//!
//! The target's name comes in `RIPARIAN_FUZZ_TARGET`, since the arguments are libFuzzer's. Without a target it prints a
//! line per target: name, longest input, what it shows.

#![no_main]

use std::{process, sync::OnceLock};

use riparian_fuzz::{TARGETS, Target, target};

static TARGET: OnceLock<&'static Target> = OnceLock::new();

fn choose() {
    let name = std::env::var("RIPARIAN_FUZZ_TARGET").unwrap_or_default();
    let Some(target) = target(&name) else {
        #[expect(clippy::print_stdout, reason = "what the program was asked for")]
        for Target { name, input_bytes_max, shows, .. } in TARGETS {
            println!("{name}\t{input_bytes_max}\t{shows}");
        }
        process::exit(if name.is_empty() { 0 } else { 2 });
    };
    TARGET.get_or_init(|| target);
}

libfuzzer_sys::fuzz_target!(init: choose(), |data: &[u8]| {
    if let Some(target) = TARGET.get() {
        (target.run)(data);
    }
});
