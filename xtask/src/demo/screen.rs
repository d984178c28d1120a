//! A block of text that is redrawn in place on a terminal, or printed when it changed elsewhere.

use std::io::{IsTerminal as _, Write as _};

use crate::shell;

pub(super) struct Screen {
    is_terminal: bool,
    lines_drawn: usize,
    last: String,
}

/// What is drawn: the table, and a line about progress that alone is no reason to print again.
pub(super) struct Picture {
    pub(super) table: String,
    pub(super) progress: String,
}

impl Screen {
    pub(super) fn new() -> Self {
        Self { is_terminal: std::io::stdout().is_terminal(), lines_drawn: 0, last: String::new() }
    }

    pub(super) fn draw(&mut self, picture: &Picture) {
        if !self.is_terminal {
            if picture.table != self.last {
                self.last.clone_from(&picture.table);
                shell::print_line(&format!("\n{}\n{}", picture.table, picture.progress));
            }
            return;
        }
        let text = format!("{}\n{}\n", picture.table, picture.progress);
        let mut stdout = std::io::stdout().lock();
        // Up to the first line of the last picture, and clear from there.
        let up = if self.lines_drawn > 0 { format!("\x1b[{}A\x1b[J", self.lines_drawn) } else { String::new() };
        let _ = write!(stdout, "{up}{text}");
        let _ = stdout.flush();
        self.lines_drawn = text.lines().count();
    }

    /// A line that stays; the next picture is drawn below it.
    pub(super) fn note(&mut self, line: &str) {
        self.finish();
        shell::print_line(line);
    }

    /// Leaves the last picture where it is.
    pub(super) fn finish(&mut self) {
        self.lines_drawn = 0;
        self.last.clear();
    }
}
