use super::*;

const FILE: &str = "forge.toml";

fn edit(text: &str) -> Edit<'_> {
    Edit::parse(Path::new(FILE), text).unwrap_or_else(|error| panic!("{error}\n{text}"))
}

fn entry<'a>(name: &'a str, key: &'a str, pairs: &'a [String]) -> NewServer<'a> {
    NewServer { name, key, comments: &[], pairs, group: None }
}

fn pairs() -> Vec<String> {
    vec!["command = \"npx\"".to_owned(), "args = [\n    \"-y\",\n    \"x\",\n]".to_owned()]
}

/// Texts of every form that servers are written in; each has a server `a`, `b`, or both.
const FORMS: &[&str] = &[
    "",
    "\n",
    "# only a comment",
    "# a comment\n\n",
    "[servers.a]\ncommand = \"x\"\n",
    "[servers.a]\ncommand = \"x\"",
    "\u{feff}[servers.a]\r\ncommand = \"x\" # why\r\n\r\n# end\r\n",
    "# top\n\n# of a\n[servers.a]\ncommand = \"x\"\n\n[sandbox]\nworkers = 2\n\n# more of a\n[servers.a.rate]\ncalls = 1\n",
    "[servers]\na = { command = \"x\" }\nb.command = \"y\" # b\nb.args = []\n",
    "servers.a.command = \"x\"\nservers.\"b\".command = \"y\"\n[sandbox]\nworkers = 2\n",
    "servers = { a = { command = \"x\" }, b = { command = \"y\" } } # all\n",
    "servers = { a.command = \"x\", b.command = \"y\" }\n",
    "servers = {}\n[sandbox]\nworkers = 2\n",
    "servers = {\n  a = { command = \"x\" }, # one\n  b = { command = \"y\" },\n}\n",
    "servers.a = { command = \"x\", args = [\"[servers.a]\", '''\n[servers.a]\n''', \"#\"] }\n",
    "[servers.b]\ncommand = \"y\"\n#args = []\n[servers.a]\n  command = \"x\"\n  # inside\n  env = { A = \"1\" }\n\n\n[[flows]]\nfrom = \"*\"\n",
    "[ servers . \"a\" ] # spaced\ncommand = \"x\"\n[servers.b.env]\nX = \"servers.a\"\n[servers.b]\ncommand = \"y\"\n",
];

#[test]
fn what_is_added_and_removed_again_leaves_the_bytes_as_they_were() {
    for text in FORMS {
        let added = edit(text).with(&entry("new.one", "\"new.one\"", &pairs())).expect("added");
        assert!(added.contains("\"new.one\""), "{added}");
        let removed = edit(&added).without(&["new.one"]).expect("removed");
        // A missing line end is the only thing that is added for good.
        let is_open = !text.is_empty() && !text.ends_with('\n') && !text.starts_with("servers = ");
        assert_eq!(removed, format!("{text}{}", if is_open { "\n" } else { "" }), "by way of\n{added}");
    }
}

#[test]
fn what_is_switched_off_and_on_again_leaves_the_bytes_as_they_were() {
    let mut seen = 0;
    for text in FORMS {
        for name in ["a", "b"] {
            if edit(text).known(name).is_err() {
                continue;
            }
            let off = edit(text).switched(name, false).expect("switched off").expect("an edit");
            assert_eq!(edit(&off).switched(name, false), Ok(None), "{off}");
            let on = edit(&off).switched(name, true).expect("switched on").expect("an edit");
            let plain = on.replace("enabled = true, ", "").replace(".enabled = true", "");
            let is_same = on.trim_end() == text.trim_end() || plain.contains("servers = { a");
            assert!(is_same, "{text}\noff:\n{off}\non:\n{on}");
            seen += 1;
        }
    }
    assert!(seen > 15, "{seen}");
}

const INLINE: &str = "servers = {\n  # the first\n  a = { command = \"x\" }, # a\n  # the second\n  b = { command = \"y\" } # b, still\n}\n";

#[test]
fn of_a_removed_server_nothing_stays_and_of_the_others_everything() {
    for (text, name, left) in [
        ("# top\n[servers.a]\ncommand = \"x\"\n", "a", "# top\n"),
        (
            "x = 1\n\n#[servers.z]\n#command = \"z\"\n[servers.a]\ncommand = \"x\"\n",
            "a",
            "x = 1\n\n#[servers.z]\n#command = \"z\"\n",
        ),
        ("# top\n\n# of a\n[servers.a]\ncommand = \"x\"\n\n[sandbox]\n", "a", "# top\n\n[sandbox]\n"),
        (
            "[servers.b]\ncommand = \"y\"\n#args = []\n[servers.a]\ncommand = \"x\"\n",
            "a",
            "[servers.b]\ncommand = \"y\"\n#args = []\n",
        ),
        (
            "[servers.a]\r\ncommand = \"x\"\r\n\r\n[sandbox]\r\nworkers = 2\r\n[servers.a.env]\r\nA = \"1\"",
            "a",
            "\r\n[sandbox]\r\nworkers = 2\r\n",
        ),
        (
            "[servers]\na = { command = \"x\" }\n# b\nb.command = \"y\"\nb.args = [\n  \"1\" ]\n",
            "b",
            "[servers]\na = { command = \"x\" }\n# b\n",
        ),
        (
            "servers = { a.command = \"x\", b = { command = \"y\" }, a.args = [] }",
            "a",
            "servers = { b = { command = \"y\" } }",
        ),
        ("servers = { a.command = \"x\" } # all", "a", "servers = {} # all"),
        ("servers = { b = {}, a.url = \"http://x/#\", a.args = [\"#\"] }", "a", "servers = { b = {} }"),
        (
            "servers = { a.command = \"x\", a.args = [], b = { command = \"y\" } }",
            "a",
            "servers = { b = { command = \"y\" } }",
        ),
        (
            "servers = { b = { command = \"y\" }, a.command = \"x\", a.args = [], a.env = {} }",
            "a",
            "servers = { b = { command = \"y\" } }",
        ),
        (
            "servers = { b.command = \"y\", a.command = \"x\", a.args = [], b.args = [] }",
            "a",
            "servers = { b.command = \"y\", b.args = [] }",
        ),
        (
            "servers = {\n  b = {}, # b, not a\n  a.command = \"x\", # one, two\n  a.args = [] # three,\n  , # four\n  c = {}\n}\n",
            "a",
            "servers = {\n  b = {}, # b, not a\n   # one, two\n   # three,\n   # four\n  c = {}\n}\n",
        ),
        ("servers.a.command = \"x\"\nservers.a-b.command = \"y\"\n", "a", "servers.a-b.command = \"y\"\n"),
        (INLINE, "a", "servers = {\n  # the first\n   # a\n  # the second\n  b = { command = \"y\" } # b, still\n}\n"),
        (INLINE, "b", "servers = {\n  # the first\n  a = { command = \"x\" }, # a\n  # the second\n   # b, still\n}\n"),
    ] {
        assert_eq!(edit(text).without(&[name]).as_deref(), Ok(left), "{text}");
    }
}

#[test]
fn several_servers_are_removed_at_once() {
    for (text, left) in [
        ("[servers.a]\nx = 1\n\n[servers.c]\nx = 1\n\n[servers.b]\nx = 1\n", "\n[servers.c]\nx = 1\n"),
        ("x = 1\n\n[servers.a]\nx = 1\n\n# b\n[servers.b]\nx = 1\n\n[y]\n", "x = 1\n\n[y]\n"),
        ("servers = { a = {}, b.x = 1, b.y = 1, c = {} }", "servers = { c = {} }"),
        ("servers = { c = {}, a = {}, b = {} }", "servers = { c = {} }"),
        ("[servers]\na = {}\nc = {}\nb.x = 1\n", "[servers]\nc = {}\n"),
    ] {
        assert_eq!(edit(text).without(&["a", "b"]).as_deref(), Ok(left), "{text}");
    }
}

#[test]
fn a_switch_that_is_neither_true_nor_false_is_replaced_by_one_that_is() {
    for text in [
        "[servers.a]\nenabled = VALUE # why\ncommand = \"x\"\n",
        "servers = { a = { enabled = VALUE, command = \"x\" } }",
        "servers.a.command = \"x\"\nservers.a.enabled = VALUE",
    ] {
        for value in ["\"${ON}\"", "1", "[]"] {
            let before = text.replace("VALUE", value);
            assert_eq!(edit(&before).is_on("a"), None, "{before}");
            for on in [true, false] {
                let after = edit(&before).switched("a", on).expect("switched").expect("an edit");
                assert_eq!(after, text.replace("VALUE", &on.to_string()));
            }
        }
    }
}

#[test]
fn a_value_of_a_server_is_written_where_the_server_is() {
    for (text, after) in [
        ("[servers.a]\ncommand = \"x\" # c\n", "[servers.a]\ncommand = \"new\" # c\n"),
        ("[servers.a]\nargs = []\n", "[servers.a]\ncommand = \"new\"\nargs = []\n"),
        ("servers = { a = { args = [] } }", "servers = { a = { command = \"new\", args = [] } }"),
        ("[servers]\n# c\na.args = []\n", "[servers]\n# c\na.command = \"new\"\na.args = []\n"),
        ("[servers]\n# c\na = { command = 'x' } # d\n", "[servers]\n# c\na = { command = \"new\" } # d\n"),
    ] {
        assert_eq!(edit(text).with_value("a", "command", "\"new\"").as_deref(), Ok(after), "{text}");
    }
}

#[test]
fn a_file_that_is_not_toml_or_cannot_be_edited_is_refused() {
    for text in [
        "[servers.a", "a = 1\na = 2", "{\"mcpServers\": {}}", "[servers.a]\n[servers.a]\n", "x = \u{1}",
        "servers = \"x\"",
    ] {
        let outcome = Edit::parse(Path::new(FILE), text).and_then(|edit| edit.with(&entry("a", "a", &pairs())));
        assert!(outcome.is_err(), "{text}: {outcome:?}");
    }
    let taken = edit("[servers.Files]\n").with(&entry("files", "files", &pairs())).expect_err("taken");
    assert!(taken.to_string().contains("a server `Files` already"), "{taken}");
    let unknown = edit("[servers.files]\n").without(&["flies"]).expect_err("unknown");
    assert!(unknown.to_string().contains("did you mean `files`?"), "{unknown}");
    let unclear = edit("[servers.a.env]\nX = \"1\"\n").switched("a", false).expect_err("no place for the key");
    assert!(unclear.to_string().contains("cannot be edited without loss"), "{unclear}");
}

#[test]
fn a_long_file_and_deep_values_are_edited_in_good_time() {
    let many: String = (0..40_000).map(|n| format!("[servers.s{n}]\ncommand = \"x\"\nargs = [\"{n}\"]\n\n")).collect();
    let deep = format!("[x]\ny = {}1{}\n{many}", "[".repeat(70), "]".repeat(70));
    let removed = edit(&deep).without(&["s20000"]).expect("removed");
    assert_eq!(removed.len() + "[servers.s20000]\ncommand = \"x\"\nargs = [\"20000\"]\n\n".len(), deep.len());
    let inline =
        format!("servers = {{ {} }}", (0..40_000).map(|n| format!("s{n} = {{}}")).collect::<Vec<_>>().join(", "));
    assert!(edit(&inline).without(&["s39999"]).expect("removed").ends_with("s39998 = {} }"));
}

mod random {
    use proptest::prelude::*;

    use super::*;

    /// A server in one of the forms that stand beside each other.
    fn server(name: &'static str) -> impl Strategy<Value = String> {
        let forms = [
            "[servers.NAME]\ncommand = \"x\"\n",
            "[servers.NAME] # c\nenabled = false\ncommand = \"x\"\n[servers.NAME.rate]\ncalls = 1",
            "[servers]\nNAME = { command = 'x' } # c\n",
            "[servers.\"NAME\"]\n\nurl = \"http://[::1]/#\"\n\n",
            "[servers.NAME.env]\nA = '''\n[servers.q]\n'''\n\t[servers.NAME]\n\tcommand=\"x\"",
        ];
        (prop::sample::select(forms.to_vec()), "(# [a-z]{0,4}\n|\n|#\n){0,3}", "(\n|\n# z\n|\n\n#y = 1\n\n|\n)")
            .prop_map(move |(form, before, after)| format!("{before}{}{after}", form.replace("NAME", name)))
    }

    proptest! {
        #[test]
        fn any_edit_changes_its_server_alone(
            one in server("a"), two in server("bee"), three in server("c-3"), crlf in any::<bool>(), mark in any::<bool>(),
        ) {
            let text = format!("{one}{two}{three}");
            // `[servers]` twice is not TOML.
            prop_assume!(text.matches("[servers]").count() < 2);
            let text = if crlf { text.replace('\n', "\r\n") } else { text };
            let text = if mark { format!("\u{feff}{text}") } else { text };
            let added = edit(&text).with(&entry("new", "new", &pairs())).expect("added");
            prop_assert!(added.starts_with(&text));
            prop_assert_eq!(crlf, !added.replace("\r\n", "").contains('\n'));
            let removed = edit(&added).without(&["new"]).expect("removed");
            prop_assert_eq!(&removed, &text);
            for name in ["a", "bee", "c-3"] {
                let off = edit(&text).switched(name, false).expect("switched").unwrap_or_else(|| text.clone());
                let without = edit(&off).without(&[name]).expect("removed");
                prop_assert_eq!(&without, &edit(&text).without(&[name]).expect("removed"));
                // Each line that is left was there, in this order.
                let mut lines = text.trim_start_matches('\u{feff}').lines();
                for line in without.trim_start_matches('\u{feff}').lines() {
                    prop_assert!(lines.any(|known| known == line), "{line:?} of {without:?}");
                }
            }
        }
    }
}

#[test]
fn a_server_joins_its_group_and_every_other_byte_stays() {
    let new = "[servers.new]\ncommand = \"npx\"\n";
    let group = |members: &str| format!("[groups.g]\nservers = {members}\n");
    let cases = [
        ("[sandbox]\nworkers = 2\n".to_owned(), None),
        (group("[]"), Some(group("[\"new\"]"))),
        (group("[ \"a\" ] # why"), Some(group("[ \"a\", \"new\" ] # why"))),
        (group("[\n    \"a\", # one\n    \"b\",\n]"), Some(group("[\n    \"a\", # one\n    \"b\", \"new\",\n]"))),
        (
            "groups.g = { servers = [\"a\"] }\n".to_owned(),
            Some("groups.g = { servers = [\"a\", \"new\"] }\n".to_owned()),
        ),
    ];
    let pairs = vec!["command = \"npx\"".to_owned()];
    let join = |before: &str| {
        edit(before).with(&NewServer { group: Some(InGroup { name: "g", key: "g" }), ..entry("new", "new", &pairs) })
    };
    for (before, after) in cases {
        let expected = match after {
            Some(after) => format!("{after}\n{new}"),
            None => format!("{before}\n{new}\n[groups.g]\nservers = [\"new\"]\n"),
        };
        assert_eq!(join(&before).unwrap_or_else(|error| panic!("{error}\n{before}")), expected);
    }
    for before in [
        group("[\n    \"a\" # last\n]"),
        group("3"),
        "[groups.g]\nisolation = \"open\"\n".to_owned(),
        "groups = { h = { servers = [\"a\"] } }\n".to_owned(),
        "groups = 3\n".to_owned(),
    ] {
        let error = join(&before).expect_err(&before).to_string();
        assert!(error.contains("without loss"), "{before}: {error}");
    }
}
