//! Comments in Codex's TOML.

use std::fs;

use super::{connect, parsed, put};
use crate::client::Fence;

/// Codex's file with an entry of ForgeFS, and without it.
const TAKEN_OUT: &[(&str, &str)] = &[
    (
        "# License\n\n# [mcp_servers.old]\n# command = \"precious\"\n\n[mcp_servers.forgefs]\ncommand = \"x\"\n\n# b\n\
         [mcp_servers.b]\ncommand = \"y\"\n",
        "# License\n\n# [mcp_servers.old]\n# command = \"precious\"\n\n# b\n[mcp_servers.b]\ncommand = \"y\"\n",
    ),
    ("# License\n\n# ours\n[mcp_servers.forgefs]\ncommand = \"x\"\n", "# License\n"),
    (
        "a = 1\n\n# [mcp_servers.old]\n# command = \"precious\"\n[mcp_servers.forgefs]\ncommand = \"x\"\n",
        "a = 1\n\n# [mcp_servers.old]\n# command = \"precious\"\n",
    ),
    (
        "a = 1\n\n[mcp_servers.forgefs]\ncommand = \"x\"\n\n# mine\n\n[mcp_servers.forgefs.env]\nA = \"1\"\n[b]\n",
        "a = 1\n\n# mine\n\n[b]\n",
    ),
];

/// Codex's file with entries in every form, and without that of ForgeFS.
const IN_EVERY_FORM: &[(&str, &str)] = &[
    (
        "[mcp_servers]\n# a\na = { command = \"x\" }\n# ours\nforgefs = { command = \"y\" } # here\n# b\nb.command = \"z\"\n\
         # last\n",
        "[mcp_servers]\n# a\na = { command = \"x\" }\n# ours\n# b\nb.command = \"z\"\n# last\n",
    ),
    (
        "[mcp_servers]\n# a\na.command = \"x\"\n# ours\nforgefs.command = \"y\"\nforgefs.args = []\n\n# c\n[c]\n",
        "[mcp_servers]\n# a\na.command = \"x\"\n# ours\n\n# c\n[c]\n",
    ),
    (
        "# top\nmcp_servers.forgefs.command = \"y\"\n# a\nmcp_servers.a = { command = \"x\" }\n",
        "# top\n# a\nmcp_servers.a = { command = \"x\" }\n",
    ),
    (
        "mcp_servers = { a.command = \"x\", forgefs.command = \"y\", forgefs.args = [] } # all\n",
        "mcp_servers = { a.command = \"x\" } # all\n",
    ),
];

#[test]
fn comments_about_other_things_stay_in_toml() {
    for (before, after) in IN_EVERY_FORM {
        let fence = Fence::new();
        let file = put(&fence, ".codex/config.toml", before);
        // Updated in its place first, and no line of others moves.
        connect(&fence, &["codex", "--yes"]).success();
        let updated = fs::read_to_string(&file).expect("a file");
        assert_eq!(parsed(&file)["mcp_servers"]["forgefs"]["command"], env!("CARGO_BIN_EXE_forgefs"), "{updated}");
        let mut lines = updated.lines();
        for line in before.lines().filter(|line| !line.contains("forgefs")) {
            assert!(lines.any(|new| new == line), "no {line:?} in\n{updated}");
        }
        fs::write(&file, before).expect("written");
        connect(&fence, &["codex", "--undo", "--yes"]).success();
        assert_eq!(fs::read_to_string(&file).expect("a file"), *after, "of {before}");
        // Added to what is left, and taken out again.
        let file = put(&fence, ".codex/config.toml", after.to_string() + "x = 1\n");
        connect(&fence, &["codex", "--yes"]).success();
        let text = fs::read_to_string(&file).expect("a file");
        assert_eq!(parsed(&file)["mcp_servers"]["forgefs"]["command"], env!("CARGO_BIN_EXE_forgefs"), "{text}");
        let mut lines = text.lines();
        for line in after.lines().filter(|line| !line.starts_with("mcp_servers = {")) {
            assert!(lines.any(|new| new == line), "no {line:?} in\n{text}");
        }
    }
    for (before, after) in TAKEN_OUT {
        let fence = Fence::new();
        let file = put(&fence, ".codex/config.toml", before);
        connect(&fence, &["codex", "--undo", "--yes"]).success();
        assert_eq!(fs::read_to_string(&file).expect("a file"), *after, "of {before}");
    }
    let fence = Fence::new();
    let file = put(&fence, ".codex/config.toml", "[mcp_servers.forgefs]\ncommand = \"old\" # c\nargs = [] # d\n");
    connect(&fence, &["codex", "--yes"]).success();
    let after = fs::read_to_string(&file).expect("a file");
    assert!(after.contains("\" # c\n") && after.contains("] # d\n") && !after.contains("old"), "{after}");
}
