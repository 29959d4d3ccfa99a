//! Logical backup and restore: every row of every table, in frames with checksums.
//!
//! Layout, little-endian: magic, then frames, each a 32-bit length, its body, and the CRC-32 of
//! frame number and body. Body 0 is the header with the store's own header inside; a body 1 names a table; a body 2 holds
//! rows of it; body 3 ends the file with the number of rows. What must hold:
//! BK1. A file cut short, or damaged anywhere, is refused: the end frame must be there, and frames are
//!     numbered. BK2. A restored store has the identity of its source and a higher lineage.

use std::fs::{self, File, OpenOptions};
use std::io::{BufReader, BufWriter, Read, Write};
use std::path::Path;

use super::{Engine, mark};
use crate::base::codec::{Malformed, Reader, Writer};
use crate::base::error::Error;
use crate::base::random::Random;
use crate::base::sync::Arc;
use crate::storage::db::Db;
use crate::storage::directory::{Directory, OpenMode};
use crate::storage::disk::RealDisk;
use crate::storage::header::Header;
use crate::storage::snapshot::Stored;
use crate::storage::tables::TableId;

const MAGIC: &[u8; 16] = b"txinbox backup 1";
const HEADER: u8 = 0;
const TABLE: u8 = 1;
const ROWS: u8 = 2;
const END: u8 = 3;
/// A frame is closed once its rows reach this.
const FRAME_BYTES: usize = 256 << 10;
/// A larger frame is damage: the largest value, with room for its key.
const FRAME_MAX_BYTES: u32 = 80 << 20;

fn checksum(number: u64, body: &[u8]) -> u32 {
    let mut crc = crc32fast::Hasher::new();
    crc.update(&number.to_le_bytes());
    crc.update(body);
    crc.finalize()
}

struct Frames<W> {
    out: W,
    next: u64,
}

impl<W: Write> Frames<W> {
    fn write(&mut self, body: &[u8]) -> std::io::Result<()> {
        let len = u32::try_from(body.len()).map_err(std::io::Error::other)?;
        self.out.write_all(&len.to_le_bytes())?;
        self.out.write_all(body)?;
        self.out.write_all(&checksum(self.next, body).to_le_bytes())?;
        self.next += 1;
        Ok(())
    }
}

fn body(kind: u8, bytes: &[u8]) -> Vec<u8> {
    [&[kind], bytes].concat()
}

impl Engine {
    /// Writes the last durable group to a new file.
    pub(crate) fn backup(&self, path: &Path) -> Result<(), Error> {
        let doing = |e| Error::io(format!("writing the backup {}", path.display()), e);
        let stored = self.stored_now()?;
        let file = OpenOptions::new().write(true).create_new(true).open(path).map_err(doing)?;
        let written = (|| {
            let mut frames = Frames { out: BufWriter::new(file), next: 0 };
            frames.out.write_all(MAGIC).map_err(doing)?;
            let header = self.directory.header().encode();
            frames.write(&body(HEADER, &header)).map_err(doing)?;
            let mut rows = 0_u64;
            for name in stored.table_names()? {
                let Some(table) = stored.table(&name)? else { continue };
                frames.write(&body(TABLE, name.as_bytes())).map_err(doing)?;
                let mut w = Writer::new();
                w.u8(ROWS);
                for row in table.whole()? {
                    let (key, value) = row?;
                    let of_journal = [mark::JOURNAL_KEY, mark::JOURNAL_BYTES_KEY];
                    if name == TableId::Mark.name() && of_journal.contains(&key.bytes()) {
                        continue; // the copy has no journal yet
                    }
                    w.bytes(key.bytes());
                    w.bytes(value.bytes());
                    rows += 1;
                    if w.len() >= FRAME_BYTES {
                        frames.write(&std::mem::take(&mut w).finish()).map_err(doing)?;
                        w.u8(ROWS);
                    }
                }
                frames.write(&w.finish()).map_err(doing)?;
            }
            frames.write(&body(END, &rows.to_le_bytes())).map_err(doing)?;
            let file = frames.out.into_inner().map_err(|e| doing(e.into_error()))?;
            file.sync_all().map_err(doing)?;
            sync_parent(path).map_err(doing)
        })();
        if written.is_err() {
            let _ = fs::remove_file(path); // what is there is no backup
        }
        written
    }
}

impl Engine {
    /// Redb's tables with all in them that was answered by now.
    fn stored_now(&self) -> Result<Arc<Stored>, Error> {
        self.check_open()?;
        let mut turn = self.turn(None)?;
        turn.finish_group();
        self.checkpoint_here(turn.core())?;
        let stored = self.state.read().snapshot.stored();
        stored.keep(); // a copy takes as long as it takes
        Ok(stored)
    }
}

#[cfg(unix)]
fn sync_parent(path: &Path) -> std::io::Result<()> {
    let parent = path.parent().filter(|p| !p.as_os_str().is_empty());
    File::open(parent.unwrap_or(Path::new(".")))?.sync_all()
}

#[cfg(not(unix))]
fn sync_parent(_path: &Path) -> std::io::Result<()> {
    Ok(())
}

/// A backup being read.
struct Source {
    input: BufReader<File>,
    place: String,
    next: u64,
}

impl Source {
    fn open(path: &Path) -> Result<Self, Error> {
        let place = path.display().to_string();
        let file =
            File::open(path).map_err(|e| Error::io(format!("opening the backup {place}"), e))?;
        let mut source = Self { input: BufReader::new(file), place, next: 0 };
        let mut magic = [0; MAGIC.len()];
        source.fill(&mut magic)?;
        if &magic != MAGIC {
            return Err(source.damaged("it does not begin as a backup does"));
        }
        Ok(source)
    }

    fn damaged(&self, detail: &str) -> Error {
        Error::corrupt(format!("backup {}, frame {}", self.place, self.next), detail)
    }

    fn fill(&mut self, out: &mut [u8]) -> Result<(), Error> {
        self.input.read_exact(out).map_err(|e| match e.kind() {
            std::io::ErrorKind::UnexpectedEof => self.damaged("the file is cut short"),
            _ => Error::io(format!("reading the backup {}", self.place), e),
        })
    }

    /// The next frame's kind and content.
    fn frame(&mut self) -> Result<(u8, Vec<u8>), Error> {
        let mut len = [0; 4];
        self.fill(&mut len)?;
        let len = u32::from_le_bytes(len);
        if len == 0 || len > FRAME_MAX_BYTES {
            return Err(self.damaged("its length cannot be"));
        }
        let mut content = vec![0; len as usize];
        self.fill(&mut content)?;
        let mut crc = [0; 4];
        self.fill(&mut crc)?;
        if checksum(self.next, &content) != u32::from_le_bytes(crc) {
            return Err(self.damaged("its checksum does not match"));
        }
        self.next += 1;
        let kind = content.remove(0);
        Ok((kind, content))
    }

    fn header(&mut self) -> Result<Header, Error> {
        match self.frame()? {
            (HEADER, content) => Header::decode(&content),
            _ => Err(self.damaged("the header is not the first")),
        }
    }

    /// Writes all rows into a database, a transaction at a time.
    fn restore_rows(&mut self, db: &Db) -> Result<(), Error> {
        let mut table = None;
        let mut rows = 0_u64;
        loop {
            let (kind, content) = self.frame()?;
            match kind {
                TABLE => {
                    let name = String::from_utf8(content)
                        .map_err(|_| self.damaged("a table's name is not UTF-8"))?;
                    table = Some(name);
                }
                ROWS => {
                    let name = table.as_deref().ok_or_else(|| self.damaged("rows of no table"))?;
                    let parsed = parse_rows(&content).map_err(|m| self.damaged(m.0))?;
                    rows += parsed.len() as u64;
                    let txn = db.write(false)?;
                    txn.table(name)?.append(parsed)?;
                    txn.commit()?;
                }
                END if content == rows.to_le_bytes() => return Ok(()),
                _ => return Err(self.damaged("it cannot stand here")),
            }
        }
    }
}

/// Keys and values of a frame.
type FrameRows<'a> = Vec<(&'a [u8], &'a [u8])>;

pub(super) fn parse_rows(content: &[u8]) -> Result<FrameRows<'_>, Malformed> {
    let mut r = Reader::new(content);
    let mut rows = Vec::new();
    while !r.is_empty() {
        rows.push((r.bytes()?, r.bytes()?));
    }
    Ok(rows)
}

/// Makes a store from a backup. Until it is whole and durable, the directory holds no store.
pub(crate) fn restore(path: &Path, dir: &Path) -> Result<(), Error> {
    let mut source = Source::open(path)?;
    let mut header = source.header()?;
    header.lineage = header.lineage.saturating_add(1);
    let disk = Arc::new(RealDisk::new(dir));
    if dir.join("txinbox.redb").exists() {
        return Err(Error::not_a_store(dir.display().to_string(), "a store already"));
    }
    let mut is_new = false;
    let directory = Directory::open_with(
        disk,
        OpenMode::CreateIfEmpty,
        |_| Ok(header),
        |db| {
            is_new = true;
            source.restore_rows(db)
        },
    )?;
    if is_new {
        Ok(())
    } else {
        // Somebody made a store here meanwhile; it is left as it is.
        Err(Error::not_a_store(directory.describe(), "a store already"))
    }
}

const SALVAGE_CACHE_BYTES: usize = 1 << 20;

/// Empties the journal of the store in `dir`, which must not be open.
pub(crate) fn salvage(dir: &Path) -> Result<(), Error> {
    let disk = Arc::new(RealDisk::new(dir));
    let directory = Directory::open(disk, OpenMode::ExistingOnly, &Random::System, 0)?;
    directory.erase_journal()?;
    // The files may be shorter now than they were.
    let db = directory.open_db(SALVAGE_CACHE_BYTES)?;
    let txn = db.write(true)?;
    txn.table(&TableId::Mark.name())?.remove(mark::JOURNAL_BYTES_KEY)?;
    txn.commit()
}
