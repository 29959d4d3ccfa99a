//! The steps that disturb: closing, kills, power cuts, failing disks.

use std::time::Duration;

use super::{Runner, say};
use crate::api::testkit::audit::Probe;
use crate::api::testkit::op::{Op, Trouble};
use crate::api::testkit::{Call, Fault, Keep, SimDisk};
use crate::base::clock::Clock;

fn fault(ordinal: u64, trouble: Trouble) -> Fault {
    let io = [Call::Read, Call::Write, Call::SetLen, Call::Len, Call::Sync];
    match trouble {
        Trouble::Error => Fault::error(ordinal, &io),
        Trouble::Errors => Fault::error(ordinal, &io).lasting(),
        Trouble::ShortRead(bytes) => Fault::short_read(ordinal, usize::from(bytes)),
        Trouble::ShortWrite(bytes) => Fault::short_write(ordinal, usize::from(bytes)),
        Trouble::Full => Fault::full(ordinal, &[Call::Write, Call::SetLen]),
        Trouble::Fulls => Fault::full(ordinal, &[Call::Write, Call::SetLen]).lasting(),
        Trouble::LostSync(loss) => Fault::lost_sync(ordinal, loss),
    }
}

impl Runner {
    /// Closes in order and opens again.
    pub(super) fn reopen(&mut self, ms: u64) -> Result<(), String> {
        let settled = ms.is_multiple_of(2);
        if settled {
            self.step_sweep()?;
        }
        let Some(open) = self.open.take() else { return self.open_store() };
        drop(open.consumers);
        open.inbox.close().map_err(say("closing"))?;
        self.saved = self.model.times();
        self.clock.advance(Duration::from_millis(ms));
        self.model.reopen(self.clock.wall_ms(), self.clock.boot_ms());
        self.open_store()?;
        self.coverage.hit("reopened");
        self.model.set_clock(self.clock.wall_ms(), self.clock.boot_ms());
        self.last = None;
        self.check()?;
        self.audit(settled)
    }

    /// Goes on with that machine, as after a kill or a power cut.
    pub(super) fn restart(&mut self, disk: SimDisk) -> Result<(), String> {
        let before = std::mem::replace(&mut self.disk, disk);
        // The old process ends on the old machine, which nobody looks at again.
        self.open = None;
        drop(before);
        self.open_store()?;
        self.coverage.hit("restarted");
        self.resumed = true;
        self.last = None;
        self.check()?;
        self.audit(false)
    }

    pub(super) fn crash_in(&mut self, calls: u64, keep: Keep, op: &Op) -> Result<(), String> {
        match op {
            Op::Kill => return self.crash_while_opening(self.disk.kill(), calls, keep),
            Op::PowerCut(first) => {
                return self.crash_while_opening(self.disk.power_cut(*first), calls, keep);
            }
            _ => {}
        }
        self.disk.inject(Fault::crash(self.disk.calls().saturating_add(calls.max(1))));
        let failed = self.attempt_under(op)?;
        if self.disk.has_crashed() {
            self.coverage.hit("crashed");
        } else if let Some(error) = failed {
            return Err(format!("I10: before the crash: {error}"));
        }
        self.restart(self.disk.power_cut(keep))
    }

    /// The power goes again while the store is opened.
    fn crash_while_opening(&mut self, disk: SimDisk, calls: u64, keep: Keep) -> Result<(), String> {
        disk.inject(Fault::crash(calls.max(1)));
        self.open = None;
        self.disk = disk;
        match self.try_open() {
            Ok(open) => self.open = Some(open),
            Err(_) if self.disk.has_crashed() => self.coverage.hit("crashed while opening"),
            Err(error) => return Err(format!("I9: opening: {error}")),
        }
        self.restart(self.disk.power_cut(keep))
    }

    pub(super) fn trouble_in(
        &mut self,
        calls: u64,
        trouble: Trouble,
        op: &Op,
    ) -> Result<(), String> {
        self.disk.inject(fault(self.disk.calls().saturating_add(calls.max(1)), trouble));
        let failed = self.attempt_under(op)?;
        self.disk.clear_faults();
        if failed.is_some() {
            self.coverage.hit("failed by trouble");
        }
        self.heal()
    }

    fn attempt_under(&mut self, op: &Op) -> Result<Option<String>, String> {
        self.under_trouble = true;
        let failed = self.attempt(op);
        self.under_trouble = false;
        failed
    }

    /// The disk is well again: the store heals by itself, at the latest when it tries again.
    fn heal(&mut self) -> Result<(), String> {
        self.clock.advance(Duration::from_secs(1));
        self.tick_all();
        let healed = self.store()?.inbox.sweep();
        healed.map_err(say("I11: the store does not heal"))?;
        self.coverage.hit("healed");
        self.check()?;
        self.audit(false)
    }

    fn tick_all(&mut self) {
        let (wall_ms, boot_ms) = (self.clock.wall_ms(), self.clock.boot_ms());
        self.model.set_clock(wall_ms, boot_ms);
        self.maybe.iter_mut().for_each(|model| model.set_clock(wall_ms, boot_ms));
        let _ = self.open.as_ref().map(|open| Probe::of(&open.inbox));
    }
}
