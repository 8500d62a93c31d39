//! One file for each engine: the policy in its words, and how it is asked.

pub(crate) mod casbin;
pub(crate) mod cedar;
pub(crate) mod nervekit;
