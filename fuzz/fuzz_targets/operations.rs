//! A store used, stopped, failed and cut off at any moment.
#![no_main]

libfuzzer_sys::fuzz_target!(|data: &[u8]| txinbox::testkit::fuzz::operations(data));
