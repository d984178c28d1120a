//! The codecs of record batches, and Java's framing of snappy.
//!
//! ```text
//! snappy as Java writes it (xerial):
//! 82 53 4e 41 50 50 59 00   version i32 = 1   compatible i32 = 1   { length i32, raw snappy block }*
//! ```
//!
//! gzip, lz4 and zstd are their ordinary frames. Raw snappy, without the framing, is accepted as well: some clients
//! send it.
//!
//! **Invariant:** decompression stops with an error before it makes more bytes than it was allowed.

use std::io::{Read, Write};

use flate2::{read::MultiGzDecoder, write::GzEncoder};

const LZ4_MAGIC: [u8; 4] = 0x184d_2204u32.to_le_bytes();
const XERIAL_MAGIC: [u8; 8] = [0x82, b'S', b'N', b'A', b'P', b'P', b'Y', 0];
const XERIAL_HEADER_BYTES: usize = 16;
const XERIAL_BLOCK_BYTES: usize = 32 * 1024;

/// How the records of a batch are compressed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Compression {
    /// Not at all.
    None,
    /// gzip.
    Gzip,
    /// snappy in Java's framing.
    Snappy,
    /// lz4 frames with independent blocks.
    Lz4,
    /// zstd (KIP-110).
    Zstd,
}

/// Compressed records that can't be decompressed.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum CompressionError {
    /// The bytes are not what the codec writes.
    #[error("{0:?} data is damaged")]
    Damaged(Compression),
    /// Decompressing would make more than this many bytes.
    #[error("{compression:?} data is larger than {bytes_max} bytes when decompressed")]
    TooLarge {
        /// The codec.
        compression: Compression,
        /// The bound.
        bytes_max: usize,
    },
    /// No codec has this number.
    #[error("there is no compression codec {number}")]
    Unknown {
        /// The number in the batch's attributes.
        number: i16,
    },
}

impl Compression {
    /// Every codec, in the order of their numbers.
    pub const ALL: [Self; 5] = [Self::None, Self::Gzip, Self::Snappy, Self::Lz4, Self::Zstd];

    /// The codec with this number in a batch's attributes.
    pub fn from_number(number: i16) -> Option<Self> {
        Self::ALL.get(usize::try_from(number).ok()?).copied()
    }

    /// The codec's number in a batch's attributes.
    pub fn number(self) -> i16 {
        match self {
            Self::None => 0,
            Self::Gzip => 1,
            Self::Snappy => 2,
            Self::Lz4 => 3,
            Self::Zstd => 4,
        }
    }

    /// Appends `bytes`, compressed, to `out`.
    pub fn compress(self, bytes: &[u8], out: &mut Vec<u8>) {
        const MEMORY: &str = "writing to memory does not fail";
        match self {
            Self::None => out.extend_from_slice(bytes),
            Self::Gzip => {
                let mut encoder = GzEncoder::new(out, flate2::Compression::default());
                encoder.write_all(bytes).expect(MEMORY);
                encoder.finish().expect(MEMORY);
            }
            Self::Snappy => xerial_compress(bytes, out),
            Self::Lz4 => {
                let mut encoder = lz4_flex::frame::FrameEncoder::new(out);
                encoder.write_all(bytes).expect(MEMORY);
                encoder.finish().expect(MEMORY);
            }
            Self::Zstd => {
                let mut encoder =
                    zstd::stream::write::Encoder::new(out, zstd::DEFAULT_COMPRESSION_LEVEL).expect("the level exists");
                encoder.write_all(bytes).expect(MEMORY);
                encoder.finish().expect(MEMORY);
            }
        }
    }

    /// What `bytes` are when decompressed, if that is at most `bytes_max` bytes.
    pub fn decompress(self, bytes: &[u8], bytes_max: usize) -> Result<Vec<u8>, CompressionError> {
        match self {
            Self::None if bytes.len() <= bytes_max => Ok(bytes.to_vec()),
            Self::None => Err(CompressionError::TooLarge { compression: self, bytes_max }),
            Self::Gzip => self.read_bounded(MultiGzDecoder::new(bytes), bytes_max),
            Self::Snappy => snappy_decompress(bytes, bytes_max),
            Self::Lz4 if bytes.starts_with(&LZ4_MAGIC) => {
                self.read_bounded(lz4_flex::frame::FrameDecoder::new(bytes), bytes_max)
            }
            // The decoder knows frames of old tools too, for which it takes 16 MiB however small they are.
            Self::Lz4 => Err(CompressionError::Damaged(self)),
            Self::Zstd => {
                let decoder = zstd::stream::read::Decoder::new(bytes).map_err(|_| CompressionError::Damaged(self))?;
                self.read_bounded(decoder, bytes_max)
            }
        }
    }

    fn read_bounded(self, decoder: impl Read, bytes_max: usize) -> Result<Vec<u8>, CompressionError> {
        let mut out = Vec::new();
        let more_than_allowed = u64::try_from(bytes_max).unwrap_or(u64::MAX).saturating_add(1);
        decoder.take(more_than_allowed).read_to_end(&mut out).map_err(|_| CompressionError::Damaged(self))?;
        if out.len() > bytes_max {
            return Err(CompressionError::TooLarge { compression: self, bytes_max });
        }
        Ok(out)
    }
}

fn xerial_compress(bytes: &[u8], out: &mut Vec<u8>) {
    out.extend_from_slice(&XERIAL_MAGIC);
    out.extend_from_slice(&1i32.to_be_bytes());
    out.extend_from_slice(&1i32.to_be_bytes());
    let mut encoder = snap::raw::Encoder::new();
    for block in bytes.chunks(XERIAL_BLOCK_BYTES) {
        let start = out.len();
        out.resize(start + 4 + snap::raw::max_compress_len(block.len()), 0);
        let length = encoder.compress(block, &mut out[start + 4..]).expect("the buffer has the largest size possible");
        out[start..start + 4].copy_from_slice(&u32::try_from(length).unwrap_or(u32::MAX).to_be_bytes());
        out.truncate(start + 4 + length);
    }
}

fn snappy_decompress(bytes: &[u8], bytes_max: usize) -> Result<Vec<u8>, CompressionError> {
    let mut out = Vec::new();
    if !bytes.starts_with(&XERIAL_MAGIC) {
        snappy_block(bytes, bytes_max, &mut out)?;
        return Ok(out);
    }
    const DAMAGED: CompressionError = CompressionError::Damaged(Compression::Snappy);
    let mut rest = bytes.get(XERIAL_HEADER_BYTES..).ok_or(DAMAGED)?;
    while !rest.is_empty() {
        let (length, after) = rest.split_first_chunk::<4>().ok_or(DAMAGED)?;
        let length = usize::try_from(u32::from_be_bytes(*length)).map_err(|_| DAMAGED)?;
        let (block, after) = after.split_at_checked(length).ok_or(DAMAGED)?;
        snappy_block(block, bytes_max, &mut out)?;
        rest = after;
    }
    Ok(out)
}

fn snappy_block(block: &[u8], bytes_max: usize, out: &mut Vec<u8>) -> Result<(), CompressionError> {
    const DAMAGED: CompressionError = CompressionError::Damaged(Compression::Snappy);
    // A block says how large it becomes; no block can become more than a small multiple of 64 bytes per 3, so a lie
    // is found before memory is taken for it.
    let length = snap::raw::decompress_len(block).map_err(|_| DAMAGED)?;
    if length > bytes_max.saturating_sub(out.len()) {
        return Err(CompressionError::TooLarge { compression: Compression::Snappy, bytes_max });
    }
    if length / 64 > block.len() {
        return Err(DAMAGED);
    }
    let start = out.len();
    out.resize(start + length, 0);
    let written = snap::raw::Decoder::new().decompress(block, &mut out[start..]).map_err(|_| DAMAGED)?;
    out.truncate(start + written);
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    fn text() -> Vec<u8> {
        (0..100_000u32).flat_map(|n| format!("{} ", n % 977).into_bytes()).collect()
    }

    #[test]
    fn what_goes_in_comes_out() {
        for compression in Compression::ALL {
            for bytes in [Vec::new(), b"x".to_vec(), text()] {
                let mut packed = vec![7];
                compression.compress(&bytes, &mut packed);
                assert_eq!(compression.decompress(&packed[1..], bytes.len()), Ok(bytes), "{compression:?}");
            }
        }
    }

    #[test]
    fn a_bomb_is_stopped_at_the_bound() {
        for compression in Compression::ALL {
            let mut packed = Vec::new();
            compression.compress(&vec![0; 10_000_000], &mut packed);
            let expected = CompressionError::TooLarge { compression, bytes_max: 999_999 };
            assert_eq!(compression.decompress(&packed, 999_999), Err(expected));
        }
    }

    #[test]
    fn lz4_frames_of_old_tools_are_refused() {
        let legacy = [0x02, 0x21, 0x4c, 0x18, 2, 0, 0, 0, 0x10, b'x'];
        let damaged = CompressionError::Damaged(Compression::Lz4);
        assert_eq!(Compression::Lz4.decompress(&legacy, 100), Err(damaged));
        assert_eq!(Compression::Lz4.decompress(&[], 100), Err(damaged));
    }

    #[test]
    fn raw_snappy_is_accepted() {
        let packed = snap::raw::Encoder::new().compress_vec(&text()).unwrap();
        assert_eq!(Compression::Snappy.decompress(&packed, 1 << 20), Ok(text()));
    }

    #[test]
    fn damage_is_an_error_not_a_panic() {
        for compression in &Compression::ALL[1..] {
            let mut packed = Vec::new();
            compression.compress(&text()[..5000], &mut packed);
            for end in 0..packed.len() - 1 {
                if let Ok(bytes) = compression.decompress(&packed[..end], 1 << 20) {
                    assert!(text().starts_with(&bytes), "{compression:?} cut at {end}");
                }
            }
            for position in 0..packed.len() {
                let mut damaged = packed.clone();
                damaged[position] ^= 0x55;
                let _ = compression.decompress(&damaged, 1 << 20);
            }
        }
    }

    #[test]
    fn snappy_that_lies_about_its_size_takes_no_memory() {
        let lie = [0xff, 0xff, 0xff, 0x7f, 0];
        assert_eq!(
            Compression::Snappy.decompress(&lie, usize::MAX),
            Err(CompressionError::Damaged(Compression::Snappy))
        );
    }
}
