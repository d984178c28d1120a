//! The benchmarks: what each does with the servers, and what it wants to find.

mod assignor;
mod data;
mod groups;
mod heartbeat;
mod leave;
mod start;
mod storm;
mod sync;
mod wordcount;

use anyhow::Result;
use clap::ValueEnum;

use crate::{
    report::Section,
    servers::{Kind, Tools},
};

#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub(crate) enum Benchmark {
    Start,
    Heartbeat,
    Storm,
    Groups,
    Data,
    Sync,
    Wordcount,
    Leave,
    Assignor,
}

/// What is asked for.
pub(crate) struct Plan {
    pub(crate) tools: Tools,
    pub(crate) rounds: Option<u32>,
    /// As small as it works.
    pub(crate) quick: bool,
    pub(crate) ours_only: bool,
}

impl Benchmark {
    pub(crate) const ALL: [Self; 9] = [
        Self::Start,
        Self::Heartbeat,
        Self::Storm,
        Self::Groups,
        Self::Data,
        Self::Sync,
        Self::Wordcount,
        Self::Leave,
        Self::Assignor,
    ];

    pub(crate) fn name(self) -> &'static str {
        match self {
            Self::Start => "start",
            Self::Heartbeat => "heartbeat",
            Self::Storm => "storm",
            Self::Groups => "groups",
            Self::Data => "data",
            Self::Sync => "sync",
            Self::Wordcount => "wordcount",
            Self::Leave => "leave",
            Self::Assignor => "assignor",
        }
    }

    pub(crate) fn run(self, plan: &Plan) -> Result<Section> {
        match self {
            Self::Start => start::run(plan),
            Self::Heartbeat => heartbeat::run(plan),
            Self::Storm => storm::run(plan),
            Self::Groups => groups::run(plan),
            Self::Data => data::run(plan),
            Self::Sync => sync::run(plan),
            Self::Wordcount => wordcount::run(plan),
            Self::Leave => leave::run(plan),
            Self::Assignor => assignor::run(plan),
        }
    }
}

impl Plan {
    /// How often a figure is taken.
    pub(crate) fn rounds(&self, usual: u32) -> usize {
        self.rounds.unwrap_or(if self.quick { 1 } else { usual }) as usize
    }

    /// One thing for a smoke run, another for figures.
    pub(crate) fn pick<T>(&self, quick: T, full: T) -> T {
        if self.quick { quick } else { full }
    }

    pub(crate) fn kinds(&self) -> &'static [Kind] {
        if self.ours_only { &[Kind::Riparian] } else { &Kind::BOTH }
    }

    /// What a person types to have the figures again.
    pub(crate) fn command(&self, benchmark: Benchmark, usual_rounds: u32) -> String {
        let quick = if self.quick { " --quick" } else { "" };
        let ours_only = if self.ours_only { " --ours-only" } else { "" };
        format!("cargo xtask bench {} --rounds {}{quick}{ours_only}", benchmark.name(), self.rounds(usual_rounds))
    }
}
