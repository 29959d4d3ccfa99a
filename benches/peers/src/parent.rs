//! The parent process: loads every store, then lets the engines run their windows in turn.

use anyhow::{Context, Result, bail, ensure};
use std::fs;

use crate::args::RunOptions;
use crate::child::{Child, store_dir};
use crate::engine::{self, Mode};
use crate::machine::Machine;
use crate::protocol::{Request, Response, Sample};
use crate::report::{self, Row};
use crate::workload::{self, Workload};

const WINDOWS: usize = 3;

pub fn run(options: &RunOptions) -> Result<()> {
    let workloads = workload::select(options.workloads.as_deref())?;
    let engines = selected_engines(options)?;
    fs::create_dir_all(&options.dir)?;
    let machine = Machine::describe(&options.dir, options)?;
    eprintln!("{}", machine.caption());
    if machine.file_system == "tmpfs" {
        bail!(
            "{} is on tmpfs, where a sync costs nothing; choose another --dir",
            options.dir.display()
        );
    }
    let wide = workloads.iter().any(Workload::is_wide);
    let mut children = Vec::new();
    for engine in &engines {
        children.push((engine.as_str(), load(options, engine, wide)?));
    }
    let mut rows = Vec::new();
    for workload in &workloads {
        rows.extend(measure(options, workload, &mut children)?);
    }
    for (_, mut child) in children {
        child.ask(&Request::Verify)?;
        child.quit()?;
    }
    for engine in &engines {
        fs::remove_dir_all(store_dir(options, engine))?;
    }
    print!("{}", report::table::render(&rows, &machine));
    print!("{}", report::ratios::render(&rows));
    if let Some(path) = &options.json {
        fs::write(path, report::json(&rows, &machine)?)
            .with_context(|| path.display().to_string())?;
    }
    if let Some(path) = &options.svg {
        let drawing = report::svg::render(&rows, &workloads, &machine);
        fs::write(path, drawing).with_context(|| path.display().to_string())?;
    }
    Ok(())
}

fn selected_engines(options: &RunOptions) -> Result<Vec<String>> {
    let all = || engine::NAMES.iter().map(|name| (*name).to_owned()).collect();
    let engines: Vec<String> = options.engines.clone().unwrap_or_else(all);
    for name in &engines {
        ensure!(
            engine::is_built_in(name),
            "no engine {name} is built in; there are {}",
            engine::NAMES.join(", ")
        );
    }
    Ok(engines)
}

/// Loads a store in a process of its own, so that what loading leaves in memory is gone, and opens it for measuring.
fn load(options: &RunOptions, engine: &str, wide: bool) -> Result<Child> {
    let dir = store_dir(options, engine);
    if dir.exists() {
        fs::remove_dir_all(&dir)?;
    }
    let mut loader = Child::spawn(options, engine, Mode::Load, wide)?;
    loader.ask(&Request::Load)?;
    loader.quit()?;
    Child::spawn(options, engine, Mode::Serve, wide)
}

/// Three windows of one workload, engine by engine in each round, after a short one that does not count.
fn measure(
    options: &RunOptions,
    workload: &Workload,
    children: &mut [(&str, Child)],
) -> Result<Vec<Row>> {
    let mut samples = vec![Vec::new(); children.len()];
    for round in 0..=WINDOWS {
        for ((engine, child), samples) in children.iter_mut().zip(&mut samples) {
            if !engine::takes_part(engine, workload) {
                continue;
            }
            let warm_up = round == 0;
            let seconds = if warm_up { options.seconds / 4.0 } else { options.seconds };
            let sample = window(child, workload, seconds, warm_up)?;
            if !warm_up {
                eprintln!(
                    "{} {} {round}/{WINDOWS}: {:.0} events/s",
                    workload.name, engine, sample.events_per_s
                );
                samples.push(sample);
            }
        }
    }
    let rows = children.iter().zip(samples).filter_map(|((engine, child), samples)| {
        Row::new(engine, &child.version, workload, options.claims, samples)
    });
    Ok(rows.collect())
}

fn window(child: &mut Child, workload: &Workload, seconds: f64, warm_up: bool) -> Result<Sample> {
    match child.ask(&Request::Window { workload: workload.name.to_owned(), seconds, warm_up })? {
        Response::Measured(sample) => Ok(sample),
        other => bail!("unexpected answer {other:?}"),
    }
}
