mod generate;

pub(super) use generate::{AnyId, Dice};
