//! What differs between two versions of a document whose type is not known here.

use std::collections::BTreeMap;

use serde_json::{Map, Value};

use super::status::SurfaceStatus;

/// What names an item of a list, the first that all items have.
const NAMES: [&str; 3] = ["id", "name", "label"];

impl SurfaceStatus {
    /// Compares two versions, entry by entry.
    pub(super) fn compare(&mut self, last: Option<&[u8]>, now: Option<&[u8]>) {
        let read = |bytes: Option<&[u8]>| -> Map<String, Value> {
            bytes.and_then(|bytes| serde_json::from_slice(bytes).ok()).unwrap_or_default()
        };
        let (last, now) = (read(last), read(now));
        let (last, now) = (entries(&last), entries(&now));
        for (entry, value) in &now {
            match last.get(entry) {
                None => self.added.push(crate::display(entry)),
                Some(known) if known != value => self.changed.push(crate::display(entry)),
                Some(_) => {}
            }
        }
        self.removed =
            last.keys().filter(|entry| !now.contains_key(*entry)).map(|e| crate::display(e)).collect();
    }
}

/// The entries of a document: the keys, and where a key holds a map or a list of named items, those.
fn entries(document: &Map<String, Value>) -> BTreeMap<String, &Value> {
    let mut entries = BTreeMap::new();
    for (key, value) in document {
        match parts(value) {
            // An empty group is an entry, too: its coming and going is seen.
            Some(parts) if !parts.is_empty() => {
                entries.extend(parts.into_iter().map(|(name, part)| (format!("{key}.{name}"), part)));
            }
            _ => {
                entries.insert(key.clone(), value);
            }
        }
    }
    entries
}

fn parts(value: &Value) -> Option<BTreeMap<&str, &Value>> {
    match value {
        Value::Object(map) => Some(map.iter().map(|(name, part)| (&**name, part)).collect()),
        Value::Array(items) => NAMES.iter().find_map(|name| {
            let named: Option<BTreeMap<&str, &Value>> =
                items.iter().map(|item| Some((item.get(name)?.as_str()?, item))).collect();
            // Two of one name cannot be told apart.
            named.filter(|named| named.len() == items.len())
        }),
        _ => None,
    }
}
