//! Everything that was measured.

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};

use serde::{Deserialize, Serialize};

use super::bars::{self, Bar};
use super::machine::Machine;
use crate::meter::median;
use crate::outcome::Outcome;
use crate::peers::Kind;
use crate::work::Figures;

/// One peer's work in one round.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub(crate) struct Run {
    pub(crate) case: String,
    pub(crate) peer: String,
    pub(crate) round: u64,
    #[serde(flatten)]
    pub(crate) figures: Figures,
}

/// A figure over all rounds.
#[derive(Debug, Clone, Copy, PartialEq, Serialize, Deserialize)]
pub(crate) struct Middle {
    pub(crate) median: f64,
    pub(crate) min: f64,
    pub(crate) max: f64,
}

/// Medians by case, peer and figure.
type Summary = BTreeMap<String, BTreeMap<String, BTreeMap<String, Middle>>>;

/// Everything, as `--json` prints it.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub(crate) struct Results {
    pub(crate) machine: Machine,
    /// How each peer is used.
    pub(crate) settings: BTreeMap<String, String>,
    #[serde(default)]
    pub(crate) bars: Vec<Bar>,
    #[serde(default)]
    pub(crate) summary: Summary,
    pub(crate) runs: Vec<Run>,
}

impl Results {
    pub(crate) fn new(machine: Machine, peers: impl Iterator<Item = Kind>) -> Self {
        let settings = peers.map(|peer| (peer.name.to_owned(), peer.settings.to_owned())).collect();
        Self { machine, settings, bars: Vec::new(), summary: Summary::new(), runs: Vec::new() }
    }

    /// Takes results from files of `--json`. What several of them measured counts as further rounds, in their order.
    pub(crate) fn read(files: &[PathBuf]) -> Outcome<Self> {
        let mut all = files.iter().map(|file| Self::read_one(file)).collect::<Outcome<Vec<_>>>()?.into_iter();
        let mut results = all.next().ok_or("no file of results")?;
        all.for_each(|more| results.append(more));
        results.conclude();
        Ok(results)
    }

    fn read_one(file: &Path) -> Outcome<Self> {
        let failed = |error: &dyn std::fmt::Display| format!("{}: {error}", file.display());
        let text = std::fs::read(file).map_err(|error| failed(&error))?;
        Ok(serde_json::from_slice(&text).map_err(|error| failed(&error))?)
    }

    fn append(&mut self, more: Self) {
        self.settings.extend(more.settings);
        for mut run in more.runs {
            let is_same = |known: &&Run| known.case == run.case && known.peer == run.peer;
            run.round = self.runs.iter().filter(is_same).count() as u64;
            self.runs.push(run);
        }
    }

    pub(crate) fn to_json(&self) -> Outcome<String> {
        Ok(serde_json::to_string(self)?)
    }

    /// Takes medians, and holds them against the bars.
    pub(crate) fn conclude(&mut self) {
        let mut all: BTreeMap<_, BTreeMap<_, BTreeMap<_, Vec<f64>>>> = BTreeMap::new();
        for run in &self.runs {
            let peer = all.entry(run.case.clone()).or_default().entry(run.peer.clone()).or_default();
            for (name, figure) in &run.figures.figures {
                peer.entry(name.clone()).or_default().push(*figure);
            }
        }
        let middle = |figures: Vec<f64>| Middle {
            median: median(&figures),
            min: figures.iter().copied().fold(f64::INFINITY, f64::min),
            max: figures.iter().copied().fold(f64::NEG_INFINITY, f64::max),
        };
        let of_peer =
            |figures: BTreeMap<_, Vec<f64>>| figures.into_iter().map(|(name, all)| (name, middle(all))).collect();
        let of_case =
            |peers: BTreeMap<_, _>| peers.into_iter().map(|(peer, figures)| (peer, of_peer(figures))).collect();
        self.summary = all.into_iter().map(|(case, peers)| (case, of_case(peers))).collect();
        self.bars = bars::all(self);
    }

    /// A figure of one peer in one round.
    pub(super) fn figure(&self, case: &str, peer: &str, round: u64, name: &str) -> Option<f64> {
        let run =
            self.runs.iter().find(|run| (run.case.as_str(), run.peer.as_str(), run.round) == (case, peer, round))?;
        run.figures.figures.get(name).copied()
    }

    /// A figure of one peer over all rounds.
    pub(super) fn middle(&self, case: &str, peer: &str, name: &str) -> Option<Middle> {
        self.summary.get(case)?.get(peer)?.get(name).copied()
    }

    pub(super) fn rounds(&self) -> u64 {
        self.runs.iter().map(|run| run.round + 1).max().unwrap_or_default()
    }

    /// The peers that were measured, rollstore and the limit first, the others in the order of the program's list.
    pub(super) fn peers(&self) -> Vec<&str> {
        let order = ["rollstore", "raw", "lmdb", "rocksdb", "fjall", "redb", "sqlite", "sled", "files"];
        let place = |name: &&str| order.iter().position(|known| known == name).unwrap_or(order.len());
        let mut peers: Vec<&str> = self.settings.keys().map(String::as_str).collect();
        peers.sort_by_key(place);
        peers
    }
}
