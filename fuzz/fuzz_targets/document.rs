#![no_main]

#[path = "../../crates/nervekit-permissions/tests/support/fuzz.rs"]
#[expect(dead_code, reason = "each target uses one of the functions")]
mod fuzz;

libfuzzer_sys::fuzz_target!(|bytes: &[u8]| fuzz::document(bytes));
