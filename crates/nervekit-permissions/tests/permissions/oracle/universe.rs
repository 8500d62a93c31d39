//! A small world: folders, links, tools, URLs and commands, with what is true of each, written by hand.

use std::path::{Component, Path, PathBuf};

use nervekit_permissions::*;
use nervekit_types::Digest;
use serde_json::{Value, json};

use crate::random::Random;

/// What is true of a URL, by reading it, not by parsing it.
pub(crate) struct UrlFact {
    pub(crate) typed: &'static str,
    pub(crate) canonical: &'static str,
    pub(crate) scheme: &'static str,
    pub(crate) host: &'static str,
    pub(crate) port: u16,
    pub(crate) path: &'static str,
    pub(crate) query: bool,
    pub(crate) ambiguous: bool,
}

#[rustfmt::skip]
pub(crate) const URLS: [UrlFact; 16] = [
    UrlFact { typed: "https://docs.test/a/b", canonical: "https://docs.test/a/b", scheme: "https", host: "docs.test", port: 443, path: "a/b", query: false, ambiguous: false },
    UrlFact { typed: "HTTPS://Docs.TEST.:443/a", canonical: "https://docs.test/a", scheme: "https", host: "docs.test", port: 443, path: "a", query: false, ambiguous: false },
    UrlFact { typed: "https://docs.test/a?q=1", canonical: "https://docs.test/a?q=1", scheme: "https", host: "docs.test", port: 443, path: "a", query: true, ambiguous: false },
    UrlFact { typed: "https://docs.test", canonical: "https://docs.test/", scheme: "https", host: "docs.test", port: 443, path: "", query: false, ambiguous: false },
    UrlFact { typed: "http://docs.test/a", canonical: "http://docs.test/a", scheme: "http", host: "docs.test", port: 80, path: "a", query: false, ambiguous: false },
    UrlFact { typed: "https://docs.test:8443/a", canonical: "https://docs.test:8443/a", scheme: "https", host: "docs.test", port: 8443, path: "a", query: false, ambiguous: false },
    UrlFact { typed: "https://x.docs.test/a", canonical: "https://x.docs.test/a", scheme: "https", host: "x.docs.test", port: 443, path: "a", query: false, ambiguous: false },
    UrlFact { typed: "https://xdocs.test/a", canonical: "https://xdocs.test/a", scheme: "https", host: "xdocs.test", port: 443, path: "a", query: false, ambiguous: false },
    UrlFact { typed: "https://docs.test.evil.test/a", canonical: "https://docs.test.evil.test/a", scheme: "https", host: "docs.test.evil.test", port: 443, path: "a", query: false, ambiguous: false },
    UrlFact { typed: "https://evil.test/docs.test", canonical: "https://evil.test/docs.test", scheme: "https", host: "evil.test", port: 443, path: "docs.test", query: false, ambiguous: false },
    UrlFact { typed: "https://docs.test/a/../b", canonical: "https://docs.test/b", scheme: "https", host: "docs.test", port: 443, path: "b", query: false, ambiguous: true },
    UrlFact { typed: "https://docs.test/a%2Fb", canonical: "https://docs.test/a%2Fb", scheme: "https", host: "docs.test", port: 443, path: "a%2Fb", query: false, ambiguous: true },
    UrlFact { typed: "https://docs.test/a%252fb", canonical: "https://docs.test/a%252fb", scheme: "https", host: "docs.test", port: 443, path: "a%252fb", query: false, ambiguous: true },
    UrlFact { typed: "https://docs.test/a#b", canonical: "https://docs.test/a", scheme: "https", host: "docs.test", port: 443, path: "a", query: false, ambiguous: false },
    UrlFact { typed: "http://127.1:8080/a", canonical: "http://127.0.0.1:8080/a", scheme: "http", host: "127.0.0.1", port: 8080, path: "a", query: false, ambiguous: false },
    UrlFact { typed: "https://b\u{fc}cher.test/", canonical: "https://xn--bcher-kva.test/", scheme: "https", host: "xn--bcher-kva.test", port: 443, path: "", query: false, ambiguous: false },
];

/// What is true of a command.
pub(crate) struct CommandFact {
    pub(crate) text: &'static str,
    /// Its words, when it is one simple command.
    pub(crate) simple: Option<&'static [&'static str]>,
    /// The commands in it that a rule of this test may name.
    pub(crate) inner: &'static [&'static [&'static str]],
}

#[rustfmt::skip]
pub(crate) const COMMANDS: [CommandFact; 16] = [
    CommandFact { text: "cargo test", simple: Some(&["cargo", "test"]), inner: &[&["cargo", "test"]] },
    CommandFact { text: "cargo test -p a", simple: Some(&["cargo", "test", "-p", "a"]), inner: &[&["cargo", "test", "-p", "a"]] },
    CommandFact { text: "cargo  'test'", simple: Some(&["cargo", "test"]), inner: &[&["cargo", "test"]] },
    CommandFact { text: "cargotest", simple: Some(&["cargotest"]), inner: &[&["cargotest"]] },
    CommandFact { text: "cargo test; rm -rf d", simple: None, inner: &[&["cargo", "test"], &["rm", "-rf", "d"]] },
    CommandFact { text: "cargo test && git push", simple: None, inner: &[&["cargo", "test"], &["git", "push"]] },
    CommandFact { text: "cargo test\nrm x", simple: None, inner: &[&["cargo", "test"], &["rm", "x"]] },
    CommandFact { text: "nohup rm -rf d", simple: Some(&["nohup", "rm", "-rf", "d"]), inner: &[&["nohup", "rm", "-rf", "d"], &["rm", "-rf", "d"]] },
    CommandFact { text: "bash -c 'git push'", simple: Some(&["bash", "-c", "git push"]), inner: &[&["bash", "-c", "git push"], &["git", "push"]] },
    CommandFact { text: "CI=1 git push", simple: None, inner: &[&["git", "push"]] },
    CommandFact { text: "git push > f", simple: None, inner: &[&["git", "push"]] },
    CommandFact { text: "cargo test $(rm d)", simple: None, inner: &[&["cargo", "test", "\u{fffd}"], &["rm", "d"]] },
    CommandFact { text: "cargo test '$(rm d)'", simple: Some(&["cargo", "test", "$(rm d)"]), inner: &[&["cargo", "test", "$(rm d)"]] },
    CommandFact { text: "/bin/rm -rf d", simple: Some(&["/bin/rm", "-rf", "d"]), inner: &[&["/bin/rm", "-rf", "d"], &["rm", "-rf", "d"]] },
    CommandFact { text: "cargo test > f", simple: None, inner: &[&["cargo", "test"]] },
    CommandFact { text: "", simple: None, inner: &[] },
];

/// What is true of a target.
#[derive(Clone)]
pub(crate) struct Fact {
    pub(crate) argument: Option<String>,
    pub(crate) what: What,
}

#[derive(Clone)]
pub(crate) enum What {
    Path(Place),
    Url(Access, &'static UrlFact),
    Agent(String),
    WholeTool,
}

#[derive(Clone)]
pub(crate) struct Place {
    pub(crate) access: Access,
    pub(crate) tree: bool,
    /// As typed, without dots.
    pub(crate) lexical: PathBuf,
    pub(crate) resolved: PathBuf,
    pub(crate) content: Option<Digest>,
}

impl Fact {
    pub(crate) fn access(&self) -> Option<Access> {
        match &self.what {
            What::Path(place) => Some(place.access),
            What::Url(access, _) => Some(*access),
            What::Agent(_) | What::WholeTool => None,
        }
    }
}

/// A call with what is true of it, and what the engine is given.
pub(crate) struct Call {
    pub(crate) descriptor: ToolDescriptor,
    pub(crate) arguments: Value,
    pub(crate) risk: Risk,
    pub(crate) origin: CallOrigin,
    pub(crate) command: Option<&'static CommandFact>,
    pub(crate) targets: Vec<Fact>,
    pub(crate) working_directory: PathBuf,
}

impl Call {
    pub(crate) fn proposed(&self, rule_set: &str) -> ProposedCall {
        let arguments = EffectiveArguments::new(self.arguments.clone()).unwrap();
        ProposedCall::new(self.descriptor.clone(), arguments, self.origin, rule_set)
            .working_directory(&self.working_directory)
    }
}

/// A root with its folder as registered and without links.
pub(crate) struct KnownRoot {
    pub(crate) root: Root,
    pub(crate) typed: PathBuf,
    pub(crate) canonical: PathBuf,
}

pub(crate) struct Universe {
    _folder: tempfile::TempDir,
    pub(crate) base: PathBuf,
    pub(crate) roots: Vec<KnownRoot>,
    places: Vec<String>,
    /// Files that are a control file under another name.
    pub(crate) aliased: Vec<PathBuf>,
}

const FILES: [&str; 22] = [
    "project/a/b/c",
    "project/a/x",
    "project/a/.env",
    "project/b",
    "project/c/x",
    "project/.env",
    "project/.nerve/x",
    "project/.git/config",
    "project/AGENTS.md",
    "project/vendor/a/x",
    "project/caf\u{e9}",
    "outside/a/b",
    "outside/secret",
    "home/.ssh/id",
    "home/.npmrc",
    "home/notes",
    "home/.nerve/config/permissions.json",
    "home/.nerve/data/store",
    "home/.nerve/plans/p.md",
    "home/.nerve/plans/.git/x",
    "other/z",
    "temp/t",
];

/// Relative to the working directory, which is the project or `a` in it.
const TYPED: [&str; 36] = [
    "a",
    "a/b",
    "a/b/c",
    "a/x",
    "b",
    "c",
    "c/x",
    "c/new/file",
    ".",
    "..",
    "./a/../b",
    "a/./b//c",
    ".env",
    ".ENV",
    "a/.env",
    "AGENTS.md",
    "agents2",
    "a/agents.md",
    ".git/config",
    ".GIT/new",
    ".nerve/x",
    "vendor",
    "vendor/a/x",
    "vendor/../a",
    "cafe\u{301}",
    "caf\u{e9}",
    "CAF\u{c9}",
    "../outside/a/b",
    "out",
    "out/secret",
    "out/../b",
    "in/b/c",
    "in",
    "dangling/x",
    "plans",
    "plans/p.md",
];

const ABSOLUTE: [&str; 22] = [
    "project",
    "project/a/b",
    "outside",
    "outside/secret",
    "home",
    "home/.ssh",
    "home/.ssh/id",
    "home/.npmrc",
    "home/notes",
    "home/.nerve",
    "home/.nerve/config/permissions.json",
    "home/.nerve/data",
    "home/.nerve/data/store",
    "home/.nerve/plans",
    "home/.nerve/plans/p.md",
    "home/.nerve/plans/.git/x",
    "home/linked/a/b",
    "other/z",
    "alias/z",
    "alias",
    "temp/t",
    "",
];

impl Universe {
    /// `twin`: another root has the folder of the project.
    pub(crate) fn new(twin: bool) -> Self {
        let folder = tempfile::tempdir().unwrap();
        let base = folder.path().canonicalize().unwrap();
        for file in FILES {
            let path = base.join(file);
            std::fs::create_dir_all(path.parent().unwrap()).unwrap();
            std::fs::write(path, file).unwrap();
        }
        std::fs::hard_link(base.join("project/AGENTS.md"), base.join("project/agents2")).unwrap();
        #[cfg(unix)]
        for (content, link) in [
            ("../outside", "project/out"),
            ("a", "project/in"),
            ("../outside/new", "project/dangling"),
            ("../home/.nerve/plans", "project/plans"),
            ("../project", "home/linked"),
            ("other", "alias"),
        ] {
            std::os::unix::fs::symlink(content, base.join(link)).unwrap();
        }
        let mut roots = vec![
            (Root::Project, "project"),
            (Root::NerveHome, "home/.nerve"),
            (Root::NerveData, "home/.nerve/data"),
            (Root::Plans, "home/.nerve/plans"),
            (Root::Home, "home"),
            (Root::Temp, "temp"),
            (Root::Host("vendor".into()), "project/vendor"),
            (Root::Host("other".into()), if cfg!(unix) { "alias" } else { "other" }),
        ];
        if twin {
            roots.push((Root::Host("twin".into()), "project"));
        }
        let known = |(root, folder): (Root, &str)| KnownRoot {
            root,
            typed: base.join(folder),
            canonical: base.join(folder).canonicalize().unwrap(),
        };
        let absolute = ABSOLUTE.iter().map(|name| base.join(name).to_str().unwrap().to_owned());
        Self {
            roots: roots.into_iter().map(known).collect(),
            places: TYPED
                .iter()
                .map(|name| (*name).to_owned())
                .chain(absolute)
                .chain(["/".to_owned()])
                .collect(),
            aliased: vec![base.join("project/agents2")],
            base,
            _folder: folder,
        }
    }

    pub(crate) fn registered(&self) -> Roots {
        self.roots.iter().fold(Roots::new(), |roots, known| roots.root(known.root.clone(), &known.typed))
    }

    /// A random call of one of the tools.
    #[expect(clippy::too_many_lines, reason = "a table of tools")]
    pub(crate) fn call(&self, random: &mut Random) -> Call {
        let cwd = self.base.join(if random.chance(15) { "project/a" } else { "project" });
        let mut made = Making { universe: self, cwd, arguments: json!({}), targets: Vec::new() };
        let mut command = None;
        let descriptor = match random.below(11) {
            0 => {
                made.path(random, "path", Access::Read, false);
                tool("read", ToolKind::Filesystem, Risk::Read)
                    .group("inspection")
                    .primary_argument("path")
                    .target(TargetSelector::path("path"))
            }
            1 => {
                match random.below(3) {
                    0 => made.default_path("paths"),
                    1 => made.path(random, "path", Access::Read, true),
                    _ => made.paths(random, "paths", Access::Read, true),
                }
                tool("grep", ToolKind::Filesystem, Risk::Read)
                    .group("inspection")
                    .primary_argument("pattern")
                    .primary_argument("path")
                    .target(TargetSelector::path("paths").or("path").tree().or_working_directory())
            }
            2 => {
                made.path(random, "path", Access::Write, false);
                tool("write", ToolKind::Filesystem, Risk::Write)
                    .group("editing")
                    .primary_argument("path")
                    .target(TargetSelector::path("path").write())
            }
            3 => {
                made.path(random, "from", Access::Read, false);
                made.path(random, "to", Access::Write, false);
                made.paths(random, "more", Access::Write, false);
                tool("copy", ToolKind::Filesystem, Risk::Write)
                    .group("editing")
                    .group("bulk")
                    .primary_argument("from")
                    .primary_argument("to")
                    .target(TargetSelector::path("from"))
                    .target(TargetSelector::path("to").write())
                    .target(TargetSelector::path("more").write())
            }
            4 | 5 => {
                let fact = random.pick(&COMMANDS);
                command = Some(fact);
                made.arguments["command"] = json!(fact.text);
                made.targets.push(Fact { argument: None, what: What::WholeTool });
                if random.chance(40) {
                    made.path(random, "cwd", Access::Write, true);
                }
                tool("bash", ToolKind::Command, Risk::Unknown)
                    .group("shell")
                    .primary_argument("command")
                    .whole_tool()
                    .target(TargetSelector::path("cwd").write().tree().optional())
            }
            6 => {
                made.arguments["code"] = json!(*random.pick(&["print 1", "print 1; import os", "exit", ""]));
                made.targets.push(Fact { argument: None, what: What::WholeTool });
                tool("python", ToolKind::Code, Risk::Unknown)
                    .group("shell")
                    .primary_argument("code")
                    .whole_tool()
            }
            7 => {
                made.url(random, "url", Access::Read);
                tool("fetch", ToolKind::Network, Risk::Network)
                    .group("web")
                    .primary_argument("url")
                    .target(TargetSelector::url("url"))
            }
            8 => {
                made.url(random, "url", Access::Write);
                made.path(random, "file", Access::Read, false);
                made.bind();
                tool("upload", ToolKind::Integration, Risk::Network)
                    .group("web")
                    .group("bulk")
                    .primary_argument("url")
                    .primary_argument("file")
                    .target(TargetSelector::url("url").write())
                    .target(TargetSelector::path("file").binding_content())
            }
            9 => {
                let profiles: Vec<&str> =
                    (0..=random.below(2)).map(|_| *random.pick(&["scout", "writer"])).collect();
                for (index, profile) in profiles.iter().enumerate() {
                    let argument = Some(format!("tasks.{index}.profile"));
                    made.targets.push(Fact { argument, what: What::Agent((*profile).to_owned()) });
                }
                made.arguments["tasks"] =
                    profiles.iter().map(|profile| json!({ "profile": profile })).collect();
                tool("delegate", ToolKind::Orchestration, Risk::AgentSpawn)
                    .group("agents")
                    .target(TargetSelector::agent("tasks.*.profile"))
            }
            _ => {
                made.targets.push(Fact { argument: None, what: What::WholeTool });
                let risk = *random.pick(&[Risk::Interaction, Risk::Write, Risk::Secret]);
                if random.chance(70) {
                    made.arguments["key"] =
                        random.pick(&[json!("N-1"), json!("N-22"), json!(7), Value::Null]).clone();
                }
                tool("note", ToolKind::Other, risk).primary_argument("key").primary_argument("mode")
            }
        };
        let actions = ActionRisks::new("mode").risk("look", Risk::Read);
        let descriptor = if random.chance(10) { descriptor.actions(actions) } else { descriptor };
        made.common(random);
        let Making { cwd, arguments, targets, .. } = made;
        let looks = descriptor.actions.is_some() && arguments.get("mode") == Some(&json!("look"));
        Call {
            risk: if looks { Risk::Read } else { descriptor.base_risk },
            origin: if random.chance(20) { CallOrigin::User } else { CallOrigin::Model },
            descriptor: descriptor.cosmetic("note"),
            working_directory: cwd,
            arguments,
            command,
            targets,
        }
    }
}

fn place(working_directory: &Path, typed: &str, access: Access, tree: bool) -> Place {
    let mut lexical = PathBuf::new();
    for component in working_directory.join(typed).components() {
        match component {
            Component::ParentDir => drop(lexical.pop()),
            Component::CurDir => {}
            other => lexical.push(other),
        }
    }
    Place { resolved: resolve(&lexical), lexical, access, tree, content: None }
}

fn tool(name: &str, kind: ToolKind, risk: Risk) -> ToolDescriptor {
    ToolDescriptor::new(name, kind, risk)
}

struct Making<'u> {
    universe: &'u Universe,
    cwd: PathBuf,
    arguments: Value,
    targets: Vec<Fact>,
}

impl Making<'_> {
    fn add(&mut self, argument: String, typed: &str, access: Access, tree: bool) {
        let place = place(&self.cwd, typed, access, tree);
        self.targets.push(Fact { argument: Some(argument), what: What::Path(place) });
    }

    fn path(&mut self, random: &mut Random, argument: &str, access: Access, tree: bool) {
        let typed = random.pick(&self.universe.places).clone();
        self.add(argument.to_owned(), &typed, access, tree);
        self.arguments[argument] = json!(typed);
    }

    fn paths(&mut self, random: &mut Random, argument: &str, access: Access, tree: bool) {
        let typed: Vec<String> =
            (0..=random.below(2)).map(|_| random.pick(&self.universe.places).clone()).collect();
        for (index, typed) in typed.iter().enumerate() {
            self.add(format!("{argument}.{index}"), typed, access, tree);
        }
        self.arguments[argument] = json!(typed);
    }

    fn default_path(&mut self, argument: &str) {
        self.add(argument.to_owned(), ".", Access::Read, true);
    }

    fn url(&mut self, random: &mut Random, argument: &str, access: Access) {
        let fact = random.pick(&URLS);
        self.arguments[argument] = json!(fact.typed);
        self.targets.push(Fact { argument: Some(argument.to_owned()), what: What::Url(access, fact) });
    }

    /// The last target binds its content; what is no file binds none and cannot be uploaded.
    fn bind(&mut self) {
        let Some(Fact { what: What::Path(target), .. }) = self.targets.last_mut() else { return };
        if !target.resolved.is_file() {
            *target = place(&self.cwd, "/", target.access, target.tree);
            target.lexical = self.universe.base.join("project/b");
            target.resolved.clone_from(&target.lexical);
            self.arguments["file"] = json!(target.lexical.to_str().unwrap());
        }
        target.content = Some(Digest::of(std::fs::read(&target.resolved).unwrap()));
    }

    fn common(&mut self, random: &mut Random) {
        if random.chance(60) {
            self.arguments["mode"] = json!(*random.pick(&["look", "fast", "slow"]));
        }
        if random.chance(30) {
            self.arguments["level"] =
                random.pick(&[json!(1), json!(2), json!("1"), json!(true), Value::Null]).clone();
        }
        if random.chance(30) {
            let labels = [json!([]), json!(["x"]), json!(["x", "y"]), json!([1, "x"]), json!("x")];
            self.arguments["labels"] = random.pick(&labels).clone();
        }
        if random.chance(30) {
            self.arguments["note"] = json!(*random.pick(&["one", "two"]));
        }
        if random.chance(1) {
            self.arguments["mode"] = json!("fast".repeat(1 << 15));
        }
    }
}

/// Links of what exists, by the system; what does not exist stays as it is.
fn resolve(path: &Path) -> PathBuf {
    for ancestor in path.ancestors() {
        let rest = path.strip_prefix(ancestor).unwrap();
        let below = |folder: PathBuf| if rest.as_os_str().is_empty() { folder } else { folder.join(rest) };
        if let Ok(canonical) = ancestor.canonicalize() {
            return below(canonical);
        }
        // A link to what does not exist leads there all the same.
        if let Ok(content) = ancestor.read_link() {
            return resolve(&below(resolve(ancestor.parent().unwrap()).join(content)).components().fold(
                PathBuf::new(),
                |mut path, component| {
                    if component == Component::ParentDir {
                        path.pop();
                    } else {
                        path.push(component);
                    }
                    path
                },
            ));
        }
    }
    path.to_owned()
}
