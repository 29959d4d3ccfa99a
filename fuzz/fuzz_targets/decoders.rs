//! Any bytes, to every decoder of a durable record.
#![no_main]

libfuzzer_sys::fuzz_target!(|data: &[u8]| txinbox::testkit::fuzz::decoders(data));
