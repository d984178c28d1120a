//! Just enough of the zip format to read the JSON files of a jar.
//!
//! ```text
//! file*  (local header 30 bytes, name, extra, content)
//! central directory: per file 46 bytes, name, extra, comment
//! end record: 22 bytes, comment
//! ```

use std::io::Read as _;

use anyhow::{Context as _, Result, bail, ensure};
use flate2::read::DeflateDecoder;

const END_BYTES: usize = 22;
const ENTRY_BYTES: usize = 46;
const LOCAL_BYTES: usize = 30;
/// No definition is nearly as large.
const FILE_BYTES_MAX: u64 = 1 << 20;

/// Name and content of every file that ends in `.json`.
pub(super) fn json_files(jar: &[u8]) -> Result<Vec<(String, String)>> {
    let last = jar.len().checked_sub(END_BYTES).context("too short for a jar")?;
    let end = (0..=last).rev().find(|&at| jar[at..].starts_with(b"PK\x05\x06")).context("no end record")?;
    let count = u16_at(jar, end + 10)?;
    let mut at = u32_at(jar, end + 16)?;
    let mut files = Vec::new();
    for _ in 0..count {
        ensure!(jar.get(at..).is_some_and(|rest| rest.starts_with(b"PK\x01\x02")), "broken central directory");
        let name_length = u16_at(jar, at + 28)?;
        let name = jar.get(at + ENTRY_BYTES..at + ENTRY_BYTES + name_length).context("name is cut")?;
        if name.ends_with(b".json") {
            let name = String::from_utf8_lossy(name).into_owned();
            let content = content(jar, at).with_context(|| name.clone())?;
            files.push((name, content));
        }
        at += ENTRY_BYTES + name_length + u16_at(jar, at + 30)? + u16_at(jar, at + 32)?;
    }
    Ok(files)
}

/// The content of the file whose central directory entry is at `entry`.
fn content(jar: &[u8], entry: usize) -> Result<String> {
    let method = u16_at(jar, entry + 10)?;
    let size = u32_at(jar, entry + 20)?;
    let local = u32_at(jar, entry + 42)?;
    let start = local + LOCAL_BYTES + u16_at(jar, local + 26)? + u16_at(jar, local + 28)?;
    let packed = jar.get(start..start + size).context("content is cut")?;
    let mut text = String::new();
    match method {
        0 => packed.take(FILE_BYTES_MAX).read_to_string(&mut text)?,
        8 => DeflateDecoder::new(packed).take(FILE_BYTES_MAX).read_to_string(&mut text)?,
        _ => bail!("compression method {method} is unknown"),
    };
    Ok(text)
}

fn u16_at(bytes: &[u8], at: usize) -> Result<usize> {
    let field = bytes.get(at..at + 2).context("jar is cut")?;
    Ok(usize::from(u16::from_le_bytes([field[0], field[1]])))
}

fn u32_at(bytes: &[u8], at: usize) -> Result<usize> {
    let field = bytes.get(at..at + 4).context("jar is cut")?;
    Ok(u32::from_le_bytes([field[0], field[1], field[2], field[3]]) as usize)
}

#[cfg(test)]
mod tests {
    use super::json_files;

    #[test]
    fn what_is_not_a_jar_is_an_error() {
        assert!(json_files(b"").is_err());
        assert!(json_files(&[0; 100]).is_err());
        let mut cut = b"PK\x05\x06".to_vec();
        cut.resize(22, 1);
        assert!(json_files(&cut).is_err());
    }

    #[test]
    fn stored_files_are_found() {
        let mut jar = b"PK\x03\x04".to_vec();
        jar.resize(26, 0);
        jar.extend([6, 0, 0, 0]);
        jar.extend(b"a.json{}");
        let directory = jar.len() as u8;
        jar.extend(b"PK\x01\x02");
        jar.resize(usize::from(directory) + 20, 0);
        jar.extend([2, 0, 0, 0, 2, 0, 0, 0, 6, 0]);
        jar.resize(usize::from(directory) + 46, 0);
        jar.extend(b"a.json");
        jar.extend(b"PK\x05\x06\0\0\0\0\x01\0\x01\0\0\0\0\0");
        jar.extend([directory, 0, 0, 0, 0, 0]);
        assert_eq!(json_files(&jar).unwrap(), [("a.json".to_owned(), "{}".to_owned())]);
    }
}
