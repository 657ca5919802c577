//! Writes the stubs of catalog files as trees, for type checkers and formatters: `tree` as agents read them, and `editors`
//! with the files that `forgefs stubs generate` adds for people's editors.
//!
//! `write_stubs OUT FILE…`, where each file is a `tools/list` result, an array of tools or one tool, and names its
//! server.

use std::error::Error;
use std::fs;
use std::path::{Path, PathBuf};

use forgefs_stubgen as stubgen;
use serde_json::Value;
use stubgen::{ServerDef, ServerStubs, View};

fn main() -> Result<(), Box<dyn Error>> {
    let mut args = std::env::args_os().skip(1).map(PathBuf::from);
    let out = args.next().ok_or("usage: write_stubs OUT FILE…")?;
    let mut servers = Vec::new();
    for file in args {
        let name = file.file_stem().and_then(|stem| stem.to_str()).ok_or("a catalog's file name names its server")?;
        let Some(tools) = tools(&serde_json::from_str(&fs::read_to_string(&file)?)?) else { continue };
        servers.push(ServerDef { name: name.to_owned(), tools, ..ServerDef::default() });
    }
    let names: Vec<&str> = servers.iter().map(|server| server.name.as_str()).collect();
    let idents = stubgen::assign_idents(&names);
    let (tree, editors) = (out.join("tree"), out.join("editors"));
    fs::create_dir_all(&tree)?;
    fs::create_dir_all(&editors)?;
    fs::write(tree.join("forge.pyi"), stubgen::forge_pyi())?;
    fs::write(tree.join("forge.d.ts"), stubgen::forge_dts())?;
    let stubs: Vec<ServerStubs> =
        servers.into_iter().zip(&idents).map(|(server, ident)| stubgen::generate(server, ident)).collect();
    for server in &stubs {
        write_server(&tree, server)?;
        write_server(&editors, server)?;
    }
    for (name, text) in stubgen::editor_files(&stubs.iter().collect::<Vec<_>>()) {
        fs::write(editors.join(name), text)?;
    }
    Ok(())
}

fn tools(catalog: &Value) -> Option<Vec<Value>> {
    let listed = catalog.as_array().or_else(|| catalog.get("tools")?.as_array());
    listed.cloned().or_else(|| catalog.get("name").map(|_| vec![catalog.clone()]))
}

fn write_server(out: &Path, server: &ServerStubs) -> Result<(), Box<dyn Error>> {
    let folder = out.join(&server.ident);
    fs::create_dir_all(&folder)?;
    fs::write(folder.join("__init__.pyi"), server.init_pyi(|_| None))?;
    for tool in &server.tools {
        let folder = tool.category.as_ref().map_or_else(|| folder.clone(), |category| folder.join(category));
        fs::create_dir_all(&folder)?;
        for (suffix, view) in View::ALL {
            fs::write(folder.join(format!("{}{suffix}", tool.ident)), tool.view(view, None))?;
        }
    }
    Ok(())
}
