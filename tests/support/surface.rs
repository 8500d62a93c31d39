//! What a crate shows to others, read from its sources.

#![allow(dead_code, reason = "each test uses a part")]

use std::collections::BTreeMap;
use std::fs;
use std::path::{Path, PathBuf};

use syn::punctuated::Punctuated;
use syn::{Attribute, Expr, ExprLit, Item, ItemTrait, Lit, Meta, TraitItem, UseTree, Visibility};

/// The crates that are published, from the lowest.
pub(crate) const CRATES: [&str; 7] = [
    "nervekit-types",
    "nervekit-permissions",
    "nervekit-harness",
    "nervekit-tools",
    "nervekit-conversation-core",
    "nervekit-store",
    "nervekit",
];

pub(crate) fn root() -> &'static Path {
    Path::new(env!("CARGO_MANIFEST_DIR"))
}

pub(crate) fn folder(krate: &str) -> PathBuf {
    if krate == "nervekit" { root().to_owned() } else { root().join("crates").join(krate) }
}

pub(crate) fn read(file: &Path) -> String {
    fs::read_to_string(file).unwrap_or_else(|error| panic!("{}: {error}", file.display()))
}

/// A public name.
#[derive(Clone, Debug)]
pub(crate) struct Name {
    /// Without the crate, such as `catalog::bash`.
    pub(crate) path: String,
    /// `struct`, `fn`, `trait` and so on; `item` when a macro makes it, `use` when it is another crate's.
    pub(crate) kind: &'static str,
    /// For `use`: what it is there.
    pub(crate) of: Option<String>,
    /// The conditions under which it exists.
    pub(crate) cfgs: Vec<String>,
    /// Whether its documentation holds a block of code.
    pub(crate) example: bool,
    /// Whether its documentation is not shown.
    pub(crate) hidden: bool,
    /// Where it is written.
    pub(crate) file: PathBuf,
}

impl Name {
    /// The line of the snapshot.
    pub(crate) fn line(&self) -> String {
        let of = self.of.as_ref().map_or_else(String::new, |of| format!(" = {of}"));
        let cfgs = self.cfgs.join(" and ");
        let when = if cfgs.is_empty() { String::new() } else { format!("  if {cfgs}") };
        format!("{} {}{of}{when}", self.kind, self.path)
    }
}

/// A module with what is written in it, its uses and its children.
pub(crate) struct Module {
    file: PathBuf,
    /// The conditions under which it exists.
    cfgs: Vec<String>,
    pub(crate) items: Vec<Item>,
    children: BTreeMap<String, Self>,
}

impl Module {
    /// The root module of a crate.
    pub(crate) fn of(krate: &str) -> Self {
        let source = folder(krate).join("src");
        Self::load(&source.join("lib.rs"), &source, Vec::new())
    }

    fn load(file: &Path, folder: &Path, cfgs: Vec<String>) -> Self {
        let parsed =
            syn::parse_file(&read(file)).unwrap_or_else(|error| panic!("{}: {error}", file.display()));
        Self::new(parsed.items, file, folder, cfgs)
    }

    fn new(items: Vec<Item>, file: &Path, folder: &Path, outer: Vec<String>) -> Self {
        let (mut kept, mut children) = (Vec::new(), BTreeMap::new());
        for item in items {
            if let Item::Mod(module) = &item {
                let cfgs: Vec<String> = outer.iter().cloned().chain(cfgs(&module.attrs)).collect();
                if cfgs.iter().any(|cfg| cfg == "test") {
                    continue;
                }
                let name = module.ident.to_string();
                let below = folder.join(&name);
                let child = match &module.content {
                    Some((_, items)) => Self::new(items.clone(), file, &below, cfgs),
                    None => Self::load(&below.with_extension("rs"), &below, cfgs),
                };
                children.entry(name).or_insert(child);
            }
            kept.push(item);
        }
        Self { file: file.to_owned(), cfgs: outer, items: kept, children }
    }

    /// Every module of the crate.
    pub(crate) fn all(&self) -> Vec<&Self> {
        let mut all = vec![self];
        all.extend(self.children.values().flat_map(Self::all));
        all
    }

    fn child(&self, path: &[String]) -> Option<&Self> {
        path.iter().try_fold(self, |module, name| module.children.get(name))
    }
}

/// The public names of a crate, in their order of writing.
pub(crate) fn names(krate: &str) -> Vec<Name> {
    let root = Module::of(krate);
    let mut names: BTreeMap<String, Name> = BTreeMap::new();
    let mut add = |name: Name| {
        names.entry(name.path.clone()).or_insert(name);
    };
    collect(&root, &[], &[], &mut add);
    for module in root.all() {
        for item in &module.items {
            if let Item::Macro(item) = item
                && let Some(ident) = &item.ident
                && item.attrs.iter().any(|attribute| attribute.path().is_ident("macro_export"))
            {
                add(named(ident.to_string(), "macro", &item.attrs, &module.cfgs, &module.file));
            }
        }
    }
    names.into_values().collect()
}

fn collect(root: &Module, place: &[String], outer: &[String], add: &mut impl FnMut(Name)) {
    let module = root.child(place).expect("the module was loaded");
    let path = |name: &str| place.iter().map(String::as_str).chain([name]).collect::<Vec<_>>().join("::");
    for item in &module.items {
        let (visibility, attrs) = match item {
            Item::Use(item) => (&item.vis, &*item.attrs),
            Item::Mod(item) => (&item.vis, &*item.attrs),
            other => match parts(other) {
                Some((_, _, visibility, attrs)) => (visibility, attrs),
                None => continue,
            },
        };
        if !matches!(visibility, Visibility::Public(_)) {
            continue;
        }
        let conditions: Vec<String> = outer.iter().cloned().chain(cfgs(attrs)).collect();
        match item {
            Item::Use(item) => {
                for (source, shown) in leaves(&item.tree) {
                    for mut name in find(root, place, &source, &shown) {
                        name.path = path(if shown == "*" { &name.path } else { &shown });
                        name.cfgs = conditions.iter().cloned().chain(name.cfgs).collect();
                        name.cfgs.dedup();
                        add(name);
                    }
                }
            }
            Item::Mod(item) => {
                let name = item.ident.to_string();
                add(named(path(&name), "mod", attrs, outer, &module.file));
                let inner: Vec<String> = place.iter().cloned().chain([name]).collect();
                collect(root, &inner, &conditions, add);
            }
            other => {
                if let Some((kind, ident, _, attrs)) = parts(other) {
                    add(named(path(&ident), kind, attrs, outer, &module.file));
                }
            }
        }
    }
}

/// What a `use` in this place names.
fn find(root: &Module, place: &[String], source: &[String], shown: &str) -> Vec<Name> {
    let (mut at, mut rest) = (place.to_vec(), source);
    match rest.first().map(String::as_str) {
        Some("crate") => (at, rest) = (Vec::new(), &rest[1..]),
        Some("self") => rest = &rest[1..],
        Some("super") => {
            while rest.first().is_some_and(|name| name == "super") {
                at.pop();
                rest = &rest[1..];
            }
        }
        _ => {}
    }
    let (name, modules) = rest.split_last().expect("a use names something");
    at.extend(modules.iter().cloned());
    let Some(module) = root.child(&at) else {
        return vec![foreign(source, shown)];
    };
    if modules.is_empty() && at == place && name == shown && source.len() == 1 {
        return vec![foreign(source, shown)];
    }
    if name == "*" {
        let mut names = Vec::new();
        collect(root, &at, &[], &mut |mut name: Name| {
            name.path = name.path.rsplit("::").next().map(str::to_owned).unwrap_or_default();
            names.push(name);
        });
        return names;
    }
    for item in &module.items {
        if let Some((kind, ident, _, attrs)) = parts(item)
            && ident == *name
        {
            return vec![named(ident, kind, attrs, &[], &module.file)];
        }
    }
    for item in &module.items {
        if let Item::Use(item) = item
            && let Some((source, _)) = leaves(&item.tree).into_iter().find(|(_, shown)| shown == name)
        {
            return find(root, &at, &source, name);
        }
    }
    let made = module.items.iter().any(|item| match item {
        Item::Macro(item) => words(&item.mac.tokens.to_string()).any(|word| word == name),
        _ => false,
    });
    if !made {
        return vec![foreign(source, shown)];
    }
    // Documentation that a macro writes is in the macro.
    let example = module.items.iter().any(|item| match item {
        Item::Macro(item) => item.mac.tokens.to_string().contains("```"),
        _ => false,
    });
    vec![Name { example, ..named(name.clone(), "item", &[], &[], &module.file) }]
}

fn foreign(source: &[String], shown: &str) -> Name {
    let mut name = named(shown.to_owned(), "use", &[], &[], Path::new(""));
    name.of = Some(source.join("::"));
    name
}

fn named(path: String, kind: &'static str, attrs: &[Attribute], outer: &[String], file: &Path) -> Name {
    Name {
        path,
        kind,
        of: None,
        cfgs: outer.iter().cloned().chain(cfgs(attrs)).collect(),
        example: documentation(attrs).contains("```"),
        hidden: attrs.iter().any(|attribute| match &attribute.meta {
            Meta::List(list) => list.path.is_ident("doc") && list.tokens.to_string() == "hidden",
            _ => false,
        }),
        file: file.to_owned(),
    }
}

fn parts(item: &Item) -> Option<(&'static str, String, &Visibility, &[Attribute])> {
    Some(match item {
        Item::Struct(item) => ("struct", item.ident.to_string(), &item.vis, &item.attrs),
        Item::Enum(item) => ("enum", item.ident.to_string(), &item.vis, &item.attrs),
        Item::Union(item) => ("union", item.ident.to_string(), &item.vis, &item.attrs),
        Item::Trait(item) => ("trait", item.ident.to_string(), &item.vis, &item.attrs),
        Item::Type(item) => ("type", item.ident.to_string(), &item.vis, &item.attrs),
        Item::Fn(item) => ("fn", item.sig.ident.to_string(), &item.vis, &item.attrs),
        Item::Const(item) => ("const", item.ident.to_string(), &item.vis, &item.attrs),
        Item::Static(item) => ("static", item.ident.to_string(), &item.vis, &item.attrs),
        _ => return None,
    })
}

/// The names a `use` brings: where they come from, and as what.
fn leaves(tree: &UseTree) -> Vec<(Vec<String>, String)> {
    fn below(tree: &UseTree, mut path: Vec<String>, found: &mut Vec<(Vec<String>, String)>) {
        match tree {
            UseTree::Path(tree) => {
                path.push(tree.ident.to_string());
                below(&tree.tree, path, found);
            }
            UseTree::Name(tree) => {
                if tree.ident != "self" {
                    path.push(tree.ident.to_string());
                }
                let shown = path.last().cloned().unwrap_or_default();
                found.push((path, shown));
            }
            UseTree::Rename(tree) => {
                path.push(tree.ident.to_string());
                found.push((path, tree.rename.to_string()));
            }
            UseTree::Glob(_) => {
                path.push("*".to_owned());
                found.push((path, "*".to_owned()));
            }
            UseTree::Group(group) => {
                for tree in &group.items {
                    below(tree, path.clone(), found);
                }
            }
        }
    }
    let mut found = Vec::new();
    below(tree, Vec::new(), &mut found);
    found
}

fn cfgs(attrs: &[Attribute]) -> Vec<String> {
    let conditions = attrs.iter().filter_map(|attribute| match &attribute.meta {
        Meta::List(list) if list.path.is_ident("cfg") => Some(list.tokens.to_string().replace(' ', "")),
        _ => None,
    });
    conditions.collect()
}

pub(crate) fn documentation(attrs: &[Attribute]) -> String {
    let lines = attrs.iter().filter_map(|attribute| match &attribute.meta {
        Meta::NameValue(meta) if meta.path.is_ident("doc") => match &meta.value {
            Expr::Lit(ExprLit { lit: Lit::Str(text), .. }) => Some(text.value() + "\n"),
            _ => None,
        },
        _ => None,
    });
    lines.collect()
}

fn words(text: &str) -> impl Iterator<Item = &str> {
    text.split(|character: char| !character.is_alphanumeric() && character != '_')
}

/// The trait with this name, of a crate.
pub(crate) fn find_trait(root: &Module, name: &str) -> Option<ItemTrait> {
    root.all().into_iter().flat_map(|module| &module.items).find_map(|item| match item {
        Item::Trait(item) if item.ident == name => Some(item.clone()),
        _ => None,
    })
}

pub(crate) fn method_count(item: &ItemTrait) -> usize {
    item.items.iter().filter(|item| matches!(item, TraitItem::Fn(_))).count()
}

/// The bounds of a trait, such as `Debug + Send + Sync + 'static`.
pub(crate) fn bounds(item: &ItemTrait) -> Vec<String> {
    let bounds: &Punctuated<_, _> = &item.supertraits;
    let names = bounds.iter().map(|bound| match bound {
        syn::TypeParamBound::Trait(bound) => {
            bound.path.segments.last().map(|segment| segment.ident.to_string()).unwrap_or_default()
        }
        syn::TypeParamBound::Lifetime(lifetime) => format!("'{}", lifetime.ident),
        _ => "?".to_owned(),
    });
    names.collect()
}
