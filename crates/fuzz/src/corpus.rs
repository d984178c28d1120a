//! Corpora as they are committed.
//!
//! A directory per target. In it `merged.hex` has many inputs, one per line in hexadecimal: thousands of tiny files would
//! be a burden for everybody. Every other file is one input as it is, named after the fault that it once showed.

use std::{
    fs, io,
    path::{Path, PathBuf},
};

/// One input and where it comes from.
#[derive(Clone, Debug)]
pub struct Stored {
    /// The file, and of `merged.hex` the line.
    pub name: String,
    /// What a target is given.
    pub bytes: Vec<u8>,
}

/// The inputs that are committed for a target.
///
/// # Errors
/// They can't be read.
pub fn committed(target: &str) -> io::Result<Vec<Stored>> {
    load(&Path::new(env!("CARGO_MANIFEST_DIR")).join("corpus").join(target))
}

/// The inputs of a file, or of all files in a directory.
///
/// # Errors
/// They can't be read, or what should be hexadecimal is not.
pub fn load(path: &Path) -> io::Result<Vec<Stored>> {
    let mut files: Vec<PathBuf> = if path.is_dir() {
        fs::read_dir(path)?.map(|entry| entry.map(|entry| entry.path())).collect::<io::Result<_>>()?
    } else {
        vec![path.to_owned()]
    };
    files.sort();
    let mut stored = Vec::new();
    for file in files {
        if file.extension().is_none_or(|extension| extension != "hex") {
            stored.push(Stored { name: file.display().to_string(), bytes: fs::read(&file)? });
            continue;
        }
        for (index, line) in fs::read_to_string(&file)?.lines().enumerate() {
            let name = format!("{}:{}", file.display(), index + 1);
            let bytes = from_hex(line).ok_or_else(|| io::Error::other(format!("{name} is not hexadecimal")))?;
            stored.push(Stored { name, bytes });
        }
    }
    Ok(stored)
}

pub(crate) fn from_hex(text: &str) -> Option<Vec<u8>> {
    let (pairs, []) = text.as_bytes().as_chunks::<2>() else { return None };
    pairs.iter().map(|pair| u8::from_str_radix(str::from_utf8(pair).ok()?, 16).ok()).collect()
}

#[cfg(test)]
mod tests {
    use super::from_hex;

    #[test]
    fn hexadecimal_is_read() {
        assert_eq!(from_hex("00ff7F"), Some(vec![0, 0xff, 0x7f]));
        assert_eq!(from_hex(""), Some(Vec::new()));
        assert_eq!((from_hex("0"), from_hex("0x"), from_hex("ää")), (None, None, None));
    }
}
