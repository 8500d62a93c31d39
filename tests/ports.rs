//! Every port can be replaced from outside, and everything that waits can be spawned.

#![expect(
    clippy::unwrap_used,
    clippy::expect_used,
    clippy::panic,
    clippy::indexing_slicing,
    reason = "tests"
)]

#[path = "support/surface.rs"]
mod surface;

use std::collections::{BTreeMap, BTreeSet};
use std::future::Future;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use nervekit::conversation::ports::{
    AssetStore, Backend, Clock, Conversations, Credentials, Documents, Entropy, Harness, Hook, IdSource,
    Model, ModelResolver, PermissionEngine, Process, Processes, Profiles, SearchBackend, TokenEstimator,
    ToolExecutor, ToolManifest, Transport, TrustStore, TurnResources,
};
use nervekit::conversation::{
    Conversation, ConversationCore, CoreBuilder, PolicyHandle, Project, Updates, interactions,
};
use nervekit::harness::{HttpResponse, ModelStream};
use nervekit::permissions::{FileDocuments, PolicyDocuments, Skills, SurfaceDocuments};
use nervekit::store::{RedbBackend, RedbOptions};
use nervekit::tools::{
    ByteStream, CallAssets, Cancellation, Capture, MutationLocks, OutputReceiver, OutputSender, Progress,
    ToolContext, ToolOutput,
};
use nervekit::{Host, HostBuilder};
use surface::Module;
use syn::{ImplItem, Item, Visibility};

macro_rules! ports {
    ($($port:ident)*) => {
        const PORTS: &[&str] = &[$(stringify!($port)),*];
        /// Each can be named behind a pointer, and what is behind `Arc` and `Box` is a port again.
        const _: () = {
            $(const _: fn(&dyn $port) = |_| ();)*
            $(const _: fn() = || {
                fn is_a_port<P: $port + Send + Sync + 'static + ?Sized>() {}
                is_a_port::<dyn $port>();
                is_a_port::<Arc<dyn $port>>();
                is_a_port::<Box<dyn $port>>();
                is_a_port::<Arc<Box<dyn $port>>>();
            };)*
        };
    };
}

ports! {
    AssetStore Backend Clock Conversations Credentials Documents Entropy Harness Hook IdSource Model ModelResolver
    PermissionEngine Process Processes Profiles SearchBackend TokenEstimator ToolExecutor ToolManifest Transport
    TrustStore TurnResources
}

fn names_of(ports: &[&str]) -> BTreeSet<String> {
    ports.iter().map(|name| (*name).to_owned()).collect()
}

/// The names that `nervekit_conversation_core::ports` holds.
fn module() -> BTreeSet<String> {
    let names = surface::names("nervekit-conversation-core");
    names.iter().filter_map(|name| name.path.strip_prefix("ports::")).map(str::to_owned).collect()
}

/// The rows of the table in the core's README: port → crate, methods.
fn table() -> BTreeMap<String, (String, usize)> {
    let readme = surface::read(&surface::folder("nervekit-conversation-core").join("README.md"));
    let section = readme.split("\n## Ports\n").nth(1).expect("the README has a section `Ports`");
    let section = section.split("\n## ").next().unwrap();
    let rows = section.lines().filter(|line| line.starts_with("| [`"));
    rows.map(|row| {
        let cells: Vec<&str> = row.trim_matches('|').split('|').map(str::trim).collect();
        let port = cells[0].split('`').nth(1).unwrap().to_owned();
        (port, (cells[1].trim_matches('`').to_owned(), cells[2].parse().expect("a number of methods")))
    })
    .collect()
}

/// The traits that a source file implements, without what the standard library asks for.
fn implemented(file: &Path) -> BTreeSet<String> {
    let items = syn::parse_file(&surface::read(file)).unwrap().items;
    let traits = items.iter().filter_map(|item| match item {
        Item::Impl(item) => item.trait_.as_ref(),
        _ => None,
    });
    let names = traits.map(|(_, path, _)| path.segments.last().unwrap().ident.to_string());
    names.filter(|name| name != "Default").collect()
}

/// What the outsider implements, by the text of its sources.
fn outsider() -> BTreeSet<String> {
    files(&surface::root().join("outsider/src")).iter().flat_map(|file| implemented(file)).collect()
}

fn files(folder: &Path) -> Vec<PathBuf> {
    let mut found = Vec::new();
    for entry in std::fs::read_dir(folder).unwrap() {
        let path = entry.unwrap().path();
        if path.is_dir() {
            found.extend(files(&path));
        } else if path.extension().is_some_and(|extension| extension == "rs") {
            found.push(path);
        }
    }
    found
}

#[test]
fn the_module_the_table_and_the_outsider_name_the_same_ports() {
    let ports = names_of(PORTS);
    assert_eq!(module(), ports, "`nervekit_conversation_core::ports` against the list here");
    assert_eq!(table().into_keys().collect::<BTreeSet<_>>(), ports, "the table against the list here");
    assert_eq!(outsider(), ports, "`outsider` against the list here");
}

/// The example shows the ports that a host replaces first; with the outsider none is left out.
#[test]
fn the_example_and_the_outsider_together_replace_every_port() {
    let file = surface::root().join("examples/own_ports.rs");
    let farm = implemented(&file.with_file_name("own_ports/farm.rs"));
    let (example, ports) = (&implemented(&file) | &farm, names_of(PORTS));
    let first = ["Documents", "Model", "Process", "Processes", "Profiles", "SearchBackend", "TurnResources"];
    assert_eq!(example, names_of(&first));
    // What it says that it shows.
    let source = surface::read(&file);
    let header: String = source.lines().take_while(|line| line.starts_with("//!")).collect();
    let named = header.split('`').skip(1).step_by(2).filter(|name| name.starts_with(char::is_uppercase));
    assert_eq!(named.map(str::to_owned).collect::<BTreeSet<_>>(), example);
    assert_eq!(example.union(&outsider()).cloned().collect::<BTreeSet<_>>(), ports);
}

#[test]
fn a_port_is_narrow_and_says_its_contract() {
    let table = table();
    let mut seen = BTreeSet::new();
    for krate in surface::CRATES {
        let root = Module::of(krate);
        for port in PORTS {
            let Some(port) = surface::find_trait(&root, port) else { continue };
            let name = port.ident.to_string();
            let (documented_in, documented) = &table[&name];
            let methods = surface::method_count(&port);
            assert_eq!(documented_in, krate, "{name}");
            assert_eq!(*documented, methods, "methods of {name}");
            assert!(methods <= 7, "{name} has {methods} methods");
            assert_eq!(surface::bounds(&port), ["Debug", "Send", "Sync", "'static"], "{name}");
            assert!(port.generics.params.is_empty(), "{name} has parameters");
            let documentation = surface::documentation(&port.attrs);
            assert!(documentation.contains("**Contract.**"), "{name} does not say its contract");
            assert!(
                documentation.contains(&format!("{name} for ")),
                "the documentation of {name} shows no implementation"
            );
            assert!(seen.insert(name), "{} is defined twice", port.ident);
        }
    }
    assert_eq!(seen, names_of(PORTS));
}

#[test]
fn no_future_of_a_port_stays_on_its_thread() {
    for krate in surface::CRATES {
        for file in files(&surface::folder(krate).join("src")) {
            assert!(!surface::read(&file).contains("async_trait(?Send)"), "{}", file.display());
        }
    }
}

/// Compiles only if the future can be spawned.
fn spawnable<A, F: Future + Send + 'static>(_: impl FnOnce(A) -> F) {}

/// Stands for any argument, in code that is compiled and never run.
fn any<T>() -> T {
    unreachable!("this is compiled, not run")
}

macro_rules! spawnable {
    ($($name:literal = $call:expr;)*) => {
        const SPAWNABLE: &[&str] = &[$($name),*];
        const _: fn() = || { $(spawnable($call);)* };
    };
}

spawnable! {
    "ByteStream::collect" = |it: ByteStream| async move { it.collect().await };
    "ByteStream::next" = |mut it: ByteStream| async move { it.next().await };
    "CallAssets::read" = |it: CallAssets| async move { it.read(any(), any()).await };
    "CallAssets::write" = |it: CallAssets| async move { it.write(any(), "log", any::<ByteStream>()).await };
    "Cancellation::cancelled" = |it: Cancellation| async move { it.cancelled().await };
    "Capture::finished" = |it: Capture| async move { it.finished().await };
    "Capture::keep" = |it: Capture| async move { it.keep().await };
    "Conversation::answer" = |it: Conversation| async move { it.answer(&any(), "yes").await };
    "Conversation::approve" = |it: Conversation| async move { it.approve(&any()).await };
    "Conversation::ask" = |it: Conversation| async move { it.ask("hi").await };
    "Conversation::cancel_input" = |it: Conversation| async move { it.cancel_input(any()).await };
    "Conversation::command" = |it: Conversation| async move { it.command(any(), any()).await };
    "Conversation::configure" = |it: Conversation| async move { it.configure(any()).await };
    "Conversation::continue_processing" = |it: Conversation| async move { it.continue_processing().await };
    "Conversation::deny" = |it: Conversation| async move { it.deny(&any(), None).await };
    "Conversation::events_since" = |it: Conversation| async move { it.events_since(any(), any()).await };
    "Conversation::finished" = |it: Conversation| async move { it.finished().await };
    "Conversation::follow" = |it: Conversation| async move { it.follow(any()).await };
    "Conversation::history" = |it: Conversation| async move { it.history(any(), None).await };
    "Conversation::pause" = |it: Conversation| async move { it.pause().await };
    "Conversation::resolve" = |it: Conversation| async move { it.resolve(any(), any()).await };
    "Conversation::resume" = |it: Conversation| async move { it.resume().await };
    "Conversation::rules" = |it: Conversation| async move { it.rules().await };
    "Conversation::set_title" = |it: Conversation| async move { it.set_title(None).await };
    "Conversation::snapshot" = |it: Conversation| async move { it.snapshot().await };
    "Conversation::stop" = |it: Conversation| async move { it.stop().await };
    "Conversation::stop_execution" = |it: Conversation| async move { it.stop_execution(any()).await };
    "Conversation::submit" = |it: Conversation| async move { it.submit("hi").await };
    "Conversation::tool_call" = |it: Conversation| async move { it.tool_call(any()).await };
    "Conversation::updates" = |it: Conversation| async move { it.updates().await };
    "ConversationCore::recover" = |it: ConversationCore| async move { it.recover().await };
    "ConversationCore::shutdown" = |it: ConversationCore| async move { it.shutdown(any()).await };
    "CoreBuilder::open" = |it: CoreBuilder| it.open();
    "CoreBuilder::open_with_report" = |it: CoreBuilder| it.open_with_report();
    "FileDocuments::adopt" = |it: FileDocuments| async move { it.adopt().await };
    "Host::ask" = |it: Host| async move { it.ask("hi").await };
    "Host::conversations" = |it: Host| async move { it.conversations(any()).await };
    "Host::create" = |it: Host| async move { it.create(None).await };
    "Host::follow" = |it: Host| async move { it.follow(any()).await };
    "Host::interactions" = |it: Host| async move { it.interactions().await };
    "Host::project_at" = |it: Host| async move { it.project_at(".").await };
    "Host::shutdown" = |it: Host| async move { it.shutdown(any()).await };
    "Host::start" = |it: Host| async move { it.start("hi").await };
    "HostBuilder::open" = |it: HostBuilder| it.open();
    "MutationLocks::acquire" = |it: MutationLocks| async move { it.acquire([&any()]).await };
    "OutputReceiver::next" = |mut it: OutputReceiver| async move { it.next().await };
    "OutputSender::send" = |it: OutputSender| async move { it.send(any()).await };
    "PolicyDocuments::accept_absence" = |it: PolicyDocuments| async move { it.accept_absence(&any()).await };
    "PolicyDocuments::problems" = |it: PolicyDocuments| async move { it.problems(&any()).await };
    "PolicyDocuments::reject" = |it: PolicyDocuments| async move { it.reject(&any(), any()).await };
    "PolicyDocuments::revoke" = |it: PolicyDocuments| async move { it.revoke(&any(), "id").await };
    "PolicyDocuments::rules" = |it: PolicyDocuments| async move { it.rules(&any()).await };
    "PolicyDocuments::save" = |it: PolicyDocuments| async move { it.save(&*any::<Arc<dyn PermissionEngine>>(), &any(), &any()).await };
    "PolicyDocuments::status" = |it: PolicyDocuments| async move { it.status(&any()).await };
    "PolicyDocuments::trust" = |it: PolicyDocuments| async move { it.trust(&any(), any()).await };
    "PolicyHandle::accept_absence" = |it: PolicyHandle| async move { it.accept_absence().await };
    "PolicyHandle::reject" = |it: PolicyHandle| async move { it.reject(any()).await };
    "PolicyHandle::revoke" = |it: PolicyHandle| async move { it.revoke("id").await };
    "PolicyHandle::status" = |it: PolicyHandle| async move { it.status().await };
    "PolicyHandle::trust" = |it: PolicyHandle| async move { it.trust(any()).await };
    "Progress::beyond" = |it: Progress| async move { it.beyond(any()).await };
    "Project::at" = |it: Arc<dyn Conversations>| Project::at(it, ".");
    "Project::converse" = |it: Project| async move { it.converse(any()).await };
    "Project::create" = |it: Arc<dyn Conversations>| Project::create(it, any());
    "Project::create_conversation" = |it: Project| async move { it.create_conversation(any()).await };
    "Project::follow" = |it: Project| async move { it.follow(any()).await };
    "RedbBackend::open" = |it: PathBuf| RedbBackend::open(it);
    "RedbOptions::open" = |it: RedbOptions| it.open();
    "Skills::layers" = |it: Skills| async move { it.layers(&[any()]).await };
    "Skills::list" = |it: Skills| async move { it.list(&any()).await };
    "Skills::read" = |it: Skills| async move { it.read(&any(), "release").await };
    "SurfaceDocuments::accept_absence" = |it: SurfaceDocuments| async move { it.accept_absence(&any(), &any()).await };
    "SurfaceDocuments::layers" = |it: SurfaceDocuments| async move { it.layers::<String>(&any(), &[any()]).await };
    "SurfaceDocuments::reject" = |it: SurfaceDocuments| async move { it.reject(&any(), &any(), any()).await };
    "SurfaceDocuments::status" = |it: SurfaceDocuments| async move { it.status(&any(), &any()).await };
    "SurfaceDocuments::trust" = |it: SurfaceDocuments| async move { it.trust(&any(), &any(), any()).await };
    "ToolContext::blocking" = |it: ToolContext| async move { it.blocking(|_| 1).await };
    "ToolContext::cancelled" = |it: ToolContext| async move { it.cancelled().await };
    "ToolOutput::settle" = |it: ToolOutput| async move { it.settle(any(), &any::<CallAssets>()).await };
    "Updates::next" = |mut it: Updates| async move { it.next().await };
    "interactions" = |it: Arc<dyn Conversations>| async move { interactions(&*it).await };
    "answer" = |it: Conversation| async move { nervekit::terminal::answer(&it, &any()).await };
    "resolve" = |it: Conversation| async move { nervekit::terminal::resolve(&it, &any(), any()).await };
    "review" = |it: PolicyHandle| async move { nervekit::terminal::review(&it).await };
}

/// Every stream can be moved to another thread and kept there.
const _: fn() = || {
    fn movable<S: Send + 'static>() {}
    movable::<Updates>();
    movable::<ByteStream>();
    movable::<ModelStream>();
    movable::<HttpResponse>();
};

/// Every public async method and function, of what is built without the feature `testing`.
fn waits() -> BTreeSet<String> {
    let mut found = BTreeSet::new();
    for krate in surface::CRATES {
        let shown: BTreeMap<String, bool> = surface::names(krate)
            .into_iter()
            .map(|name| {
                let testing = name.cfgs.iter().any(|cfg| cfg.contains("testing"));
                (name.path.rsplit("::").next().unwrap().to_owned(), testing)
            })
            .collect();
        let public = |name: &str| shown.get(name) == Some(&false);
        for file in files(&surface::folder(krate).join("src")) {
            // Shown by the feature `testing`.
            if file
                .components()
                .any(|part| ["store", "testing", "tests"].iter().any(|name| part.as_os_str() == *name))
            {
                continue;
            }
            for item in syn::parse_file(&surface::read(&file)).unwrap().items {
                match item {
                    Item::Fn(item) if item.sig.asyncness.is_some() && public(&item.sig.ident.to_string()) => {
                        if matches!(item.vis, Visibility::Public(_)) {
                            found.insert(item.sig.ident.to_string());
                        }
                    }
                    Item::Impl(item) if item.trait_.is_none() => {
                        let syn::Type::Path(of) = &*item.self_ty else { continue };
                        let of = of.path.segments.last().unwrap().ident.to_string();
                        for method in &item.items {
                            if let ImplItem::Fn(method) = method
                                && method.sig.asyncness.is_some()
                                && matches!(method.vis, Visibility::Public(_))
                                && public(&of)
                            {
                                found.insert(format!("{of}::{}", method.sig.ident));
                            }
                        }
                    }
                    _ => {}
                }
            }
        }
    }
    found
}

#[test]
fn every_public_future_can_be_spawned() {
    let (covered, waits) = (names_of(SPAWNABLE), waits());
    let missing: Vec<_> = waits.difference(&covered).cloned().collect();
    assert!(missing.is_empty(), "add to `spawnable!`: {missing:?}");
    let gone: Vec<_> = covered.difference(&waits).cloned().collect();
    assert!(gone.is_empty(), "remove from `spawnable!`: {gone:?}");
}
