//! Cases from the field, by their ids (`docs/field-cases.md`), about what stands in batches.

#![expect(clippy::unwrap_used, reason = "a test fails where it unwraps")]

use std::io::Write as _;

use riparian_records::{
    BatchBuilder, BatchHeader, BatchOptions, Compression, HEADER_BYTES, ProduceRules, TimestampType, check_produced,
};
use riparian_types::WallMillis;

const NOW: WallMillis = WallMillis(1_700_000_000_000);
const RULES: ProduceRules = ProduceRules {
    batch_bytes_max: 10_000_000,
    key_required: false,
    timestamp_type: TimestampType::CreateTime,
    timestamp_before_max_ms: i64::MAX,
    timestamp_after_max_ms: 3_600_000,
    zstd_allowed: true,
};

/// The records of a batch without compression: many like each other, then one that hardly compresses.
fn records(count: usize) -> (BatchHeader, Vec<u8>) {
    let mut builder = BatchBuilder::new(BatchOptions::PLAIN);
    for n in 0..count {
        builder.push(WallMillis(NOW.0 + n as i64), Some(&n.to_be_bytes()), Some(&[b'v'; 100]));
    }
    let mut noise = 1u64;
    let noise = std::iter::repeat_with(|| {
        noise = noise.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
        (noise >> 56) as u8
    });
    let noise: Vec<u8> = noise.take(70_000).collect();
    builder.push(WallMillis(NOW.0 + count as i64), None, Some(&noise));
    let bytes = builder.build();
    (BatchHeader::parse(&bytes).unwrap(), bytes[HEADER_BYTES..].to_vec())
}

/// A batch with a body that some client's library has compressed.
fn batch(mut header: BatchHeader, compression: Compression, body: &[u8]) -> Vec<u8> {
    header.attributes |= compression.number();
    header.length = (HEADER_BYTES + body.len() - 12) as i32;
    header.crc = crc32c::crc32c_append(crc32c::crc32c(&header.to_bytes()[21..]), body);
    [&header.to_bytes()[..], body].concat()
}

fn xerial(plain: &[u8], block_bytes: usize) -> Vec<u8> {
    let mut out = [0x82, b'S', b'N', b'A', b'P', b'P', b'Y', 0, 0, 0, 0, 1, 0, 0, 0, 1].to_vec();
    for block in plain.chunks(block_bytes) {
        let block = snap::raw::Encoder::new().compress_vec(block).unwrap();
        out.extend((block.len() as u32).to_be_bytes());
        out.extend(block);
    }
    out
}

fn lz4(plain: &[u8], info: lz4_flex::frame::FrameInfo) -> Vec<u8> {
    let mut encoder = lz4_flex::frame::FrameEncoder::with_frame_info(info, Vec::new());
    encoder.write_all(plain).unwrap();
    encoder.finish().unwrap()
}

fn gzip(plain: &[u8], level: u32) -> Vec<u8> {
    let mut encoder = flate2::write::GzEncoder::new(Vec::new(), flate2::Compression::new(level));
    encoder.write_all(plain).unwrap();
    encoder.finish().unwrap()
}

fn zstd_without_size(plain: &[u8], checksum: bool) -> Vec<u8> {
    let mut encoder = zstd::stream::write::Encoder::new(Vec::new(), 1).unwrap();
    encoder.include_contentsize(false).unwrap();
    encoder.include_checksum(checksum).unwrap();
    encoder.write_all(plain).unwrap();
    encoder.finish().unwrap()
}

/// The same bytes as the libraries of different clients compress them.
fn forms(plain: &[u8]) -> Vec<(&'static str, Compression, Vec<u8>)> {
    use lz4_flex::frame::{BlockMode, BlockSize, FrameInfo};

    let lz4_of = |info: FrameInfo| lz4(plain, info);
    let size = plain.len() as u64;
    let (first, second) = plain.split_at(plain.len() / 3);
    vec![
        ("snappy in Java's frames of 32 KiB", Compression::Snappy, xerial(plain, 32 * 1024)),
        ("snappy in Java's frames of 1 MiB", Compression::Snappy, xerial(plain, 1 << 20)),
        ("snappy in small frames", Compression::Snappy, xerial(plain, 777)),
        ("snappy without frames", Compression::Snappy, snap::raw::Encoder::new().compress_vec(plain).unwrap()),
        ("lz4", Compression::Lz4, lz4_of(FrameInfo::new())),
        ("lz4 with content checksum", Compression::Lz4, lz4_of(FrameInfo::new().content_checksum(true))),
        ("lz4 with block checksums", Compression::Lz4, lz4_of(FrameInfo::new().block_checksums(true))),
        ("lz4 with content size", Compression::Lz4, lz4_of(FrameInfo::new().content_size(Some(size)))),
        (
            "lz4 in linked small blocks",
            Compression::Lz4,
            lz4_of(FrameInfo::new().block_mode(BlockMode::Linked).block_size(BlockSize::Max64KB)),
        ),
        ("zstd", Compression::Zstd, zstd::encode_all(plain, 3).unwrap()),
        ("zstd with size", Compression::Zstd, zstd::bulk::compress(plain, 3).unwrap()),
        ("zstd without size", Compression::Zstd, zstd_without_size(plain, false)),
        ("zstd without size, with checksum", Compression::Zstd, zstd_without_size(plain, true)),
        (
            "zstd in two frames",
            Compression::Zstd,
            [zstd::bulk::compress(first, 3).unwrap(), zstd_without_size(second, true)].concat(),
        ),
        ("gzip", Compression::Gzip, gzip(plain, 6)),
        ("gzip, stored", Compression::Gzip, gzip(plain, 0)),
        ("gzip in two members", Compression::Gzip, [gzip(first, 9), gzip(second, 1)].concat()),
        ("gzip with an empty member", Compression::Gzip, [gzip(plain, 6), gzip(&[], 6)].concat()),
    ]
}

#[test]
fn p_08_every_librarys_form_of_a_codec_is_read_and_kept() {
    for count in [0, 1, 2000] {
        let (header, plain) = records(count);
        for (form, compression, body) in forms(&plain) {
            let bytes = batch(header, compression, &body);
            let produced = check_produced(&bytes, &RULES, NOW).unwrap_or_else(|error| panic!("{form}: {error}"));
            assert_eq!(produced.bytes(), bytes, "{form}: what is stored is what came");
            assert_eq!(produced.max_timestamp(), WallMillis(NOW.0 + count as i64), "{form}");
            let records = produced.batch().records().unwrap();
            let timestamps: Vec<_> = records.iter().map(|record| record.unwrap().timestamp.0 - NOW.0).collect();
            assert_eq!(timestamps, (0..=count as i64).collect::<Vec<_>>(), "{form}");
        }
    }
}

#[test]
fn p_08_damage_to_any_form_is_refused() {
    let (header, plain) = records(3);
    for (form, compression, body) in forms(&plain) {
        // Cut within what is compressed; lz4 and zstd may end in a checksum of their own, gzip always does.
        for cut in [0, 1, 3, 17, body.len() / 2] {
            let bytes = batch(header, compression, &body[..cut]);
            assert!(check_produced(&bytes, &RULES, NOW).is_err(), "{form} cut to {cut} bytes");
        }
        let wrong = if compression == Compression::Zstd { Compression::Gzip } else { Compression::Zstd };
        assert!(check_produced(&batch(header, wrong, &body), &RULES, NOW).is_err(), "{form} named {wrong:?}");
    }
}
