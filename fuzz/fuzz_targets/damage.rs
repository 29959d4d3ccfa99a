//! A store whose files were damaged at rest.
#![no_main]

libfuzzer_sys::fuzz_target!(
    // redb may panic on damage, which the crate turns into an error. The fuzzer's own hook would end
    // the process there; without it, only a panic that comes out of the crate does.
    init: std::panic::set_hook(Box::new(|info| eprintln!("{info}"))),
    |data: &[u8]| txinbox::testkit::fuzz::damage(data)
);

/// The memory of a database that was found damaged is given up on purpose, since closing it could end
/// the process; the leak checker asks here whether to look.
#[unsafe(no_mangle)]
extern "C" fn __lsan_is_turned_off() -> i32 {
    1
}
