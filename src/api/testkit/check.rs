//! `check_handler`: does a handler reach the same state whatever delivery does to its events?
//!
//! Owns nothing that lasts. What must hold: CH1. Every run starts from an empty simulated disk and a
//! seed. CH2. A run ends only once every message was settled, however often it was interrupted.

use std::collections::BTreeMap;
use std::ops::Bound;

use super::{Fault, Keep, SimClock, SimDisk};
use crate::api::event::Event;
use crate::api::inbox::Inbox;
use crate::api::tx::Tx;
use crate::base::error::{BoxError, Error};
use crate::base::random::Random;
use crate::claims::policy::Retention;
use crate::engine::{Space, scan_stored};
use crate::storage::tables::TableId;

/// All keyspaces by name, as bytes.
type State = BTreeMap<String, Vec<(Vec<u8>, Vec<u8>)>>;

/// What was tried.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
#[non_exhaustive]
pub struct Checked {
    /// Whole runs, each compared with the clean one.
    pub runs: u64,
    /// Power cuts in them.
    pub crashes: u64,
}

/// How to check a handler; see [`check_handler`].
#[derive(Debug, Clone, Copy)]
pub struct HandlerCheck {
    seed: u64,
    rounds: u64,
    reorder: bool,
}

impl Default for HandlerCheck {
    fn default() -> Self {
        Self { seed: 0, rounds: 4, reorder: true }
    }
}

/// Checks that a handler reaches the same state however its messages are delivered.
///
/// A single clean pass over `messages` gives the state that is right. Then the messages come again and
/// again on fresh stores: with duplicates, in other orders, and with a power cut at every commit after
/// which everything is delivered anew. Each time `invariant` must hold and the state must be
/// that of the clean pass, byte for byte.
///
/// `handler` makes the handler for a store, since maps belong to one; it is called again after
/// every power cut, as a restarted program would. What a handler keeps outside its transaction is lost
/// then, and that is what this finds:
///
/// ```
/// use txinbox::testkit::check_handler;
/// use txinbox::{Event, EventId, Inbox, Map, Tx};
///
/// let payments = [("p1", 10), ("p2", 20), ("p3", 30)];
/// fn event<'m>(p: &'m (&'static str, i64)) -> Event<'m> {
///     Event::unchecked(EventId::text(p.0).unwrap())
/// }
/// let total = |inbox: &Inbox| -> Result<(), txinbox::BoxError> {
///     let totals: Map<str, i64> = inbox.map("totals")?;
///     let total = inbox.read(|view| view.get(&totals, "all"))?.unwrap_or(0);
///     if total <= 60 { Ok(()) } else { Err(format!("{total} of 60 were paid").into()) }
/// };
///
/// // Right: what it adds to is read from the transaction.
/// let good = |inbox: &Inbox| {
///     let totals: Map<str, i64> = inbox.map("totals")?;
///     Ok(move |tx: &mut Tx<'_>, p: &(&'static str, i64)| {
///         tx.update(&totals, "all", |sum| Some(sum.unwrap_or(0) + p.1))?;
///         Ok(())
///     })
/// };
/// let checked = check_handler(&payments, event, good, total)?;
/// assert!(checked.runs > 5 && checked.crashes > 5);
///
/// // Wrong: it keeps the sum beside the transaction, and a crash loses it.
/// let bad = |inbox: &Inbox| {
///     let totals: Map<str, i64> = inbox.map("totals")?;
///     let mut sum = 0;
///     Ok(move |tx: &mut Tx<'_>, p: &(&'static str, i64)| {
///         sum += p.1;
///         tx.insert(&totals, "all", &sum)?;
///         Ok(())
///     })
/// };
/// assert!(check_handler(&payments, event, bad, total).unwrap_err().contains("totals"));
/// # Ok::<(), String>(())
/// ```
///
/// # Errors
/// The first run that differs, in words, with what it takes to run it again.
pub fn check_handler<M, H>(
    messages: &[M],
    event: impl for<'m> Fn(&'m M) -> Event<'m>,
    handler: impl Fn(&Inbox) -> Result<H, Error>,
    invariant: impl Fn(&Inbox) -> Result<(), BoxError>,
) -> Result<Checked, String>
where
    H: FnMut(&mut Tx<'_>, &M) -> Result<(), BoxError>,
{
    HandlerCheck::default().run(messages, event, handler, invariant)
}

impl HandlerCheck {
    /// Draws other duplicates and orders.
    #[must_use]
    pub fn seed(self, seed: u64) -> Self {
        Self { seed, ..self }
    }

    /// How many sequences of deliveries to try, 4 unless set; each is crashed at every commit.
    #[must_use]
    pub fn rounds(self, rounds: u64) -> Self {
        Self { rounds, ..self }
    }

    /// Keeps the first deliveries in order, for handlers whose result depends on it by design.
    #[must_use]
    pub fn keep_order(self) -> Self {
        Self { reorder: false, ..self }
    }

    /// Runs the check; see [`check_handler`].
    ///
    /// # Errors
    /// The first run that differs.
    pub fn run<M, H>(
        &self,
        messages: &[M],
        event: impl for<'m> Fn(&'m M) -> Event<'m>,
        handler: impl Fn(&Inbox) -> Result<H, Error>,
        invariant: impl Fn(&Inbox) -> Result<(), BoxError>,
    ) -> Result<Checked, String>
    where
        H: FnMut(&mut Tx<'_>, &M) -> Result<(), BoxError>,
    {
        let program = Program { messages, event, handler, invariant, seed: self.seed };
        let clean: Vec<usize> = (0..messages.len()).collect();
        let (right, _) = program.run(&clean, None).map_err(|e| format!("clean pass: {e}"))?;
        let mut checked = Checked::default();
        for round in 0..self.rounds {
            let order = self.order(messages.len(), round);
            let (_, syncs) = self.compare(&program, &order, None, &right)?;
            checked.runs += 1;
            for crash in 0..syncs {
                self.compare(&program, &order, Some(crash), &right)?;
                checked.runs += 1;
                checked.crashes += 1;
            }
        }
        Ok(checked)
    }

    fn compare<P: Deliver>(
        &self,
        program: &P,
        order: &[usize],
        crash: Option<u64>,
        right: &State,
    ) -> Result<(State, u64), String> {
        let how = match crash {
            None => format!("deliveries {order:?}"),
            Some(n) => format!("deliveries {order:?} with a power cut at commit {n}"),
        };
        let (state, syncs) = program.run(order, crash).map_err(|e| format!("{how}: {e}"))?;
        let differs = right.iter().find(|(name, rows)| state.get(*name) != Some(rows));
        match differs {
            None if state.len() == right.len() => Ok((state, syncs)),
            other => {
                let name = other.map_or("an extra one", |(name, _)| name);
                Err(format!("{how}, seed {}: keyspace {name:?} differs", self.seed))
            }
        }
    }

    /// Every message once to three times.
    fn order(&self, messages: usize, round: u64) -> Vec<usize> {
        let random = Random::seeded(self.seed.wrapping_mul(1_000).wrapping_add(round));
        let draw = |below: usize| {
            let n = random.next_u64().unwrap_or_default();
            usize::try_from(n % below.max(1) as u64).unwrap_or_default()
        };
        let mut order: Vec<usize> = (0..messages).collect();
        if self.reorder {
            for i in (1..messages).rev() {
                order.swap(i, draw(i + 1));
            }
        }
        for message in 0..messages {
            for _ in 0..draw(3) {
                let first = order.iter().position(|m| *m == message).unwrap_or_default();
                let behind = first + 1 + draw(order.len() - first);
                order.insert(behind.min(order.len()), message);
            }
        }
        order
    }
}

/// A user's program over its messages.
struct Program<'p, M, E, F, I> {
    messages: &'p [M],
    event: E,
    handler: F,
    invariant: I,
    seed: u64,
}

trait Deliver {
    /// Delivers in this order, with a power cut at the n-th sync if one is asked for; returns the final
    /// state and the syncs made.
    fn run(&self, order: &[usize], crash: Option<u64>) -> Result<(State, u64), String>;
}

impl<M, E, F, I, H> Deliver for Program<'_, M, E, F, I>
where
    E: for<'m> Fn(&'m M) -> Event<'m>,
    F: Fn(&Inbox) -> Result<H, Error>,
    I: Fn(&Inbox) -> Result<(), BoxError>,
    H: FnMut(&mut Tx<'_>, &M) -> Result<(), BoxError>,
{
    fn run(&self, order: &[usize], crash: Option<u64>) -> Result<(State, u64), String> {
        let mut disk = SimDisk::new();
        // The store is made in peace; what a crash there leaves is not the handler's business.
        drop(self.open(&disk).map_err(|e| e.to_string())?);
        disk.record(true);
        disk.reset_calls();
        if let Some(n) = crash {
            let syncs = self.syncs(order)?;
            let ordinal = usize::try_from(n).ok().and_then(|n| syncs.get(n).copied());
            disk.inject(Fault::crash(ordinal.unwrap_or(u64::MAX)));
        }
        let delivered = self.deliver_all(&disk, order);
        if disk.has_crashed() {
            let keep = [Keep::Nothing, Keep::Everything, Keep::Subset(self.seed)];
            let pick = usize::try_from(crash.unwrap_or(0) % 3).unwrap_or_default();
            disk = disk.power_cut(keep.get(pick).copied().unwrap_or(Keep::Nothing));
            self.deliver_all(&disk, order)?;
        } else {
            delivered?;
        }
        let syncs = disk.trace().iter().filter(|t| t.call == super::Call::Sync).count();
        let inbox = self.open(&disk).map_err(|e| e.to_string())?;
        (self.invariant)(&inbox).map_err(|e| format!("the invariant: {e}"))?;
        Ok((state_of(&inbox).map_err(|e| e.to_string())?, syncs as u64))
    }
}

impl<M, E, F, I, H> Program<'_, M, E, F, I>
where
    E: for<'m> Fn(&'m M) -> Event<'m>,
    F: Fn(&Inbox) -> Result<H, Error>,
    I: Fn(&Inbox) -> Result<(), BoxError>,
    H: FnMut(&mut Tx<'_>, &M) -> Result<(), BoxError>,
{
    fn open(&self, disk: &SimDisk) -> Result<Inbox, Error> {
        Inbox::builder(Retention::forever())
            .clock(SimClock::new(super::WALL_MS))
            .seed(self.seed)
            .no_threads()
            .cache_bytes(1 << 20)
            .open_on(disk)
    }

    /// The ordinals of the syncs of an undisturbed run.
    fn syncs(&self, order: &[usize]) -> Result<Vec<u64>, String> {
        let disk = SimDisk::new();
        drop(self.open(&disk).map_err(|e| e.to_string())?);
        disk.record(true);
        disk.reset_calls();
        self.deliver_all(&disk, order)?;
        let syncs = disk.trace().into_iter().filter(|t| t.call == super::Call::Sync);
        Ok(syncs.map(|t| t.ordinal).collect())
    }

    /// Opens the store and delivers all; what the handler turned down comes again at the end.
    fn deliver_all(&self, disk: &SimDisk, order: &[usize]) -> Result<(), String> {
        let say = |e: Error| e.to_string();
        let inbox = self.open(disk).map_err(say)?;
        let consumer = inbox.consumer("checked").map_err(say)?;
        let mut handler = (self.handler)(&inbox).map_err(say)?;
        let mut left: Vec<usize> = order.to_vec();
        for _attempt in 0..=self.messages.len() {
            let mut again = Vec::new();
            for place in left {
                let Some(message) = self.messages.get(place) else { continue };
                let event = (self.event)(message);
                match consumer.process(&event, |tx| handler(tx, message)) {
                    Ok(_) => (self.invariant)(&inbox).map_err(|e| format!("the invariant: {e}"))?,
                    Err(error) if error.is_handler() => again.push(place),
                    Err(error) => return Err(error.to_string()),
                }
            }
            if again.is_empty() {
                return inbox.close().map_err(say);
            }
            left = again;
        }
        Err(format!("the handler keeps turning down messages {left:?}"))
    }
}

/// All application state.
fn state_of(inbox: &Inbox) -> Result<State, Error> {
    let engine = inbox.engine();
    let snapshot = engine.view()?.snapshot;
    let keyspaces = engine.registry.read().keyspaces.clone();
    let mut state = State::new();
    for (name, entry) in keyspaces {
        let table = TableId::Keyspace(entry.id).name().into();
        let space = Space { id: entry.id, table, life: entry.life, store_id: snapshot.store_id() };
        let all = (Bound::Unbounded, Bound::Unbounded);
        state.insert(name, scan_stored(&snapshot, &space, all, usize::MAX, false)?);
    }
    Ok(state)
}
