//! Which processes have copies of which tasks.

use alloc::{vec, vec::Vec};

/// Which processes have a copy of each task, in rows of equal width.
#[derive(Clone)]
pub(crate) struct Copies {
    width: usize,
    cells: Vec<u32>,
    lengths: Vec<u32>,
}

impl Copies {
    pub(crate) fn new(task_count: usize, width: usize) -> Self {
        Self { width, cells: vec![0; task_count * width], lengths: vec![0; task_count] }
    }

    pub(crate) fn of(&self, task: usize) -> &[u32] {
        &self.cells[task * self.width..][..self.lengths[task] as usize]
    }

    /// The rows of all tasks.
    pub(crate) fn rows(&self) -> impl Iterator<Item = &[u32]> {
        (0..self.lengths.len()).map(|task| self.of(task))
    }

    pub(crate) fn add(&mut self, task: usize, process: u32) {
        self.cells[task * self.width + self.lengths[task] as usize] = process;
        self.lengths[task] += 1;
    }

    pub(crate) fn holds(&self, task: usize, process: u32) -> bool {
        self.of(task).contains(&process)
    }

    /// Sets what was added first to each task.
    pub(crate) fn set_first(&mut self, processes: &[u32]) {
        for (row, &process) in core::iter::zip(self.cells.chunks_mut(self.width), processes) {
            row[0] = process;
        }
    }

    /// Puts a copy that one process has on another.
    pub(crate) fn replace(&mut self, task: usize, old: u32, new: u32) {
        let row = &mut self.cells[task * self.width..][..self.lengths[task] as usize];
        let cell = row.iter_mut().find(|cell| **cell == old);
        *cell.expect("the task is there") = new;
    }
}
