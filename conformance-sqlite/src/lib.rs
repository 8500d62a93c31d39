//! conformance-sqlite
