//! Types of all servers and tools for people's editors: `tools.d.ts` and `tools.pyi`, and the script API they extend.
//!
//! They refer to the tools' own stubs instead of repeating them: a changed tool changes no file here, and no text of a
//! server but its wire names stands in one.

use std::collections::{BTreeMap, HashSet};

use minijinja::{Value, context};

use crate::text::{self, Language};
use crate::{ServerStubs, ToolStub, forge, templates};

/// Longest wire name that becomes a property beside the identifier.
const MAX_WIRE: usize = 128;

/// Files at the root of a stub tree, by name: `forge.d.ts` and `forge.pyi` without the servers, and the types of the
/// servers in `tools.d.ts` and `tools.pyi`, or `tools_` if a server is called so: its folder would hide the module.
pub fn editor_files(servers: &[&ServerStubs]) -> BTreeMap<String, String> {
    let mut servers = servers.to_vec();
    servers.sort_unstable_by(|a, b| a.ident.cmp(&b.ident));
    let mut name = "tools".to_owned();
    while servers.iter().any(|server| server.ident.eq_ignore_ascii_case(&name)) {
        name.push('_');
    }
    let api = forge::editor_pyi();
    BTreeMap::from([
        (format!("{name}.d.ts"), typescript(&servers)),
        (format!("{name}.pyi"), python(&servers, &api)),
        ("forge.d.ts".to_owned(), forge::editor_dts()),
        ("forge.pyi".to_owned(), api),
    ])
}

fn typescript(servers: &[&ServerStubs]) -> String {
    let servers = servers.iter().map(|server| {
        let ident = server.ident.as_str();
        let tools = server.tools.iter().map(|tool| {
            let ident = tool.ident.as_str();
            context! { key => ident, is => format!("typeof import(\"./{}\").{ident}", tool.path()) }
        });
        let wired = server.tools.iter().filter(|tool| is_wired(server, &tool.name)).map(|tool| {
            let key = text::quoted(&tool.name, Language::TypeScript);
            context! { key, is => format!("{ident}[\"{}\"]", tool.ident) }
        });
        let categories = members(server).into_iter().filter_map(|(category, tools)| {
            let names: Vec<String> = tools.iter().map(|tool| format!("\"{}\"", tool.ident)).collect();
            Some(context! { key => category?, is => format!("Pick<{ident}, {}>", names.join(" | ")) })
        });
        let name = (server.name != server.ident && server.name.len() <= MAX_WIRE)
            .then(|| text::quoted(&server.name, Language::TypeScript));
        context! { ident, name, members => tools.chain(wired).chain(categories).collect::<Vec<_>>() }
    });
    templates::render(templates::TOOLS_DTS, context! { servers => servers.collect::<Vec<Value>>() })
}

/// True for a wire name that is a property of its own: neither an identifier nor a category of the server.
fn is_wired(server: &ServerStubs, name: &str) -> bool {
    let is_ident = server.tools.binary_search_by(|tool| tool.ident.as_str().cmp(name)).is_ok();
    name.len() <= MAX_WIRE && !is_ident && !server.categories.iter().any(|category| category == name)
}

fn python(servers: &[&ServerStubs], api: &str) -> String {
    let idents = servers.iter().flat_map(|server| server.tools.iter().map(|tool| tool.ident.as_str()));
    let mut taken: HashSet<String> =
        idents.chain(servers.iter().map(|server| server.ident.as_str())).map(str::to_owned).collect();
    let mut imports = Vec::new();
    let servers: Vec<Value> = servers
        .iter()
        .map(|server| {
            let mut names = BTreeMap::new();
            for tool in &server.tools {
                let mut name = format!("_{}_{}", server.ident, tool.ident);
                while !taken.insert(name.clone()) {
                    name.push('_');
                }
                imports.push(format!("from .{} import {} as {name}", tool.path().replace('/', "."), tool.ident));
                names.insert(tool.ident.as_str(), name);
            }
            let lines = |tools: &[&ToolStub]| -> Vec<String> {
                tools.iter().map(|tool| format!("{} = {}", tool.ident, names[tool.ident.as_str()])).collect()
            };
            let every: Vec<&ToolStub> = server.tools.iter().collect();
            let categories = members(server)
                .into_iter()
                .filter_map(|(category, tools)| Some(context! { ident => category?, lines => lines(&tools) }));
            context! { ident => server.ident.as_str(), lines => lines(&every), categories => categories.collect::<Vec<_>>() }
        })
        .collect();
    templates::render(templates::TOOLS_PYI, context! { api => defined(api), imports, servers })
}

/// Names that a stub defines and scripts use: functions and variables.
fn defined(stub: &str) -> Vec<String> {
    let name = |line| match str::strip_prefix(line, "def ") {
        Some(function) => function.split_once('(').map(|(name, _)| name),
        None => line.split_once(": ").map(|(name, _)| name),
    };
    let is_name = |name: &&str| name.bytes().all(|byte| byte.is_ascii_lowercase() || byte == b'_');
    stub.lines().filter_map(name).filter(is_name).map(str::to_owned).collect()
}

/// Tools of each category, and those without one.
fn members(server: &ServerStubs) -> BTreeMap<Option<&str>, Vec<&ToolStub>> {
    let mut members: BTreeMap<Option<&str>, Vec<&ToolStub>> = BTreeMap::new();
    for tool in &server.tools {
        members.entry(tool.category.as_deref()).or_default().push(tool);
    }
    members
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;
    use crate::{ServerDef, assign_idents, generate};

    fn files(servers: &[(&str, &[&str])]) -> BTreeMap<String, String> {
        let names: Vec<&str> = servers.iter().map(|(name, _)| *name).collect();
        let stubs: Vec<ServerStubs> = servers
            .iter()
            .zip(assign_idents(&names))
            .map(|((name, tools), ident)| {
                let tools = tools.iter().map(|tool| json!({ "name": tool, "description": "evil */ \"\"\"" })).collect();
                generate(ServerDef { name: (*name).to_owned(), tools, ..ServerDef::default() }, &ident)
            })
            .collect();
        let forwards = editor_files(&stubs.iter().collect::<Vec<_>>());
        assert_eq!(forwards, editor_files(&stubs.iter().rev().collect::<Vec<_>>()), "the order of servers counts");
        forwards
    }

    #[test]
    fn the_folder_of_a_server_hides_no_file() {
        let names = |servers: &[(&str, &[&str])]| files(servers).into_keys().collect::<Vec<_>>();
        assert_eq!(names(&[("shop", &["pay"])]), ["forge.d.ts", "forge.pyi", "tools.d.ts", "tools.pyi"]);
        let both = names(&[("Tools", &["pay"]), ("tools_", &["pay"])]);
        assert_eq!(both, ["forge.d.ts", "forge.pyi", "tools__.d.ts", "tools__.pyi"]);
    }

    #[test]
    fn names_that_would_meet_in_one_file_do_not() {
        let files = files(&[("a_b", &["c", "_a_b_c"]), ("a", &["b_c", "_a_b_c"]), ("_a_b_c", &["c"])]);
        let python = &files["tools.pyi"];
        let aliases: Vec<&str> =
            python.lines().filter_map(|line| line.strip_prefix("from .")?.split(" as ").nth(1)).collect();
        let distinct: HashSet<&str> = aliases.iter().copied().collect();
        assert_eq!(aliases.len(), distinct.len(), "{python}");
        assert!(!distinct.contains("_a_b_c"), "{python}");
    }

    #[test]
    fn no_text_of_a_server_leaves_its_name_and_long_names_are_left_out() {
        let long = "n".repeat(100_000);
        let files = files(&[("x\ny */ \"", &["\"]: any }\u{2028} declare const evil: any; //", &long, "plain"])]);
        for (name, text) in &files {
            assert!(!text.contains("evil */") && !text.contains('\u{2028}'), "{name}: {text}");
            assert!(text.len() < 8_000, "{name}: {} bytes", text.len());
        }
        let types = &files["tools.d.ts"];
        assert!(types.contains(r#"    '"]: any }\u2028 declare const evil: any; //': x_y____"#), "{types}");
        assert_eq!(types.lines().filter(|line| line.starts_with("declare const ")).count(), 1, "{types}");
    }

    #[test]
    fn every_name_of_the_api_that_scripts_use_is_passed_on() {
        let names = defined(&forge::editor_pyi());
        let wanted = "call_tool try_call defer parallel read_resource prompt ls cat search stash forge results json";
        assert_eq!(names.join(" "), wanted);
    }
}
