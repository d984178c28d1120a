//! What a benchmark found, as text: tables, targets, and a page of which every benchmark owns its section.
//!
//! ```text
//! ## heartbeat
//! <!-- bench heartbeat -->
//! ...                          renewed by the benchmark, everything else stays
//! <!-- end of heartbeat -->
//! ```

use std::{fmt::Write as _, fs, io::Write as _, path::Path};

use anyhow::{Context as _, Result};

/// Progress and complaints, for standard error.
pub(crate) fn say(line: &str) {
    // A reader that went away is no reason to fail.
    let _ = writeln!(std::io::stderr().lock(), "{}", line.trim_end());
}

/// A result, for standard output.
pub(crate) fn print(text: &str) {
    let _ = writeln!(std::io::stdout().lock(), "{}", text.trim_end());
}

#[derive(Clone, Debug)]
pub(crate) struct Table {
    title: String,
    header: Vec<String>,
    rows: Vec<Vec<String>>,
}

impl Table {
    pub(crate) fn new(title: &str, header: &[&str]) -> Self {
        let header = header.iter().map(|&cell| cell.to_owned()).collect();
        Self { title: title.to_owned(), header, rows: Vec::new() }
    }

    pub(crate) fn row(&mut self, cells: Vec<String>) {
        debug_assert_eq!(cells.len(), self.header.len(), "{cells:?}");
        self.rows.push(cells);
    }
}

/// What was wanted and what came of it.
#[derive(Clone, Debug)]
struct Target {
    wanted: String,
    found: String,
    is_met: bool,
}

/// What one benchmark found.
#[derive(Clone, Debug, Default)]
pub(crate) struct Section {
    /// The command that makes it.
    command: String,
    /// What was done, a sentence per line.
    about: Vec<String>,
    tables: Vec<Table>,
    targets: Vec<Target>,
}

impl Section {
    pub(crate) fn new(command: String, about: &[&str]) -> Self {
        Self { command, about: about.iter().map(|&line| line.to_owned()).collect(), ..Self::default() }
    }

    pub(crate) fn table(&mut self, table: Table) {
        self.tables.push(table);
    }

    pub(crate) fn note(&mut self, line: String) {
        self.about.push(line);
    }

    pub(crate) fn target(&mut self, wanted: &str, found: String, is_met: bool) {
        self.targets.push(Target { wanted: wanted.to_owned(), found, is_met });
    }

    pub(crate) fn forget_targets(&mut self) {
        self.targets.clear();
    }

    /// How many targets are missed.
    pub(crate) fn missed(&self) -> usize {
        self.targets.iter().filter(|target| !target.is_met).count()
    }

    pub(crate) fn to_markdown(&self) -> String {
        let mut text = format!("`{}`\n\n", self.command);
        if !self.about.is_empty() {
            let _ = writeln!(text, "{}\n", self.about.join("\n"));
        }
        for table in &self.tables {
            if !table.title.is_empty() {
                let _ = writeln!(text, "{}:\n", table.title);
            }
            let rule: Vec<&str> = table.header.iter().map(|_| "---").collect();
            let _ = writeln!(text, "| {} |\n| {} |", table.header.join(" | "), rule.join(" | "));
            for row in &table.rows {
                let _ = writeln!(text, "| {} |", row.join(" | "));
            }
            text.push('\n');
        }
        if !self.targets.is_empty() {
            text.push_str("| wanted | found | |\n| --- | --- | --- |\n");
            for Target { wanted, found, is_met } in &self.targets {
                let _ = writeln!(text, "| {wanted} | {found} | {} |", if *is_met { "met" } else { "**missed**" });
            }
        }
        text.trim_end().to_owned() + "\n"
    }
}

/// The page with the figures of all benchmarks.
pub(crate) struct Page<'a> {
    path: &'a Path,
}

impl<'a> Page<'a> {
    pub(crate) fn at(path: &'a Path) -> Self {
        Self { path }
    }

    /// Puts a section in the place of the one before; a section that the page does not have goes to its end.
    pub(crate) fn renew(&self, name: &str, section: &Section) -> Result<()> {
        let page = fs::read_to_string(self.path).with_context(|| format!("cannot read {}", self.path.display()))?;
        let renewed = renewed(&page, name, &section.to_markdown());
        fs::write(self.path, renewed).with_context(|| format!("cannot write {}", self.path.display()))
    }
}

fn renewed(page: &str, name: &str, text: &str) -> String {
    let (begin, end) = (format!("<!-- bench {name} -->\n"), format!("<!-- end of {name} -->\n"));
    let old = page.find(&begin).and_then(|from| Some((from + begin.len(), page[from..].find(&end)? + from)));
    match old {
        Some((from, to)) => format!("{}{text}{}", &page[..from], &page[to..]),
        None => format!("{}\n\n## {name}\n\n{begin}{text}{end}", page.trim_end()),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_section_is_renewed_alone() {
        let page = renewed("# Page\n", "one", "first\n");
        let page = renewed(&page, "two", "second\n");
        let page = renewed(&page, "one", "third\n");
        assert_eq!(
            page,
            "# Page\n\n## one\n\n<!-- bench one -->\nthird\n<!-- end of one -->\n\n## two\n\n<!-- bench two -->\nsecond\n\
             <!-- end of two -->\n"
        );
    }

    #[test]
    fn a_section_shows_tables_and_targets() {
        let mut section = Section::new("cargo xtask bench x".to_owned(), &["Two servers."]);
        let mut table = Table::new("us each", &["a", "b"]);
        table.row(vec!["1".to_owned(), "2".to_owned()]);
        section.table(table);
        section.target("at most 1", "2".to_owned(), false);
        assert_eq!(section.missed(), 1);
        assert_eq!(
            section.to_markdown(),
            "`cargo xtask bench x`\n\nTwo servers.\n\nus each:\n\n| a | b |\n| --- | --- |\n| 1 | 2 |\n\n\
             | wanted | found | |\n| --- | --- | --- |\n| at most 1 | 2 | **missed** |\n"
        );
    }
}
