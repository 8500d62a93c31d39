//! outsider
