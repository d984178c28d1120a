//! What holds for every message, checked for random ones.

/// Defines a test per property over the messages that `each_message!` lists.
macro_rules! properties {
    ($messages:path) => {
        use $messages as messages;

        /// Messages made per version.
        const ROUNDS: u64 = 24;

        macro_rules! round_trip {
            ($module:ident, $name:ident, $ownership:ident) => {
                for version in messages::$name::VERSIONS.iter() {
                    for seed in 0..ROUNDS {
                        let message = arbitrary::$module::arbitrary(&mut luck::Luck::new(seed), version);
                        let mut bytes = Vec::new();
                        message.encode(&mut bytes, version).unwrap();
                        let mut reader = Reader::new(&bytes);
                        let decoded = messages::$name::decode(&mut reader, version).unwrap();
                        assert_eq!(reader.finish(), Ok(()));
                        assert_eq!(decoded, message, "version {version}, seed {seed}");
                        let mut again = Vec::new();
                        decoded.encode(&mut again, version).unwrap();
                        assert_eq!(again, bytes, "{} version {version}, seed {seed}", stringify!($name));
                        own!($ownership, decoded, message);
                    }
                }
            };
        }

        macro_rules! own {
            (borrows, $decoded:ident, $message:ident) => {
                assert_eq!($decoded.into_owned(), $message);
            };
            (owns, $decoded:ident, $message:ident) => {};
        }

        #[test]
        fn every_message_round_trips_in_every_version() {
            each_message!(round_trip);
        }

        macro_rules! cut {
            ($module:ident, $name:ident, $ownership:ident) => {
                for version in messages::$name::VERSIONS.iter() {
                    for seed in 0..3 {
                        let message = arbitrary::$module::arbitrary(&mut luck::Luck::new(seed), version);
                        let mut bytes = Vec::new();
                        message.encode(&mut bytes, version).unwrap();
                        for length in 0..bytes.len() {
                            let cut = messages::$name::decode(&mut Reader::new(&bytes[..length]), version);
                            assert!(cut.is_err(), "{} version {version}, {length} bytes", stringify!($name));
                        }
                    }
                }
            };
        }

        #[test]
        fn truncation_at_every_byte_is_an_error() {
            each_message!(cut);
        }

        macro_rules! unknown_version {
            ($module:ident, $name:ident, $ownership:ident) => {
                let versions = messages::$name::VERSIONS;
                for version in [i16::MIN, versions.min - 1, versions.max + 1, i16::MAX] {
                    assert!(messages::$name::decode(&mut Reader::new(&[0; 64]), version).is_err());
                    assert!(messages::$name::default().encode(&mut Vec::new(), version).is_err());
                }
            };
        }

        #[test]
        fn unknown_versions_are_errors() {
            each_message!(unknown_version);
        }

        macro_rules! broken {
            ($module:ident, $name:ident, $ownership:ident) => {
                for version in messages::$name::VERSIONS.iter() {
                    for seed in 0..ROUNDS {
                        let mut luck = luck::Luck::new(seed);
                        let message = arbitrary::$module::arbitrary(&mut luck, version);
                        let mut bytes = Vec::new();
                        message.encode(&mut bytes, version).unwrap();
                        break_bytes(luck.prng(), &mut bytes);
                        // A small message, so that the budget is what stops a large count.
                        let budget = luck.prng().below(4096) as usize;
                        let peak = memory::peak_of(|| {
                            let mut reader = Reader::with_budget(&bytes, budget);
                            let _ = messages::$name::decode(&mut reader, version);
                        });
                        assert!(
                            peak <= budget,
                            "{} version {version}, seed {seed}: {peak} bytes of {budget}",
                            stringify!($name)
                        );
                    }
                }
            };
        }

        /// Overwrites a few places, or everything, with bytes that look like large lengths or like nothing.
        fn break_bytes(prng: &mut riparian_types::Prng, bytes: &mut [u8]) {
            let everything = prng.chance(4);
            for byte in bytes.iter_mut() {
                if everything || prng.chance(16) {
                    *byte = match prng.below(4) {
                        0 => 0xff,
                        1 => 0x7f,
                        _ => prng.next_u64() as u8,
                    };
                }
            }
        }

        #[test]
        fn broken_bytes_never_panic_and_stay_within_the_budget() {
            each_message!(broken);
        }
    };
}

pub(crate) use properties;
