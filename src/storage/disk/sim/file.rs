//! The disk seam over the simulated state: every call is counted, and fails if a fault says so.

use std::io;
use std::sync::Arc;

use super::call::{Call, Traced};
use super::fault::Effect;
use super::state::{FileNo, Op, State, power_is_gone};
use super::{Disk, DiskFile, DiskLock, SimDisk};

/// What a call is made on.
struct On<'a> {
    name: &'a Arc<str>,
    offset: u64,
    len: u64,
}

impl SimDisk {
    /// Runs one call: counted, traced, slowed down, and struck by at most one fault.
    fn call<T>(
        &self,
        call: Call,
        on: &On<'_>,
        run: impl FnOnce(&mut State, Option<Effect>) -> io::Result<T>,
    ) -> io::Result<T> {
        let mut state = self.0.lock();
        let effect = state.enter(Traced {
            ordinal: 0, // set by the count
            call,
            name: on.name.clone(),
            offset: on.offset,
            len: on.len,
        })?;
        let done = run(&mut state, effect);
        if effect == Some(Effect::Crash) {
            state.powerless = true;
            return Err(power_is_gone());
        }
        done
    }

    fn directory_call<T>(
        &self,
        call: Call,
        name: &str,
        run: impl FnOnce(&mut State, Option<Effect>) -> io::Result<T>,
    ) -> io::Result<T> {
        let on = On { name: &Arc::from(name), offset: 0, len: 0 };
        self.call(call, &on, run)
    }
}

fn existing(state: &State) -> io::Result<()> {
    if state.exists { Ok(()) } else { Err(io::ErrorKind::NotFound.into()) }
}

/// Changes the names that processes see, and notes that the change is not durable.
fn change_names(state: &mut State, op: Op) {
    op.apply_to_names(&mut state.names);
    state.unsynced.push(op);
}

impl Disk for SimDisk {
    fn describe(&self) -> String {
        "simulated disk".to_owned()
    }

    fn create_dir(&self) -> io::Result<()> {
        self.directory_call(Call::CreateDir, "", |state, effect| {
            // Its durability is part of the call, so a power cut during it leaves none.
            state.exists |= effect.is_none();
            Ok(())
        })
    }

    fn list(&self) -> io::Result<Vec<String>> {
        self.directory_call(Call::List, "", |state, _| {
            existing(state)?;
            Ok(state.names.keys().cloned().collect())
        })
    }

    fn open(&self, name: &str, create: bool) -> io::Result<Box<dyn DiskFile>> {
        let file = self.directory_call(Call::Open, name, |state, _| {
            existing(state)?;
            if let Some(file) = state.names.get(name) {
                return Ok(*file);
            }
            if !create {
                return Err(io::ErrorKind::NotFound.into());
            }
            let file = state.next_file;
            state.next_file = state.next_file.saturating_add(1);
            state.files.insert(file, super::state::FileState::default());
            let name = name.to_owned();
            change_names(state, Op::Link { name, file });
            Ok(file)
        })?;
        Ok(Box::new(SimFile { disk: self.clone(), file, name: Arc::from(name) }))
    }

    fn rename(&self, from: &str, to: &str) -> io::Result<()> {
        self.directory_call(Call::Rename, from, |state, _| {
            let file = *state.names.get(from).ok_or(io::ErrorKind::NotFound)?;
            let (from, to) = (from.to_owned(), to.to_owned());
            change_names(state, Op::Rename { from, to, file });
            Ok(())
        })
    }

    fn remove(&self, name: &str) -> io::Result<()> {
        self.directory_call(Call::Remove, name, |state, _| {
            if state.names.contains_key(name) {
                let name = name.to_owned();
                change_names(state, Op::Unlink { name });
            }
            Ok(())
        })
    }

    fn sync_dir(&self) -> io::Result<()> {
        self.directory_call(Call::SyncDir, "", |state, effect| {
            existing(state)?;
            if effect.is_none() {
                state.sync_dir();
            }
            Ok(())
        })
    }

    fn lock(&self, name: &str) -> io::Result<Option<Box<dyn DiskLock>>> {
        let taken = self.directory_call(Call::Lock, name, |state, effect| {
            existing(state)?;
            // A lock call that fails holds nothing: there would be nobody to give it back.
            Ok(effect.is_none() && state.locked.insert(name.to_owned()))
        })?;
        // Made outside the call: dropping it takes the disk's own lock again.
        Ok(taken.then(|| {
            let lock = SimLock { disk: self.clone(), name: name.to_owned() };
            Box::new(lock) as Box<dyn DiskLock>
        }))
    }
}

/// Holds the directory for one process of this machine.
#[derive(Debug)]
struct SimLock {
    disk: SimDisk,
    name: String,
}

impl DiskLock for SimLock {}

impl Drop for SimLock {
    fn drop(&mut self) {
        self.disk.0.lock().locked.remove(&self.name);
    }
}

/// An open file; it stays readable after its name is gone.
#[derive(Debug)]
struct SimFile {
    disk: SimDisk,
    file: FileNo,
    name: Arc<str>,
}

impl SimFile {
    fn call<T>(
        &self,
        call: Call,
        offset: u64,
        len: u64,
        run: impl FnOnce(&mut State, Option<Effect>) -> io::Result<T>,
    ) -> io::Result<T> {
        let name = &self.name;
        self.disk.call(call, &On { name, offset, len }, run)
    }
}

impl DiskFile for SimFile {
    fn len(&self) -> io::Result<u64> {
        self.call(Call::Len, 0, 0, |state, _| Ok(state.file(self.file)?.cache.len()))
    }

    fn read_at(&self, offset: u64, out: &mut [u8]) -> io::Result<()> {
        self.call(Call::Read, offset, out.len() as u64, |state, effect| {
            let wanted = match effect {
                Some(Effect::Short(bytes)) => bytes.min(out.len()),
                _ => out.len(),
            };
            let short = wanted < out.len() || matches!(effect, Some(Effect::Short(_)));
            let target = out.get_mut(..wanted).unwrap_or_default();
            let got = state.file(self.file)?.cache.read(offset, target);
            if got < wanted || short {
                return Err(io::ErrorKind::UnexpectedEof.into());
            }
            Ok(())
        })
    }

    fn write_at(&self, offset: u64, data: &[u8]) -> io::Result<()> {
        self.call(Call::Write, offset, data.len() as u64, |state, effect| {
            let Some(Effect::Short(bytes)) = effect else {
                return state.write(self.file, offset, data);
            };
            state.write(self.file, offset, data.get(..bytes).unwrap_or(data))?;
            Err(io::ErrorKind::WriteZero.into())
        })
    }

    fn set_len(&self, len: u64) -> io::Result<()> {
        self.call(Call::SetLen, 0, len, |state, _| state.set_len(self.file, len))
    }

    fn sync(&self) -> io::Result<()> {
        self.call(Call::Sync, 0, 0, |state, effect| match effect {
            None => state.sync(self.file),
            Some(Effect::LostSync(loss)) => state.lose_sync(self.file, loss),
            Some(_) => Ok(()), // the power goes first
        })
    }
}
