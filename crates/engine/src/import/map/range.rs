//! Operations on the data of files.

use fsage_model::operation::{Action, BLOCK_BYTES, DirectoryEntry, Operation};

use super::{Mapper, Object, Reason, plain};

/// Largest file that there can be.
const FILE_BYTES: u64 = i64::MAX.cast_unsigned();

const NAMELESS: Reason = "file that has no name any more";
const BEYOND: Reason = "beyond what a file can have";
const AT_END: Reason = "read at the end of a file";

/// The block boundary at or below.
const fn boundary(offset: u64) -> u64 {
    offset & !(BLOCK_BYTES - 1)
}

impl Mapper<'_> {
    /// An operation on a file under its first name, with what a row has of every file.
    pub(super) fn on(&self, action: Action, object: u32) -> Operation {
        let Some(object) = self.objects.get(object) else {
            return plain(action, 0, DirectoryEntry::default());
        };
        let place = object.places.first().copied().unwrap_or_default();
        Operation { size: object.size, version: object.version, ..plain(action, object.file, place) }
    }

    /// A file that has a name, and the end of a range in it.
    fn named(&self, object: u32, offset: u64, length: u64) -> Result<(&Object, u64), Reason> {
        let object = self.objects.get(object).filter(|object| !object.places.is_empty()).ok_or(NAMELESS)?;
        let end = offset.checked_add(length).filter(|end| *end <= FILE_BYTES - BLOCK_BYTES).ok_or(BEYOND)?;
        Ok((object, end))
    }

    /// The file must have reached to `end` already: so it was there before, and that large.
    fn must_reach(&mut self, number: u32, end: u64) {
        let surveys = self.surveys();
        let Some(object) = self.objects.get_mut(number).filter(|object| surveys && !object.exact) else {
            return;
        };
        let lack = end.saturating_sub(object.size);
        object.size += lack;
        if let Some(need) = object.need.and_then(|need| self.needs.get_mut(need)) {
            need.size += lack;
            need.existed |= end > 0;
        }
    }

    /// Whether it is settled that the file was there before.
    fn existed(&self, object: &Object) -> bool {
        let needs = self.known.unwrap_or(&self.needs);
        object.need.and_then(|need| needs.get(need)).is_some_and(|need| need.existed)
    }

    /// A file was seen to have `size` bytes.
    pub fn seen_size(&mut self, object: u32, size: u64) {
        if size <= FILE_BYTES - BLOCK_BYTES {
            self.must_reach(object, size);
        }
    }

    /// The size of a file as far as is known.
    pub fn size(&self, object: u32) -> u64 {
        self.objects.get(object).map_or(0, |object| object.size)
    }

    /// Reads what is there of a range.
    pub fn read(&mut self, number: u32, offset: u64, length: u64) -> Result<(), Reason> {
        let (_, end) = self.named(number, offset, length)?;
        if length == 0 {
            return Err(AT_END);
        }
        self.must_reach(number, end);
        let size = self.size(number);
        if offset >= size {
            return Err(AT_END);
        }
        if end > size {
            self.changed("read cut at the end of the file");
        }
        let (from, end) = (boundary(offset), end.min(size));
        if from != offset || (end != size && boundary(end) != end) {
            self.changed("read widened to whole blocks");
        }
        let length = end.next_multiple_of(BLOCK_BYTES) - from;
        self.emit(self.on(Action::RandomRead { offset: from, length, accesses: 1 }, number));
        Ok(())
    }

    /// Reads a whole file.
    pub fn read_whole(&mut self, number: u32) -> Result<(), Reason> {
        self.named(number, 0, 0)?;
        self.emit(self.on(Action::Read { length: 0 }, number));
        Ok(())
    }

    /// Writes a whole file again.
    pub fn overwrite(&mut self, number: u32) -> Result<(), Reason> {
        self.named(number, 0, 0)?;
        self.emit_written(Action::Overwrite, number);
        Ok(())
    }

    /// Writes a range, wherever it lies.
    pub fn write(&mut self, number: u32, offset: u64, length: u64) -> Result<(), Reason> {
        let (object, end) = self.named(number, offset, length)?;
        if length == 0 {
            return Err("wrote nothing");
        }
        if !object.exact && !object.appended && self.existed(object) {
            self.must_reach(number, end);
        }
        self.put_range(number, offset, end);
        Ok(())
    }

    /// Writes at the end; says where that is afterwards.
    pub fn append(&mut self, number: u32, length: u64) -> Result<u64, Reason> {
        let size = self.size(number);
        let (_, end) = self.named(number, size, length)?;
        if length == 0 {
            return Err("wrote nothing");
        }
        if let Some(object) = self.objects.get_mut(number) {
            object.appended = true;
        }
        self.put_range(number, size, end);
        Ok(end)
    }

    fn put_range(&mut self, number: u32, offset: u64, end: u64) {
        let size = self.size(number);
        if offset > size {
            self.changed("gap in a file filled with data");
        }
        let from = boundary(offset.min(size));
        if end > size {
            self.emit_written(Action::Append { offset: from, length: end - from }, number);
            if let Some(object) = self.objects.get_mut(number) {
                object.size = end;
                object.appended = true;
            }
            return;
        }
        if from != offset || (end != size && boundary(end) != end) {
            self.changed("write widened to whole blocks");
        }
        let length = end.next_multiple_of(BLOCK_BYTES) - from;
        self.emit_written(Action::RandomWrite { offset: from, length, accesses: 1 }, number);
    }

    /// Emits an operation that writes a new version.
    fn emit_written(&mut self, action: Action, number: u32) {
        if let Some(object) = self.objects.get_mut(number) {
            object.version = object.version.saturating_add(1);
        }
        self.emit(self.on(action, number));
    }

    /// Gives a file another size.
    pub fn truncate(&mut self, number: u32, size: u64) -> Result<(), Reason> {
        self.named(number, size, 0)?;
        self.must_reach(number, size);
        let now = self.size(number);
        if size > now {
            self.put_range(number, now, size);
            self.changed("file made longer without data: written");
        } else {
            let operation = self.on(Action::Truncate { new_size: size }, number);
            if let Some(object) = self.objects.get_mut(number) {
                object.size = size;
            }
            self.emit(operation);
        }
        if let Some(object) = self.objects.get_mut(number) {
            object.exact = true;
        }
        Ok(())
    }

    /// Takes space. `keep_size`: beyond the end, without making the file longer.
    pub fn allocate(&mut self, number: u32, offset: u64, length: u64, keep_size: bool) -> Result<(), Reason> {
        let (object, end) = self.named(number, offset, length)?;
        if keep_size {
            self.emit(self.on(Action::Fallocate { offset, length }, number));
            return Ok(());
        }
        let size = object.size;
        if end <= size {
            return Err("space taken inside a file");
        }
        self.put_range(number, size, end);
        self.changed("file made longer without data: written");
        Ok(())
    }

    /// `fsync` or `fdatasync`.
    pub fn sync(&mut self, number: u32, data_only: bool) -> Result<(), Reason> {
        self.named(number, 0, 0)?;
        self.emit(self.on(if data_only { Action::Fdatasync } else { Action::Fsync }, number));
        Ok(())
    }
}
