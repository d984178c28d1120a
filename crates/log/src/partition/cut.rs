//! Cutting off what never became durable, before a log that failed is opened again.
//!
//! After a failed sync the operating system may take the unsynced bytes for clean: they can still be read, and a later
//! sync says nothing about them. Nobody was told that they are stored, so they go.

use riparian_types::Offset;

use super::PartitionLog;
use crate::{disk::DiskError, files::Kind, scan::Scan};

impl PartitionLog {
    /// Removes everything beyond the durable end from the files. The log must be closed.
    pub(crate) fn cut_off_undurable(&self) -> Result<(), DiskError> {
        let durable_end = self.durable_end();
        let bases: Vec<Offset> = self.state().segments.iter().map(|segment| segment.base_offset).collect();
        let Some(first) = bases.first().copied() else { return Ok(()) };
        let (kept, beyond): (Vec<_>, Vec<_>) =
            bases.into_iter().partition(|base| *base < durable_end || *base == first);
        for base_offset in beyond {
            for kind in [Kind::Log, Kind::OffsetIndex, Kind::TimeIndex, Kind::Snapshot] {
                self.disk.remove_file_if_there(&kind.path(&self.dir, base_offset))?;
            }
        }
        if let Some(&last) = kept.last() {
            self.cut_segment(last, durable_end)?;
        }
        self.disk.sync_dir(&self.dir)
    }

    fn cut_segment(&self, base_offset: Offset, durable_end: Offset) -> Result<(), DiskError> {
        let path = Kind::Log.path(&self.dir, base_offset);
        let scan =
            Scan { disk: &*self.disk, path: &path, position: 0, next_offset: base_offset, gaps: true, verify: false };
        let mut cut = None;
        let end = scan.run(|position, batch| {
            if batch.header().base_offset >= durable_end {
                cut.get_or_insert(position);
            }
        });
        let cut = match end {
            Ok(end) => cut.unwrap_or(end.position),
            // A file that was never made holds nothing.
            Err(error) if error.is_not_found() => return Ok(()),
            Err(error) => return Err(error),
        };
        for kind in [Kind::OffsetIndex, Kind::TimeIndex] {
            self.disk.remove_file_if_there(&kind.path(&self.dir, base_offset))?;
        }
        self.disk.truncate(&path, cut)?;
        self.disk.sync_data(&path)
    }
}
