//! Faults met in the field, each as a test.

mod configuration;

use nervekit_permissions::*;
use serde_json::json;

use crate::world::*;

use Decision::{Allow, Deny, Prompt};

fn allowing(patterns: &[&str]) -> World {
    patterns.iter().fold(World::new("supervised"), |world, pattern| {
        world.user(allow(Filter::new().tool("bash").primary_argument(Operator::Glob, *pattern)))
    })
}

#[test]
fn case_01_a_command_word_is_a_whole_word() {
    for (word, longer) in
        [("ls", ["lsof -i", "lsattr .", "ls-anything"]), ("git", ["gitk", "git-x", "gitk a"])]
    {
        let world = World::new("supervised").user(allow(Filter::new().command_prefix([word])));
        for command in longer {
            assert_eq!(world.bash(command), Prompt, "{command}");
        }
        assert_eq!(world.bash(word), Allow);
        assert_eq!(world.bash(&format!("{word} -la")), Allow);
    }
}

/// An allow is about one simple command: a list of commands asks even when each of them alone is allowed.
#[test]
fn case_02_a_list_of_allowed_commands_asks() {
    let world = World::new("supervised")
        .user(allow(Filter::new().command_prefix(["cd"])))
        .user(allow(Filter::new().command_prefix(["echo"])));
    assert_eq!(world.bash("cd src"), Allow);
    assert_eq!(world.bash("echo a"), Allow);
    for command in ["cd src && echo a", "cd src; echo a", "echo a | echo b"] {
        assert_eq!(world.bash(command), Prompt, "{command}");
    }
    // A rule that names the list itself allows it.
    let list = Filter::new().tool("bash").primary_argument(Operator::Glob, "cd src && echo *");
    let world = world.user(allow(list));
    assert_eq!(world.bash("cd src && echo a"), Allow);
    assert_eq!(world.bash("cd src && echo a; id"), Prompt);
}

#[test]
fn case_02_what_is_chained_after_an_allowed_command_is_not_allowed() {
    let by_pattern = allowing(&["cd *", "echo *"]);
    let by_prefix = World::new("supervised")
        .user(allow(Filter::new().command_prefix(["cd"])))
        .user(allow(Filter::new().command_prefix(["echo"])));
    for world in [by_pattern, by_prefix] {
        assert_eq!(world.bash("echo a b"), Allow);
        for command in [
            "cd /tmp && python3 x.py",
            "echo a; id",
            "echo a || id",
            "echo a | sh",
            "echo a & id",
            "echo a\nid",
            "echo a\r\nid",
            "(echo a; id)",
            "{ id; }",
            "if true; then id; fi",
            "echo a > f",
            "echo a\0; id",
        ] {
            assert_eq!(world.bash(command), Prompt, "{command:?}");
        }
        // A deny looks at every part.
        let world = world
            .user(deny(Filter::new().tool("bash").primary_argument(Operator::Glob, "id*")).priority(900));
        for command in [
            "echo a; id",
            "echo a || id",
            "echo a & id",
            "echo a\nid",
            "(echo a; id)",
            "{ id; }",
            "if true; then id; fi",
        ] {
            assert_eq!(world.bash(command), Deny, "{command:?}");
        }
    }
}

#[test]
fn case_04_assignments_neither_hide_a_command_nor_ride_on_one() {
    for ask in [
        Filter::new().command_prefix(["git"]),
        Filter::new().tool("bash").primary_argument(Operator::Glob, "git *"),
    ] {
        let world = World::new("autonomous").user(prompt(ask));
        assert_eq!(world.bash("ls"), Allow);
        for command in ["git push", "CI=1 git push", "A=1 B=2 git push"] {
            assert_eq!(world.bash(command), Prompt, "{command}");
        }
    }
    let exactly = |world: World, command: &str| {
        world.user(allow(Filter::new().tool("bash").primary_argument(Operator::Equals, command)))
    };
    let by_equality =
        ["npm --version", "git fetch", "bash y.sh"].into_iter().fold(World::new("supervised"), exactly);
    let by_prefix = World::new("supervised")
        .user(allow(Filter::new().command_prefix(["npm", "--version"])))
        .user(allow(Filter::new().command_prefix(["git", "fetch"])))
        .user(allow(Filter::new().command_prefix(["bash", "y.sh"])));
    for world in [by_equality, by_prefix] {
        assert_eq!(world.bash("git fetch"), Allow);
        for command in [
            "Q=`touch${IFS}/tmp/poc` npm --version",
            "Q=$(id) npm --version",
            "NODE_OPTIONS=--require=./x.js npm --version",
            "LD_PRELOAD=./x.so npm --version",
            "GIT_SSH_COMMAND=./x git fetch",
            "BASH_ENV=./x bash y.sh",
        ] {
            assert_eq!(world.bash(command), Prompt, "{command}");
        }
    }
}

#[test]
fn case_05_substitutions_are_never_allowed_by_a_wildcard() {
    let world = allowing(&["echo *", "ls *", "cat *"]);
    for command in [
        "echo $(id)",
        "echo `id`",
        "echo \"$(id)\"",
        "echo \"${x@P}\"",
        "cat <(id)",
        "echo ok > >(touch p)",
        "ls =(id)",
        "ls *(e:'touch p':)",
        "echo $((a[$(id)]))",
    ] {
        assert_eq!(world.bash(command), Prompt, "{command}");
    }
    // Quoted text is no substitution: a deny does not see a command in it.
    let world = World::new("autonomous").user(deny(Filter::new().command_prefix(["id"])));
    assert_eq!(world.bash("echo '$(id)'"), Allow);
    assert_eq!(world.bash("node -e \"f=(1)\""), Allow);
    assert_eq!(world.bash("echo \"$(id)\""), Deny);
}

#[test]
fn case_07_wrappers_and_spellings_do_not_walk_around_a_deny() {
    for forbid in [
        Filter::new().command_prefix(["rm"]),
        Filter::new().tool("bash").primary_argument(Operator::Glob, "rm *"),
    ] {
        let world = allowing(&["nohup *", "timeout *", "env *", "xargs *", "bash *"])
            .user(deny(forbid).priority(900));
        assert_eq!(world.bash("nohup ls"), Allow);
        for command in [
            "nohup rm -rf d",
            "timeout 5 rm -rf d",
            "env -S 'rm -rf d'",
            "env X=1 rm -rf d",
            "bash -c 'rm -rf d'",
            "eval 'rm -rf d'",
            "echo d | xargs rm -rf",
            "/bin/rm -rf d",
            "\\rm -rf d",
            "r\"\"m -rf d",
            "command rm d",
        ] {
            assert_eq!(world.bash(command), Deny, "{command}");
        }
        // What cannot be read is at least not allowed.
        for command in ["bash -c \"$X\"", "env $CMD d", "nohup $(echo rm) d"] {
            assert_eq!(world.bash(command), Prompt, "{command}");
        }
    }
}

/// A guardrail names the program: the order and the spelling of its flags are not told apart, so none gets by.
#[test]
fn case_07_no_spelling_of_flags_or_targets_walks_around_a_guardrail() {
    let world = World::new("autonomous")
        .guardrail(deny(Filter::new().command_prefix(["rm"])))
        .conversation(allow(Filter::new().tool("bash")).priority(1000));
    for command in [
        "rm -fr ~",
        "rm -rf ~",
        "rm -rf $HOME",
        "rm -rf \"${HOME}\"",
        "rm --recursive --force ~",
        "rm -r -f ~",
    ] {
        assert_eq!(world.bash(command), Deny, "{command}");
    }
    // A rule that spells the flags is about that spelling.
    let spelled = deny(Filter::new().tool("bash").primary_argument(Operator::Glob, "rm -rf *"));
    let world = World::new("supervised").user(spelled);
    assert_eq!(world.bash("rm -rf d"), Deny);
    assert_eq!(world.bash("rm -fr d"), Prompt);
}

#[test]
fn case_08_what_changes_the_shell_is_a_command_of_its_own() {
    let world = World::new("supervised").user(allow(Filter::new().command_prefix(["git", "branch"])));
    assert_eq!(world.bash("git branch"), Allow);
    for command in [
        "export PAGER='sh -c id'",
        "typeset -x PAGER=./x",
        "declare -x PAGER=./x",
        "alias git=./x",
        "git(){ ./x; }",
        "git branch(){ ./x; }",
        "set -a; . ./x",
        "trap './x' EXIT",
        "cd /evil",
        "PAGER=./x git branch",
        "export PAGER=./x && git branch",
    ] {
        assert_eq!(world.bash(command), Prompt, "{command}");
    }
}

#[test]
#[cfg(unix)]
fn case_10_links_out_of_the_project_and_aliased_roots() {
    use std::os::unix::fs::symlink;
    // (a) Whatever the tool, the target is the outside path.
    let world = World::new("supervised")
        .user(deny(Filter::new().any_target(Matcher::new().absolute().pattern("**/outside/**"))));
    symlink(world.path("outside"), world.path("project/outbox")).unwrap();
    assert_eq!(world.read("outbox/x"), Deny);
    assert_eq!(world.write_call("outbox/x"), Deny);
    assert_eq!(world.decide(&grep(), json!({"path": "outbox"})), Deny);
    // (b) A rule written with an alias meets the real name, and the other way round.
    let world = World::new("autonomous");
    std::fs::create_dir(world.path("real")).unwrap();
    symlink(world.path("real"), world.path("alias")).unwrap();
    let alias = world.path("alias").to_str().unwrap().to_owned();
    let real = world.path("real").canonicalize().unwrap().to_str().unwrap().to_owned();
    let forbid = |path: &str| deny(Filter::new().any_target(Matcher::new().absolute().subtree(path)));
    let world = world.user(forbid(&real));
    assert_eq!(world.write_call(&format!("{real}/x")), Deny);
    assert_eq!(world.write_call(&format!("{alias}/x")), Deny);
    let world = World { user: PolicyDocument::new(), ..world }.user(forbid(&alias));
    assert_eq!(world.write_call(&format!("{alias}/x")), Deny);
    // (c) A project that is reached by a link contains its files.
    let world = World::new("supervised")
        .user(allow(Filter::new().tool("write").every_target(Matcher::new().pattern("**"))));
    symlink(world.path("project"), world.path("opened")).unwrap();
    let engine =
        RuleEngine::new(world.roots().project(world.path("opened"))).user_document(world.user.clone());
    let evaluation = engine
        .evaluate(world.call(&write(), json!({"path": "ok.txt"})).working_directory(world.path("opened")));
    assert_eq!(evaluation.decision(), Allow);
    evaluation.target("path").unwrap().path.as_ref().unwrap().replace(b"ok").unwrap();
    assert_eq!(std::fs::read(world.path("project/ok.txt")).unwrap(), b"ok");
}

#[test]
#[cfg(unix)]
fn case_11_links_at_the_last_component() {
    use std::os::unix::fs::symlink;
    let world = World::new("supervised")
        .user(allow(Filter::new().tool("write").every_target(Matcher::new().pattern("**"))));
    let victim = world.write("outside/victim", "untouched");
    symlink(&victim, world.path("project/notes.md")).unwrap();
    symlink(world.path("outside/does-not-exist"), world.path("project/draft.txt")).unwrap();
    symlink("b", world.path("project/a")).unwrap();
    symlink("a", world.path("project/b")).unwrap();
    assert_eq!(world.write_call("notes.md"), Prompt);
    assert_eq!(world.write_call("draft.txt"), Prompt);
    let evaluation = world.evaluate(&write(), json!({"path": "a"}));
    assert_eq!(evaluation.decision(), Deny);
    assert!(evaluation.evidence.reason.contains("too many links"), "{}", evaluation.evidence.reason);
    assert!(!world.path("outside/does-not-exist").exists());
}

#[test]
#[cfg(unix)]
fn case_11_a_path_that_flips_between_file_and_link_never_leads_outside() {
    use std::os::unix::fs::symlink;
    use std::sync::atomic::{AtomicBool, Ordering};
    let world = World::new("autonomous");
    let victim = world.write("outside/victim", "untouched");
    world.write("outside/folder/file", "untouched");
    let outside = world.path("outside");
    let before = tree(&outside);
    world.write("project/f", "inside");
    world.write("project/d/file", "inside");
    let done = AtomicBool::new(false);
    std::thread::scope(|scope| {
        scope.spawn(|| {
            let (file, folder) = (world.path("project/f"), world.path("project/d"));
            let (link, plain) = (world.path("project/f.link"), world.path("project/f.plain"));
            let (away, folder_link) = (world.path("project/d.away"), world.path("project/d.link"));
            while !done.load(Ordering::Relaxed) {
                // Each step is one rename, so that the path is there as one or the other. A step fails when
                // the other thread just made something there; the next round tidies up.
                let _ = symlink(&victim, &link).and_then(|()| std::fs::rename(&link, &file));
                let _ = std::fs::rename(&folder, &away);
                let _ = symlink(world.path("outside/folder"), &folder_link)
                    .and_then(|()| std::fs::rename(&folder_link, &folder));
                let _ = std::fs::write(&plain, "inside").and_then(|()| std::fs::rename(&plain, &file));
                let _ = std::fs::remove_file(&folder).or_else(|_| std::fs::remove_dir_all(&folder));
                let _ = std::fs::rename(&away, &folder);
                for left in [&link, &folder_link] {
                    let _ = std::fs::remove_file(left);
                }
                let _ = std::fs::remove_dir_all(&away);
                let _ =
                    std::fs::create_dir(&folder).and_then(|()| std::fs::write(folder.join("file"), "inside"));
            }
        });
        let engine = world.engine();
        // Only what was decided to be inside may be used: what is decided to be outside is another call.
        let inside = |tool: &ToolDescriptor, path: &str| {
            let evaluation = engine.evaluate(world.call(tool, json!({"path": path})));
            let target = evaluation.target("path")?;
            let CanonicalSubject::Path(resolved) = target.target.subject() else { return None };
            let root = &resolved.resolved.rooted.first()?.root;
            (*root == Root::Project).then(|| target.path.clone()).flatten()
        };
        let (mut written, mut read_inside) = (0, 0);
        for _ in 0..500 {
            for path in ["f", "d/file"] {
                if let Some(file) = inside(&write(), path) {
                    written += usize::from(file.replace(b"written").is_ok());
                }
                if let Some(file) = inside(&read(), path)
                    && let Ok(opened) = file.open()
                {
                    read_inside += 1;
                    assert_ne!(std::io::read_to_string(opened).unwrap(), "untouched", "read {path} outside");
                }
            }
        }
        done.store(true, Ordering::Relaxed);
        assert!(written > 0 && read_inside > 0, "the race was never won: {written} {read_inside}");
    });
    assert_eq!(tree(&outside), before);
}

#[test]
fn case_13_guardrails_meet_every_spelling_of_a_name() {
    let guard = |pattern: &str| deny(Filter::new().any_target(Matcher::new().pattern(pattern)));
    let world = [".env", ".ssh/**", ".git/**", "café.key"].into_iter().fold(
        World::new("autonomous"),
        |world, pattern| {
            let priority = i16::try_from(world.user.guardrails.len()).unwrap();
            world.guardrail(guard(pattern).priority(priority))
        },
    );
    for path in [
        ".ENV",
        ".env",
        ".Ssh/authorized_keys",
        ".GIT/config",
        ".git/hooks/pre-commit",
        "cafe\u{301}.key",
        "CAFÉ.KEY",
        ".g\u{200c}it/x",
    ] {
        assert_eq!(world.write_call(path), Deny, "{path}");
    }
    assert_eq!(world.write_call(".GITIGNORE"), Allow);
    assert_eq!(world.write_call(".environment"), Allow);
    // An ordinary rule is exact where the file system is.
    if cfg!(target_os = "linux") {
        let world = World::new("autonomous").user(guard(".env"));
        assert_eq!(world.write_call(".ENV"), Allow);
    }
}

#[test]
fn case_14_a_star_does_not_cross_folders_and_a_bad_pattern_is_an_error() {
    let world = ["src/*", "docs/*.md"].into_iter().fold(World::new("supervised"), |world, pattern| {
        world.user(allow(Filter::new().tool("write").every_target(Matcher::new().pattern(pattern))))
    });
    assert_eq!(world.write_call("src/a.rs"), Allow);
    assert_eq!(world.write_call("src/a/b.rs"), Prompt);
    assert_eq!(world.write_call("docs/private/x.md"), Prompt);
    let world = World::new("autonomous")
        .user(deny(Filter::new().tool("bash").primary_argument(Operator::Glob, "*rm -rf*")));
    assert_eq!(world.bash("rm -rf /"), Deny);
    assert_eq!(world.bash("cd / && rm -rf tmp"), Deny);
    let bad = |pattern: &str| {
        let rule = deny(Filter::new().any_target(Matcher::new().pattern(pattern)));
        PolicyDocument::new().guardrail(rule).check(DocumentScope::User).is_err()
    };
    assert!(bad("src/{") && bad("/src") && bad("a\\b") && bad("a**"));
    assert!(!bad("src/[") && !bad("!x"));
}

#[test]
fn case_14_what_looks_like_a_root_and_is_none_is_an_error() {
    let check = |matcher: Matcher| {
        let rule = Rule::new("a", Deny).when(Filter::new().any_target(matcher));
        PolicyDocument::new().overlay(Overlay::new("supervised").rule(rule)).check(DocumentScope::User)
    };
    for text in ["${workspace}/src", "${projectDir}src", "${HOME}/x", "${PROJECTDIR}/x", "${projectDir"] {
        for matcher in
            [Matcher::new().exact(text), Matcher::new().subtree(text), Matcher::new().pattern(text)]
        {
            let error = check(matcher).unwrap_err().to_string();
            assert!(error.contains("names no root"), "{text}: {error}");
        }
    }
    for text in ["${projectDir}", "${projectDir}/src", "${plansDir}/a", "src/${x}"] {
        assert!(check(Matcher::new().subtree(text)).is_ok(), "{text}");
    }
    // A file may have such a name; a rule with its root means the name.
    assert!(check(Matcher::new().root(Root::Project).exact("${workspace}/src")).is_ok());
}

#[test]
fn case_16_a_host_is_not_a_prefix() {
    let with = |pattern: &str| {
        World::new("supervised").user(allow(Filter::new().every_target(Matcher::new().pattern(pattern))))
    };
    let world = with("https://docs.site.test/**");
    assert_eq!(world.fetch("https://DOCS.Site.TEST/"), Allow);
    for url in [
        "https://docs.site.test.evil.example/",
        "https://docs.site.testevil.example",
        "https://evil.example/docs.site.test",
        "https://evil.example/?u=https://docs.site.test",
        "https://evildocs.site.test/",
        "http://docs.site.test:8080/",
        "https://docs.site.test:8080/",
        "http://docs.site.test/",
    ] {
        assert_eq!(world.fetch(url), Prompt, "{url}");
    }
    let world = with("https://*.site.test/**");
    assert_eq!(world.fetch("https://docs.site.test/a"), Allow);
    // A dot boundary, and not the bare domain.
    assert_eq!(world.fetch("https://evilsite.test/"), Prompt);
    assert_eq!(world.fetch("https://site.test/"), Prompt);
    let world = with("*://127.0.0.1:*/**");
    assert_eq!(world.fetch("http://127.1:8080/a"), Allow);
}

#[test]
fn case_16_another_spelling_of_a_url_does_not_walk_around_a_deny() {
    let with = |matcher: Matcher| World::new("autonomous").user(deny(Filter::new().any_target(matcher)));
    for matcher in [
        Matcher::new().pattern("https://site.test/admin/**"),
        Matcher::new().subtree("https://site.test/admin"),
        Matcher::new().exact("https://site.test/admin/x"),
        Matcher::new().exact("https://site.test/%61dmin/x"),
    ] {
        let world = with(matcher.clone());
        for url in [
            "https://site.test/admin/x",
            "https://site.test/%61dmin/x",
            "https://site.test/%61%64%6D%69%6e/%78",
            "https://SITE.test.:443/./admin/x",
        ] {
            assert_eq!(world.fetch(url), Deny, "{url} {matcher:?}");
        }
        assert_eq!(world.fetch("https://site.test/administration/x"), Allow);
        assert_eq!(world.fetch("https://site.test/a%64/x%"), Allow);
    }
    // What allows takes the spelling that a person saw, and no other.
    let allowed = World::new("supervised")
        .user(allow(Filter::new().every_target(Matcher::new().exact("https://site.test/admin"))));
    assert_eq!(allowed.fetch("https://site.test/%61dmin"), Prompt);
}

#[test]
fn case_17_the_judged_host_is_the_contacted_one() {
    let world = World::new("supervised")
        .user(allow(Filter::new().every_target(Matcher::new().pattern("*://good.test/**"))));
    for url in [
        "http://good.test@evil.example/",
        "http://good.test:80@127.0.0.1/",
        "https://evil.example\\@good.test/x",
        "http://good.test%2f@evil.example/",
        "https://good.test/a\tb",
        "https://good.te\nst/",
        "HTTP:/good.test@evil.example",
    ] {
        assert_eq!(world.fetch(url), Deny, "{url}");
    }
    let evaluation = world.evaluate(&fetch(), json!({"url": "http://good.test#@evil.example/"}));
    assert_eq!(evaluation.decision(), Allow);
    assert_eq!(evaluation.targets[0].url.as_ref().unwrap().as_url().host_str(), Some("good.test"));
    assert_eq!(evaluation.targets[0].target.display(), "http://good.test/");
}

#[test]
fn case_26_every_pair_of_layers_has_a_written_down_winner() {
    // The more specific scope decides between overridable rules, whatever their decisions: this product's rule.
    let decisions = [Allow, Prompt, Deny];
    let tool = || Filter::new().tool("bash");
    let rule = |decision| Rule::new(format!("r{decision}"), decision).when(tool());
    for user in decisions {
        for project in decisions {
            for conversation in decisions {
                let world = World::new("supervised")
                    .user(rule(user).priority(7))
                    .project(rule(project).priority(3))
                    .conversation(rule(conversation).priority(-5));
                assert_eq!(world.bash("ls"), conversation, "{user} {project} {conversation}");
                let world =
                    World::new("supervised").user(rule(user).priority(7)).project(rule(project).priority(-3));
                assert_eq!(world.bash("ls"), project, "{user} {project}");
                // A guardrail beats all of them, and denying beats asking among guardrails.
                for guardrail in [Prompt, Deny] {
                    let guarded = world.user.clone().guardrail(Rule::new("g", guardrail).when(tool()));
                    let guarded = World { user: guarded, ..World::new("supervised") }
                        .project(rule(project))
                        .conversation(rule(conversation).priority(1000));
                    assert_eq!(guarded.bash("ls"), guardrail);
                    let both = World {
                        user: guarded.user.clone().guardrail(Rule::new("h", Deny).priority(-1000)),
                        ..guarded
                    };
                    assert_eq!(both.bash("ls"), Deny);
                }
            }
        }
    }
    // The order in the file plays no part, only the priority does.
    let (low, high) = (rule(Allow).priority(1), rule(Deny).priority(2));
    for rules in [[&low, &high], [&high, &low]] {
        let world = rules.into_iter().fold(World::new("supervised"), |world, rule| world.user(rule.clone()));
        assert_eq!(world.bash("ls"), Deny);
    }
    // The same id in another layer replaces nothing.
    let world = World::new("supervised")
        .guardrail(Rule::new("same", Deny).when(tool()))
        .project(Rule::new("same", Allow).when(tool()));
    assert_eq!(world.bash("ls"), Deny);
}

#[test]
fn case_34_what_is_shown_for_approval_hides_nothing() {
    let world = World::new("supervised");
    let evaluation = world.evaluate(&write(), json!({"path": "src/a\u{202e}gpj.sh"}));
    let shown = evaluation.targets[0].target.display();
    assert_eq!(shown, "src/a\\u{202e}gpj.sh");
    for suggestion in &evaluation.evidence.suggestions {
        assert!(suggestion.label.chars().all(|c| !c.is_control() && c != '\u{202e}'), "{}", suggestion.label);
    }
    // What is used is the original.
    let path = evaluation.targets[0].path.as_ref().unwrap();
    assert!(path.as_racy_path().to_str().unwrap().contains('\u{202e}'));
    assert!(!path.display().contains('\u{202e}'));
    let tool = ToolDescriptor::new("b\u{200b}ash", ToolKind::Other, Risk::Unknown);
    let evaluation = world.evaluate(&tool, json!({}));
    assert_eq!(evaluation.evidence.suggestions[0].label, "`b\\u{200b}ash` with exactly these arguments");
}

#[test]
#[cfg(unix)]
fn case_76_what_is_no_regular_file_is_refused_at_once() {
    use std::os::unix::net::UnixListener;
    let world = World::new("autonomous");
    let pipe = world.path("project/pipe");
    assert!(std::process::Command::new("mkfifo").arg(&pipe).status().unwrap().success());
    let _socket = UnixListener::bind(world.path("project/socket")).unwrap();
    world.write("project/file", "text");
    let started = std::time::Instant::now();
    for (path, words) in [
        ("pipe", "only regular files"),
        ("socket", "only regular files"),
        ("src", "a folder"),
        (".", "a folder"),
        ("missing", "No such file"),
        ("missing/parent", "No such file"),
        ("file/below", "Not a directory"),
        ("/dev/zero", "only regular files"),
        ("/dev/null", "only regular files"),
    ] {
        let error = world.decided(&read(), path).open().unwrap_err().to_string();
        assert!(error.contains(words), "{path}: {error}");
        if !path.starts_with("/dev") && !path.contains("missing") {
            let error = world.decided(&write(), path).replace(b"x").unwrap_err();
            assert!(!error.to_string().is_empty());
        }
    }
    #[cfg(target_os = "linux")]
    for path in ["/proc/self/environ", "/proc/version", "/sys/kernel/mm/transparent_hugepage/enabled"] {
        let error = world.decided(&read(), path).open().unwrap_err().to_string();
        assert!(error.contains("belongs to the kernel") || error.contains("No such file"), "{path}: {error}");
    }
    assert_eq!(std::io::read_to_string(world.decided(&read(), "file/").open().unwrap()).unwrap(), "text");
    assert_eq!(world.read(&"n".repeat(5_000)), Deny);
    assert_eq!(world.read(&"n".repeat(300)), Deny);
    world.write("project/a\nb", "newline");
    assert_eq!(std::io::read_to_string(world.decided(&read(), "a\nb").open().unwrap()).unwrap(), "newline");
    assert!(started.elapsed() < std::time::Duration::from_secs(5));
}
