//! What the author of a backend or of a host tests with.
