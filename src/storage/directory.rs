//! A store's directory: who may use it, what lies in it, and how it comes to be.
//!
//! Owns the lock and the file names. What must hold:
//! F1. A store exists once its database file has its final name; anything less is an unfinished
//!     creation, holds nothing, and is begun again. F2. A directory that holds anything else is not ours
//!     and is not touched. F3. Before anything read from the database file is believed, what a dead or
//!     failed predecessor left in the page cache is made durable.

use super::ballast::{BALLAST, Ballast, Ballasted};
use super::db::Db;
use super::disk::{Disk, DiskFile, DiskLock};
use super::header::Header;
use super::journal::{self, End, Journal, Replayed};
use super::tables::TableId;
use crate::base::canary::planted;
use crate::base::error::Error;
use crate::base::random::Random;
use crate::base::sync::{Arc, Mutex};

const LOCK: &str = "LOCK";
const HEADER: &str = "txinbox.header";
const HEADER_NEW: &str = "txinbox.header.new";
const DATABASE: &str = "txinbox.redb";
const DATABASE_NEW: &str = "txinbox.redb.new";
/// Names that may lie about without making a directory somebody else's.
const UNFINISHED: [&str; 6] = [LOCK, HEADER, HEADER_NEW, DATABASE_NEW, BALLAST, "lost+found"];
const LOST: &str = "the file is missing, but the header beside it says that it was there; put it back, \
                    or remove what is left to begin without any memory of earlier events";
/// redb keeps its roots and the choice between them in the first page.
const ROOT_PAGE_BYTES: u64 = 4096;
/// Every page is read once, so a check has little use for a cache.
const CHECK_CACHE_BYTES: usize = 4 << 20;
const STORE_ID_KEY: &[u8] = b"store-id";

/// Whether opening may create.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum OpenMode {
    CreateIfEmpty,
    ExistingOnly,
}

/// A directory held by this handle alone.
#[derive(Debug)]
pub(crate) struct Directory {
    disk: Arc<dyn Disk>,
    header: Header,
    ballast: Arc<Ballast>,
    lock: Mutex<Option<Box<dyn DiskLock>>>,
}

impl Directory {
    /// Takes the directory, creating the store if allowed and needed, and lays a ballast of so many
    /// bytes if there is room for it.
    pub(crate) fn open(
        disk: Arc<dyn Disk>,
        mode: OpenMode,
        random: &Random,
        ballast_bytes: u64,
    ) -> Result<Self, Error> {
        let directory = Self::open_with(disk, mode, |_| Header::create(random), |_| Ok(()))?;
        let ballast = Arc::new(Ballast::open(directory.disk.clone(), ballast_bytes)?);
        Ok(Self { ballast, ..directory })
    }

    /// As `open` without a ballast, with the header of a new store and its first contents from the caller.
    pub(crate) fn open_with(
        disk: Arc<dyn Disk>,
        mode: OpenMode,
        header: impl FnOnce(&dyn Disk) -> Result<Header, Error>,
        fill: impl FnOnce(&Db) -> Result<(), Error>,
    ) -> Result<Self, Error> {
        let dir = disk.describe();
        let exists = match disk.list() {
            Ok(names) => survey(&dir, &names)?,
            Err(e) if e.kind() == std::io::ErrorKind::NotFound => false,
            Err(e) => return Err(Error::io(format!("listing {dir}"), e)),
        };
        if !exists {
            if mode == OpenMode::ExistingOnly {
                return Err(Error::missing(dir));
            }
            disk.create_dir().map_err(|e| Error::io(format!("creating {dir}"), e))?;
        }
        let lock = disk
            .lock(LOCK)
            .map_err(|e| Error::io(format!("locking {dir}"), e))?
            .ok_or_else(|| Error::locked(&dir))?;
        // Another process may have created it between the survey and the lock.
        let names = disk.list().map_err(|e| Error::io(format!("listing {dir}"), e))?;
        if !survey(&dir, &names)? {
            if mode == OpenMode::ExistingOnly {
                return Err(Error::missing(dir));
            }
            create(&*disk, &header(&*disk)?, fill)?;
        }
        let header = read_header(&*disk)?;
        let ballast = Arc::new(Ballast::none(disk.clone()));
        Ok(Self { disk, header, ballast, lock: Mutex::new(Some(lock)) })
    }

    pub(crate) fn header(&self) -> &Header {
        &self.header
    }

    /// The space kept back for a full disk.
    pub(crate) fn ballast(&self) -> &Arc<Ballast> {
        &self.ballast
    }

    /// Lets others have the directory.
    pub(crate) fn release(&self) {
        self.ballast.end();
        self.lock.lock().take();
    }

    pub(crate) fn describe(&self) -> String {
        self.disk.describe()
    }

    /// Opens the database. Also the way back after a failed write, once the old one is dropped.
    pub(crate) fn open_db(&self, cache_bytes: usize) -> Result<Db, Error> {
        let file = open_file(&*self.disk, DATABASE, false)?;
        let file = Box::new(Ballasted::new(file, self.ballast.clone()));
        settle(&*file)?;
        // A predecessor killed between its last rename and this call left a name that could go.
        if !planted("recovery-trusts-the-names-it-finds") {
            self.disk
                .sync_dir()
                .map_err(|e| Error::io(format!("making {} durable", self.describe()), e))?;
        }
        let db = Db::open(file, cache_bytes)?;
        let stored = match db.read()?.table(&TableId::Catalogue.name())? {
            Some(table) => table.get(STORE_ID_KEY)?.map(|v| v.bytes().to_vec()),
            None => None,
        };
        if stored.as_deref() != Some(&self.header.store_id.to_le_bytes()[..]) {
            return Err(Error::corrupt(
                format!("{}/{DATABASE}", self.describe()),
                "it does not belong to the header file beside it",
            ));
        }
        Ok(db)
    }

    /// Errs if a segment of the journal, which this store has, is missing or shorter than it was.
    pub(crate) fn check_journal(&self, least_bytes: u64) -> Result<(), Error> {
        let damaged = |name: &str, what: &str| {
            let detail = format!(
                "{what}, and may have been all that held the last groups; put it back, or give \
                 them up with Inbox::salvage"
            );
            Err(Error::corrupt(format!("{}/{name}", self.describe()), detail))
        };
        let listing = |e| Error::io(format!("listing {}", self.describe()), e);
        if let Some(name) = journal::missing(&self.disk.list().map_err(listing)?) {
            return damaged(name, "the file is missing");
        }
        match journal::cut(&*self.disk, least_bytes)? {
            Some((name, bytes)) => {
                damaged(name, &format!("the file has {bytes} of its {least_bytes} bytes"))
            }
            None => Ok(()),
        }
    }

    /// Opens the journal, and returns the records behind the last checkpoint, durable.
    pub(crate) fn open_journal(
        &self,
        segment_bytes: u64,
        from: End,
    ) -> Result<(Journal, Vec<Replayed>), Error> {
        Journal::open(&*self.disk, self.header.store_id, segment_bytes, from)
    }

    /// Gives up what the journal holds and no checkpoint does.
    pub(crate) fn erase_journal(&self) -> Result<(), Error> {
        journal::erase(&*self.disk)
    }

    /// Checks every page of the database file as the last durable commit left it. Nobody may write
    /// to it meanwhile.
    pub(crate) fn check_pages(&self) -> Result<(), Error> {
        Db::check(open_file(&*self.disk, DATABASE, false)?, CHECK_CACHE_BYTES)
    }

    /// Length of the database file.
    pub(crate) fn file_bytes(&self) -> Result<u64, Error> {
        open_file(&*self.disk, DATABASE, false)?
            .len()
            .map_err(|e| Error::io("measuring the database file", e))
    }
}

/// Whether the names are those of a store; an error if they are somebody else's.
fn survey(dir: &str, names: &[String]) -> Result<bool, Error> {
    if names.iter().any(|n| n == DATABASE) {
        return Ok(true);
    }
    let has = |name: &str| names.iter().any(|n| n == name);
    // Creation gives the header its name while the database still has its first one.
    if has(HEADER) && !has(DATABASE_NEW) && !planted("lost-database-taken-for-a-new-store") {
        return Err(Error::corrupt(format!("{dir}/{DATABASE}"), LOST));
    }
    match names.iter().find(|n| !UNFINISHED.contains(&n.as_str())) {
        Some(foreign) => Err(Error::not_a_store(dir, foreign)),
        None => Ok(false),
    }
}

fn open_file(disk: &dyn Disk, name: &str, create: bool) -> Result<Box<dyn DiskFile>, Error> {
    disk.open(name, create).map_err(|e| Error::io(format!("opening {}/{name}", disk.describe()), e))
}

/// Builds a store under other names and gives it its own last. A crash before the last rename
/// leaves an unfinished creation, which the next opening begins again.
fn create(
    disk: &dyn Disk,
    header: &Header,
    fill: impl FnOnce(&Db) -> Result<(), Error>,
) -> Result<(), Error> {
    let doing = |e| Error::io(format!("creating a store in {}", disk.describe()), e);
    // In this order, so that a header without any database is never an unfinished creation.
    disk.remove(HEADER).map_err(doing)?;
    disk.sync_dir().map_err(doing)?;
    for unfinished in [HEADER_NEW, DATABASE_NEW] {
        disk.remove(unfinished).map_err(doing)?;
    }
    let file = open_file(disk, HEADER_NEW, true)?;
    file.write_at(0, &header.encode()).map_err(doing)?;
    file.sync().map_err(doing)?;
    let db = Db::open(open_file(disk, DATABASE_NEW, true)?, 1 << 20)?;
    fill(&db)?;
    let txn = db.write(true)?;
    txn.table(&TableId::Catalogue.name())?.insert(STORE_ID_KEY, &header.store_id.to_le_bytes())?;
    txn.commit()?;
    db.close();
    open_file(disk, DATABASE_NEW, false)?.sync().map_err(doing)?;
    // The database's first name must be durable before the header has its last one.
    disk.sync_dir().map_err(doing)?;
    disk.rename(HEADER_NEW, HEADER).map_err(doing)?;
    disk.sync_dir().map_err(doing)?;
    disk.rename(DATABASE_NEW, DATABASE).map_err(doing)?;
    disk.sync_dir().map_err(doing)
}

fn read_header(disk: &dyn Disk) -> Result<Header, Error> {
    let place = format!("{}/{HEADER}", disk.describe());
    let file = match disk.open(HEADER, false) {
        Ok(file) => file,
        Err(e) if e.kind() == std::io::ErrorKind::NotFound => {
            return Err(Error::corrupt(place, "the file is missing"));
        }
        Err(e) => return Err(Error::io(format!("opening {place}"), e)),
    };
    let reading = |e| Error::io(format!("reading {place}"), e);
    let len = file.len().map_err(reading)?;
    if len > ROOT_PAGE_BYTES {
        return Err(Error::corrupt(place, format!("it is {len} bytes long")));
    }
    let mut bytes = vec![0; usize::try_from(len).unwrap_or_default()];
    file.read_at(0, &mut bytes).map_err(reading)?;
    Header::decode(&bytes)
}

/// Makes durable what the first page says before anybody acts on it (F3).
///
/// A process killed between redb's second write and its sync, or a sync that failed, leaves a first
/// page that reads as committed but that a power cut can still take back. The pages it points to were
/// synced before it was written, so writing this one page again and syncing closes the gap.
fn settle(file: &dyn DiskFile) -> Result<(), Error> {
    let doing = |e| Error::io("making the database's root page durable", e);
    let len = file.len().map_err(doing)?.min(ROOT_PAGE_BYTES);
    if len > 0 {
        let mut page = vec![0; usize::try_from(len).unwrap_or_default()];
        file.read_at(0, &mut page).map_err(doing)?;
        file.write_at(0, &page).map_err(doing)?;
    }
    file.sync().map_err(doing)
}
