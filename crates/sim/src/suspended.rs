//! Jobs that stand still in the middle of a sync while everything else goes on.
//!
//! Such a job runs on a thread of its own, but never at the same time as the simulation: one of the two waits for the
//! other. A job stands still only where no lock is held: in the first sync of a partition's log, before the job has
//! looked at the clock (which the broker does right after that sync).

use std::{
    cell::RefCell,
    sync::mpsc::{Receiver, Sender, channel},
    thread::JoinHandle,
};

use riparian_broker::Job;

use crate::world;

/// What a job's thread says.
enum Step {
    StandsStill,
    /// It has ended, perhaps by a panic.
    Ended(Option<String>),
}

/// The job's end of the two channels.
struct Here {
    may_stand_still: bool,
    says: Sender<Step>,
    goes_on: Receiver<()>,
}

thread_local! {
    /// Set on threads of jobs only.
    static HERE: RefCell<Option<Here>> = const { RefCell::new(None) };
}

/// A job that stands still.
pub(crate) struct Suspended {
    go_on: Sender<()>,
    steps: Receiver<Step>,
    thread: JoinHandle<()>,
}

/// How far a job came.
pub(crate) enum Progress {
    StandsStill(Suspended),
    /// It has ended, perhaps by a panic.
    Ended(Option<String>),
}

impl Suspended {
    /// Runs a job until it ends or stands still.
    pub(crate) fn start(job: Job) -> Progress {
        let ((says, steps), (go_on, goes_on)) = (channel(), channel());
        let thread = std::thread::spawn(move || {
            HERE.set(Some(Here { may_stand_still: true, says: says.clone(), goes_on }));
            let ended = std::panic::catch_unwind(std::panic::AssertUnwindSafe(job));
            let panic = world::take_panic().or_else(|| ended.err().map(|_| "of an unknown kind".to_owned()));
            // Nobody listens when the run is over.
            let _ = says.send(Step::Ended(panic));
        });
        Self { go_on, steps, thread }.wait()
    }

    /// Lets it go on.
    pub(crate) fn go_on(self) -> Progress {
        let _ = self.go_on.send(());
        self.wait()
    }

    /// Lets it go on to its end.
    pub(crate) fn finish(self) -> Option<String> {
        let mut progress = self.go_on();
        loop {
            match progress {
                Progress::StandsStill(suspended) => progress = suspended.go_on(),
                Progress::Ended(panic) => return panic,
            }
        }
    }

    fn wait(self) -> Progress {
        match self.steps.recv() {
            Ok(Step::StandsStill) => Progress::StandsStill(self),
            Ok(Step::Ended(panic)) => {
                let joined = self.thread.join();
                Progress::Ended(panic.or_else(|| joined.err().map(|_| "at the end of a job".to_owned())))
            }
            Err(_) => Progress::Ended(Some("a job's thread is gone".to_owned())),
        }
    }
}

/// Stands still, if this is the thread of a job that may.
pub(crate) fn stand_still() {
    HERE.with_borrow(|here| {
        if let Some(here) = here.as_ref().filter(|here| here.may_stand_still) {
            // An error means that the run is over: whoever asked goes on to its end.
            let _ = here.says.send(Step::StandsStill).map(|()| here.goes_on.recv());
        }
    });
}

/// From now on this job holds locks while it syncs.
pub(crate) fn no_more_standing_still() {
    HERE.with_borrow_mut(|here| {
        if let Some(here) = here {
            here.may_stand_still = false;
        }
    });
}
