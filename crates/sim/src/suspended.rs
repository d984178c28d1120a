//! Jobs that stand still in the middle of a sync while everything else goes on.
//!
//! Such a job runs on a thread of its own, but never at the same time as the simulation: one of the two waits for the
//! other. A job stands still only where no lock is held: in the first sync of a partition's log, before the job has
//! looked at the clock (which the broker does right after that sync). A thread whose job has ended takes the next one.

use std::{
    cell::RefCell,
    sync::mpsc::{Receiver, Sender, channel},
};

use riparian_broker::Job;

use crate::world;

/// What a job's thread is told.
enum Order {
    Run(Job),
    GoOn,
}

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
    orders: Receiver<Order>,
}

/// The simulation's end.
struct Worker {
    orders: Sender<Order>,
    steps: Receiver<Step>,
}

thread_local! {
    /// Set on threads of jobs only.
    static HERE: RefCell<Option<Here>> = const { RefCell::new(None) };
    /// Those of this simulation without a job.
    static IDLE: RefCell<Vec<Worker>> = const { RefCell::new(Vec::new()) };
}

/// A job that stands still.
pub(crate) struct Suspended(Worker);

/// How far a job came.
pub(crate) enum Progress {
    StandsStill(Suspended),
    /// It has ended, perhaps by a panic.
    Ended(Option<String>),
}

impl Suspended {
    /// Runs a job until it ends or stands still.
    pub(crate) fn start(job: Job) -> Progress {
        let worker = IDLE.with_borrow_mut(Vec::pop).unwrap_or_else(Worker::new);
        worker.tell(Order::Run(job))
    }

    /// Lets it go on.
    pub(crate) fn go_on(self) -> Progress {
        self.0.tell(Order::GoOn)
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
}

impl Worker {
    fn new() -> Self {
        let ((says, steps), (tell, orders)) = (channel(), channel());
        std::thread::spawn(move || {
            HERE.set(Some(Here { may_stand_still: false, says, orders }));
            while let Some(Order::Run(job)) = next_order() {
                run(job);
            }
        });
        Self { orders: tell, steps }
    }

    /// Gives an order and waits until the job ends or stands still.
    fn tell(self, order: Order) -> Progress {
        let told = self.orders.send(order);
        match told.ok().and_then(|()| self.steps.recv().ok()) {
            Some(Step::StandsStill) => Progress::StandsStill(Suspended(self)),
            Some(Step::Ended(panic)) => {
                IDLE.with_borrow_mut(|idle| idle.push(self));
                Progress::Ended(panic)
            }
            None => Progress::Ended(Some("a job's thread is gone".to_owned())),
        }
    }
}

/// None when the simulation is over.
fn next_order() -> Option<Order> {
    HERE.with_borrow(|here| here.as_ref()?.orders.recv().ok())
}

fn run(job: Job) {
    set_may_stand_still(true);
    let panic = world::panic_of(job);
    set_may_stand_still(false);
    say(Step::Ended(panic));
}

/// Nobody listens when the run is over.
fn say(step: Step) {
    HERE.with_borrow(|here| here.as_ref().map(|here| here.says.send(step)));
}

fn set_may_stand_still(may: bool) {
    HERE.with_borrow_mut(|here| {
        if let Some(here) = here {
            here.may_stand_still = may;
        }
    });
}

/// Stands still, if this is the thread of a job that may.
pub(crate) fn stand_still() {
    if HERE.with_borrow(|here| here.as_ref().is_some_and(|here| here.may_stand_still)) {
        say(Step::StandsStill);
        // No order: the run is over, and whoever asked goes on to its end.
        let _ = next_order();
    }
}

/// From now on this job holds locks while it syncs.
pub(crate) fn no_more_standing_still() {
    set_may_stand_still(false);
}
