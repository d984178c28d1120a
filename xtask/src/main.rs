//! `cargo xtask <word>`: everything one does with this repository besides editing it.
//!
//! Each word is a module of its own; this file only picks one.

fn main() -> anyhow::Result<()> {
    eprintln!("usage: cargo xtask <word>");
    Ok(())
}
