//! Names of tools: by `operationId`, else by method and path.

use std::collections::HashMap;

use base::text::head;

/// Most bytes of a name.
const MAX_NAME: usize = 100;

/// Names that are taken, each with the first number that was not tried behind it.
#[derive(Default)]
pub(super) struct Names(HashMap<String, u32>);

impl Names {
    /// Name of an operation. A second operation with the same id is named by its method and path; where that is taken
    /// too, it is numbered.
    pub(super) fn take(&mut self, id: Option<&str>, method: &str, path: &str) -> String {
        let given = id.map(|id| plain(id, &['_', '-', '.', '/'])).filter(|name| name.contains(char::is_alphanumeric));
        if let Some(name) = given.filter(|name| !self.0.contains_key(name)) {
            return self.numbered(name);
        }
        let path = path.replace(['{', '}'], "");
        self.numbered(plain(&format!("{method}_{}", path.trim_matches('/')), &['_']))
    }

    /// Takes a name, numbered where it is taken.
    pub(super) fn numbered(&mut self, name: String) -> String {
        let Some(next) = self.0.get(&name).copied() else {
            self.0.insert(name.clone(), 2);
            return name;
        };
        let mut others = (next..).map(|number| (number, format!("{name}_{number}")));
        let Some((number, free)) = others.find(|(_, other)| !self.0.contains_key(other)) else { return name };
        self.0.extend([(name, number + 1), (free.clone(), 2)]);
        free
    }
}

/// `text` with `_` in place of runs of characters that no name has.
fn plain(text: &str, kept: &[char]) -> String {
    let mut name = String::new();
    for c in head(text.trim(), 4 * MAX_NAME).chars() {
        match c {
            c if c.is_ascii_alphanumeric() || kept.contains(&c) => name.push(c),
            _ if name.ends_with('_') => {}
            _ => name.push('_'),
        }
    }
    head(name.trim_matches(['_', '/', '.', '-']), MAX_NAME).to_owned()
}

/// Folder of a tag; `None` if nothing of it can be the name of one.
pub(super) fn category(tag: &str) -> Option<String> {
    let name = plain(tag, &['_', '-', '.']).to_ascii_lowercase();
    let name = head(&name, 64).trim_start_matches(|c: char| !c.is_ascii_alphanumeric());
    let is_taken = ["readme.md", "__init__.pyi", "resources", "prompts", "stderr"].contains(&name);
    match name {
        "" => None,
        name if is_taken => Some(format!("{name}_")),
        name => Some(name.to_owned()),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_operation_has_a_name_of_its_own() {
        let mut names = Names::default();
        let long = "x".repeat(1000);
        for (id, method, path, name) in [
            (Some("listPets"), "get", "/pets", "listPets"),
            (Some("repos/get"), "get", "/repos/{owner}/{repo}", "repos/get"),
            (Some("listPets"), "get", "/v2/pets", "get_v2_pets"),
            (None, "get", "/v2/pets/", "get_v2_pets_2"),
            (None, "put", "/pets/{petId}/photo.png", "put_pets_petId_photo_png"),
            (Some("../../etc/passwd"), "get", "/a", "etc/passwd"),
            (Some("List the pets…\n\"x\""), "get", "/b", "List_the_pets_x"),
            (Some("Ω≈"), "get", "/c", "get_c"),
            (Some(""), "post", "/", "post"),
            (Some(long.as_str()), "get", "/d", &long[..100]),
            (Some(long.as_str()), "get", "/e", "get_e"),
        ] {
            assert_eq!(names.take(id, method, path), name, "{id:?} {path}");
        }
        for (name, free) in [("a_3", "a_3"), ("a", "a"), ("a", "a_2"), ("a", "a_4"), ("a_4", "a_4_2"), ("a", "a_5")] {
            assert_eq!(names.numbered(name.to_owned()), free);
        }
        for (tag, folder) in [
            ("Pets", Some("pets")),
            ("Git Data / refs", Some("git_data_refs")),
            ("resources", Some("resources_")),
            ("..", None),
            ("-x", Some("x")),
        ] {
            assert_eq!(category(tag).as_deref(), folder, "{tag}");
        }
    }
}
