//! Reads the source with `syn`.

use std::collections::BTreeSet;
use std::path::{Path, PathBuf};

use proc_macro2::{TokenStream, TokenTree};
use syn::spanned::Spanned as _;
use syn::visit::{self, Visit};

use super::{CodeLocation, Crate, StructureError, Workspace};

/// Reads every crate below `workspace/crates`.
///
/// # Errors
/// A file cannot be read, or is not Rust or TOML.
pub fn read(workspace: &Path) -> Result<Workspace, StructureError> {
    let crates = workspace.join("crates");
    let mut found = Workspace::new();
    for folder in entries(&crates)?.into_iter().filter(|path| path.join("Cargo.toml").is_file()) {
        found.insert(name(&folder), read_crate(workspace, &folder)?);
    }
    Ok(found)
}

fn read_crate(workspace: &Path, folder: &Path) -> Result<Crate, StructureError> {
    let mut krate = Crate { dependencies: dependencies(&folder.join("Cargo.toml"))?, ..Crate::default() };
    let source = folder.join("src");
    let modules: BTreeSet<String> = entries(&source)?.iter().map(|path| name(path)).collect();
    let mut files = Vec::new();
    rust_files(&source, &mut files)?;
    for path in files {
        let below = path.strip_prefix(&source).unwrap_or(&path);
        let module = below.components().next().map(|part| name(Path::new(part.as_os_str())));
        let module = module.unwrap_or_default();
        if module == "bin" {
            continue;
        }
        let text = text(&path)?;
        let file = syn::parse_file(&text).map_err(|error| StructureError::Parse {
            path: path.clone(),
            reason: format!("line {}: {error}", error.span().start().line),
        })?;
        let place = path.strip_prefix(workspace).unwrap_or(&path).to_owned();
        let mut reader = Reader {
            file: place,
            depth: depth(below),
            tested_lines: 0,
            used: BTreeSet::new(),
            krate: &mut krate,
        };
        reader.visit_file(&file);
        let used = reader.used.into_iter().filter(|used| modules.contains(used) && *used != module);
        let (used, tested) = (used.collect::<BTreeSet<_>>(), reader.tested_lines);
        // The root may name all: it only declares and exports them.
        if !matches!(module.as_str(), "lib" | "main") {
            krate.uses.entry(module.clone()).or_default().extend(used);
        }
        *krate.lines.entry(module).or_default() += text.lines().count().saturating_sub(tested);
    }
    Ok(krate)
}

/// How many modules lie between the crate's root and what is in a file, itself included.
fn depth(below: &Path) -> usize {
    below.components().count() - usize::from(below.file_name().is_some_and(|name| name == "mod.rs"))
}

struct Reader<'a> {
    file: PathBuf,
    /// How many `super` lead to the crate's root.
    depth: usize,
    tested_lines: usize,
    used: BTreeSet<String>,
    krate: &'a mut Crate,
}

impl Reader<'_> {
    fn place(&self, what: String, from: proc_macro2::Span, to: proc_macro2::Span) -> CodeLocation {
        let (first, last) = (from.start().line, to.end().line);
        CodeLocation { file: self.file.clone(), line: first, what, lines: last - first + 1 }
    }

    /// Takes the words of a path from its first on.
    fn path(&mut self, words: &[String]) {
        let supers = words.iter().take_while(|word| *word == "super").count();
        let after = match words.first().map(String::as_str) {
            Some("crate") => words.get(1),
            Some("super") if supers == self.depth => words.get(supers),
            _ => None,
        };
        self.used.extend(after.cloned());
    }

    fn tree(&mut self, tree: &syn::UseTree, before: &mut Vec<String>) {
        match tree {
            syn::UseTree::Path(path) => {
                before.push(path.ident.to_string());
                self.tree(&path.tree, before);
                before.pop();
            }
            syn::UseTree::Name(name) => {
                before.push(name.ident.to_string());
                self.path(&before.clone());
                before.pop();
            }
            syn::UseTree::Rename(name) => {
                before.push(name.ident.to_string());
                self.path(&before.clone());
                before.pop();
            }
            syn::UseTree::Glob(_) => self.path(&before.clone()),
            syn::UseTree::Group(group) => group.items.iter().for_each(|item| self.tree(item, before)),
        }
    }

    /// `crate :: name` among the words of a macro.
    fn tokens(&mut self, tokens: TokenStream) {
        let mut last = [const { String::new() }; 3];
        for token in tokens {
            let word = match token {
                TokenTree::Group(group) => {
                    self.tokens(group.stream());
                    String::new()
                }
                TokenTree::Ident(word) => word.to_string(),
                TokenTree::Punct(sign) => sign.as_char().to_string(),
                TokenTree::Literal(_) => String::new(),
            };
            if last == ["crate", ":", ":"] {
                self.used.insert(word.clone());
            }
            last.rotate_left(1);
            last[2] = word;
        }
    }

    fn unsafety(&mut self, keyword: Option<&syn::Token![unsafe]>) {
        if let Some(keyword) = keyword {
            let place = self.place("unsafe".to_owned(), keyword.span, keyword.span);
            self.krate.unsafes.push(place);
        }
    }

    fn function(&mut self, signature: &syn::Signature, block: &syn::Block) {
        self.unsafety(signature.unsafety.as_ref());
        let place = self.place(signature.ident.to_string(), signature.span(), block.span());
        self.krate.functions.push(place);
    }
}

fn is_test(attributes: &[syn::Attribute]) -> bool {
    attributes.iter().any(|attribute| match &attribute.meta {
        syn::Meta::List(list) => {
            list.path.is_ident("cfg")
                && list.tokens.to_string().split(|c: char| !c.is_alphanumeric()).any(|word| word == "test")
        }
        syn::Meta::Path(path) => path.is_ident("test"),
        syn::Meta::NameValue(_) => false,
    })
}

impl<'ast> Visit<'ast> for Reader<'_> {
    fn visit_item_mod(&mut self, module: &'ast syn::ItemMod) {
        if is_test(&module.attrs) {
            let span = module.span();
            self.tested_lines += span.end().line - span.start().line + 1;
            return;
        }
        // What stands in the same file is one module deeper.
        self.depth += 1;
        visit::visit_item_mod(self, module);
        self.depth -= 1;
    }

    fn visit_item_use(&mut self, item: &'ast syn::ItemUse) {
        if !is_test(&item.attrs) {
            self.tree(&item.tree, &mut Vec::new());
        }
    }

    fn visit_path(&mut self, path: &'ast syn::Path) {
        let words: Vec<String> = path.segments.iter().map(|segment| segment.ident.to_string()).collect();
        self.path(&words);
        visit::visit_path(self, path);
    }

    fn visit_macro(&mut self, called: &'ast syn::Macro) {
        self.tokens(called.tokens.clone());
        visit::visit_macro(self, called);
    }

    fn visit_item_fn(&mut self, function: &'ast syn::ItemFn) {
        if is_test(&function.attrs) {
            return;
        }
        self.function(&function.sig, &function.block);
        visit::visit_item_fn(self, function);
    }

    fn visit_impl_item_fn(&mut self, function: &'ast syn::ImplItemFn) {
        if is_test(&function.attrs) {
            return;
        }
        self.function(&function.sig, &function.block);
        visit::visit_impl_item_fn(self, function);
    }

    fn visit_expr_unsafe(&mut self, block: &'ast syn::ExprUnsafe) {
        self.unsafety(Some(&block.unsafe_token));
        visit::visit_expr_unsafe(self, block);
    }

    fn visit_item_impl(&mut self, item: &'ast syn::ItemImpl) {
        self.unsafety(item.unsafety.as_ref());
        visit::visit_item_impl(self, item);
    }
}

/// Crates of this workspace among a package's dependencies.
fn dependencies(manifest: &Path) -> Result<BTreeSet<String>, StructureError> {
    let parsed: toml::Table = text(manifest)?.parse().map_err(|error: toml::de::Error| {
        StructureError::Parse { path: manifest.to_owned(), reason: error.to_string() }
    })?;
    let table = parsed.get("dependencies").and_then(toml::Value::as_table);
    let names = table.into_iter().flat_map(toml::Table::keys);
    Ok(names.filter_map(|name| name.strip_prefix("fsage-")).map(str::to_owned).collect())
}

fn name(path: &Path) -> String {
    path.file_stem().unwrap_or_default().to_string_lossy().into_owned()
}

fn text(path: &Path) -> Result<String, StructureError> {
    std::fs::read_to_string(path).map_err(|source| StructureError::Read { path: path.to_owned(), source })
}

/// What lies in a folder, sorted.
fn entries(folder: &Path) -> Result<Vec<PathBuf>, StructureError> {
    let failed = |source| StructureError::Read { path: folder.to_owned(), source };
    let found: Result<Vec<PathBuf>, _> =
        std::fs::read_dir(folder).map_err(failed)?.map(|entry| entry.map(|entry| entry.path())).collect();
    let mut found = found.map_err(failed)?;
    found.sort();
    Ok(found)
}

fn rust_files(folder: &Path, found: &mut Vec<PathBuf>) -> Result<(), StructureError> {
    for path in entries(folder)? {
        if path.is_dir() {
            rust_files(&path, found)?;
        } else if path.extension().is_some_and(|extension| extension == "rs") {
            found.push(path);
        }
    }
    Ok(())
}
