//! Version 1 of the stored records. Once a release has written it, nothing here changes: a change is a version 2.
//!
//! Each form names the type whose values it writes and reads (`serde(remote)`), and lists every field and variant
//! of it: nothing is copied to write a record, and a type that gains a field does not compile until somebody
//! decides what its stored form is. When that is a new version, the forms here become types of their own, which
//! are converted after they are read.
//!
//! The messages of the harness, the evidence and rules of the permission engine, what tools return, process
//! references, ids and principals are stored in the JSON that their crates promise to keep.

pub(super) mod call;
pub(super) mod conversation;
pub(super) mod event;
pub(super) mod input;
pub(super) mod interaction;

use std::marker::PhantomData;

use nervekit_types::Timestamp;
use serde::de::{SeqAccess, Visitor};
use serde::{Deserialize, Deserializer, Serialize, Serializer};

/// How values of another type are stored.
pub(super) trait Form {
    /// The type.
    type Of;

    /// Writes a value.
    fn write<S: Serializer>(value: &Self::Of, serializer: S) -> Result<S::Ok, S::Error>;

    /// Reads a value.
    fn read<'de, D: Deserializer<'de>>(deserializer: D) -> Result<Self::Of, D::Error>;
}

/// Makes forms of types that `serde(remote)` was derived for.
macro_rules! forms {
    ($($form:ident = $type:ty;)*) => {$(
        impl $crate::store::record::v1::Form for $form {
            type Of = $type;

            fn write<S: serde::Serializer>(value: &Self::Of, serializer: S) -> Result<S::Ok, S::Error> {
                Self::serialize(value, serializer)
            }

            fn read<'de, D: serde::Deserializer<'de>>(deserializer: D) -> Result<Self::Of, D::Error> {
                Self::deserialize(deserializer)
            }
        }
    )*};
}
use forms;

/// A value of a form, to be handed to serde.
struct Written<'a, F: Form>(&'a F::Of);

impl<F: Form> Serialize for Written<'_, F> {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        F::write(self.0, serializer)
    }
}

/// A value of a form, as serde hands it out.
struct Read<F: Form>(F::Of);

impl<'de, F: Form> Deserialize<'de> for Read<F> {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        F::read(deserializer).map(Self)
    }
}

/// A value that may be absent. Absent fields are left out.
pub(super) struct Maybe<F>(PhantomData<F>);

impl<F: Form> Maybe<F> {
    #[expect(clippy::ref_option, reason = "serde hands over a reference to the field")]
    fn serialize<S: Serializer>(value: &Option<F::Of>, serializer: S) -> Result<S::Ok, S::Error> {
        value.as_ref().map(Written::<F>).serialize(serializer)
    }

    fn deserialize<'de, D: Deserializer<'de>>(deserializer: D) -> Result<Option<F::Of>, D::Error> {
        Ok(Option::<Read<F>>::deserialize(deserializer)?.map(|read| read.0))
    }
}

/// A list of values.
pub(super) struct Each<F>(PhantomData<F>);

impl<F: Form> Each<F> {
    fn serialize<S: Serializer>(values: &[F::Of], serializer: S) -> Result<S::Ok, S::Error> {
        serializer.collect_seq(values.iter().map(Written::<F>))
    }

    fn deserialize<'de, D: Deserializer<'de>>(deserializer: D) -> Result<Vec<F::Of>, D::Error> {
        struct List<F>(PhantomData<F>);

        impl<'de, F: Form> Visitor<'de> for List<F> {
            type Value = Vec<F::Of>;

            fn expecting(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
                f.write_str("a list")
            }

            fn visit_seq<A: SeqAccess<'de>>(self, mut list: A) -> Result<Self::Value, A::Error> {
                let mut values = Vec::new();
                while let Some(Read(value)) = list.next_element::<Read<F>>()? {
                    values.push(value);
                }
                Ok(values)
            }
        }

        deserializer.deserialize_seq(List::<F>(PhantomData))
    }
}

impl<F: Form> Form for Each<F> {
    type Of = Vec<F::Of>;

    fn write<S: Serializer>(value: &Self::Of, serializer: S) -> Result<S::Ok, S::Error> {
        Self::serialize(value, serializer)
    }

    fn read<'de, D: Deserializer<'de>>(deserializer: D) -> Result<Self::Of, D::Error> {
        Self::deserialize(deserializer)
    }
}

/// A moment, as milliseconds since 1970.
pub(super) struct Millis;

impl Millis {
    #[expect(clippy::trivially_copy_pass_by_ref, reason = "serde hands over a reference to the field")]
    fn serialize<S: Serializer>(moment: &Timestamp, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.serialize_i64(moment.as_millis())
    }

    fn deserialize<'de, D: Deserializer<'de>>(deserializer: D) -> Result<Timestamp, D::Error> {
        i64::deserialize(deserializer).map(Timestamp::from_millis)
    }
}

forms! {
    Millis = Timestamp;
}
