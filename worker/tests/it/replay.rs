//! A run is a function of its code, its seed, its start and its replies in order: the same replies give the same run,
//! however they are timed, on every engine of the language.

mod corpus;

use std::time::Duration;

use libtest_mimic::{Failed, Trial};
use wire::{Language, Limits};

use crate::gateway::{Engine, LIMITS, NOW_MS, Played, Player, SEED, Worker, engines};

/// Room for the calls of the scripts below.
const ROOM: Limits = Limits { calls: 1000, cpu_ms: 20_000, ..LIMITS };
/// Runs of each script, with another order of answers each.
const ORDERS: u64 = 20;

/// Branches that call, wait, race and cancel, as the run's own random numbers decide; each notes what it sees.
const BRANCHES: &str = r"
const seen = [];
const pause = (ms) => new Promise((done) => setTimeout(done, ms));
const branch = async (name, depth) => {
  for (let i = 0; i < 4; i++) {
    const dice = Math.random();
    const call = () => github.echo({ name, i, at: Date.now(), chance: Math.random() });
    if (dice < 0.3) await call();
    else if (dice < 0.5) await pause(Math.floor(Math.random() * 30));
    else if (dice < 0.6) clearTimeout(setTimeout(() => seen.push('cancelled'), 1));
    else if (dice < 0.7) await Promise.race([call(), pause(3), pause(0).then(() => pause(2))]);
    else if (dice < 0.8) await github.fail({}).catch((error) => seen.push(error.code));
    else if (depth < 3) await Promise.all([branch(name + 'a', depth + 1), branch(name + 'b', depth + 1)]);
    else await forge.parallel([call, () => forge.ls('/'), () => pause(1)], { concurrency: 2 });
    seen.push(name + i);
    console.log(name, i, new Date().toISOString(), String(Math.random()));
  }
};
await Promise.all(['p', 'q', 'r', 's'].map((name) => branch(name, 0)));
return [seen, Date()];
";

/// Deferred calls beside functions that make several.
const FUNCTIONS: &str = r#"
def several(n):
    first = github.echo(n = n)
    print("first", n)
    again = parallel([defer(github.echo, n = n, again = i) for i in range(3)])
    return [first["n"], len(again), github.echo(last = n)]
tasks = []
for n in range(6):
    tasks.append(defer(github.echo, n = n))
    tasks.append(defer(several, n))
    tasks.append(defer(github.fail))
outcomes = parallel(tasks, concurrency = 5)
print(outcomes.errors)
result = outcomes.results
"#;

pub(crate) fn trials() -> Vec<Trial> {
    let mut trials = corpus::trials();
    for engine in engines() {
        let trial = move || same_replies_give_the_same_run(engine);
        trials.push(Trial::test(format!("replay::same_replies_give_the_same_run::{}", engine.name), trial));
        if engine.language == Language::Javascript {
            let trial = move || another_seed_gives_another_run(engine);
            trials.push(Trial::test(format!("replay::another_seed_gives_another_run::{}", engine.name), trial));
            let trial = move || a_script_that_polls_hears_the_reply(engine);
            trials.push(Trial::test(format!("replay::a_script_that_polls_hears_the_reply::{}", engine.name), trial));
            let trial = move || another_order_gives_another_run(engine);
            trials.push(Trial::test(format!("replay::another_order_gives_another_run::{}", engine.name), trial));
        }
    }
    trials
}

fn script(language: Language) -> &'static str {
    match language {
        Language::Javascript => BRANCHES,
        Language::Starlark => FUNCTIONS,
    }
}

/// Records runs with answers in random orders, and plays each again on all engines of the language: one answer at a time,
/// and in bursts.
fn same_replies_give_the_same_run(engine: Engine) -> Result<(), Failed> {
    let script = script(engine.language);
    let mut recorder = Worker::start(engine);
    let alike = engines().into_iter().filter(|other| other.language == engine.language);
    let mut replayers: Vec<_> = alike.map(|engine| (engine.name, Worker::start(engine))).collect();
    for order in 0..ORDERS {
        let seed = [u8::try_from(order)?; 32];
        let mut recording = Recording::new(order);
        let recorded = recorder.play(script, ROOM, seed, &mut recording);
        if recorded.said.len() < 20 || !recorded.result.starts_with('[') {
            return Err(format!("order {order}: not much happened: {recorded:#?}").into());
        }
        for (name, replayer) in &mut replayers {
            for most in [1, 3, usize::MAX] {
                let mut replay = Replay { log: &recording.log, at: 0, most, random: Random(order + 1) };
                let played = replayer.play(script, ROOM, seed, &mut replay);
                same(&recorded, &played)
                    .map_err(|reason| format!("order {order}, {most} at once on {name}: {reason}"))?;
            }
        }
    }
    Ok(())
}

fn same(recorded: &Played, played: &Played) -> Result<(), String> {
    let differs = recorded.said.iter().zip(&played.said).position(|(a, b)| a != b);
    match differs {
        Some(at) => Err(format!("part at {at}:\n{}\n{}", recorded.said[at], played.said[at])),
        None if recorded == played => Ok(()),
        None => Err(format!(
            "{} and {} lines, {}\n{}",
            recorded.said.len(),
            played.said.len(),
            recorded.result,
            played.result
        )),
    }
}

/// Shows that the comparison can fail. Starlark does the same in any order.
fn another_order_gives_another_run(engine: Engine) -> Result<(), Failed> {
    let mut worker = Worker::start(engine);
    let mut play = |order| worker.play(BRANCHES, ROOM, SEED, &mut Recording::new(order));
    match same(&play(1), &play(2)) {
        Ok(()) => Err("two orders gave one run".into()),
        Err(_) => Ok(()),
    }
}

fn another_seed_gives_another_run(engine: Engine) -> Result<(), Failed> {
    let script = "return [Math.random(), Math.random(), Date.now()]";
    let mut worker = Worker::start(engine);
    let mut play = |seed| worker.play(script, ROOM, seed, &mut Recording::new(0)).result;
    let (first, again, other) = (play(SEED), play(SEED), play([8; 32]));
    if first != again || first == other || !other.ends_with(&format!(",{NOW_MS}]")) {
        return Err(format!("{first}\n{again}\n{other}").into());
    }
    Ok(())
}

/// Timers without delay run before a reply is looked at, but not for ever.
fn a_script_that_polls_hears_the_reply(engine: Engine) -> Result<(), Failed> {
    let script = "let answer; let turns = 0; github.sleep({ ms: 20 }).then((value) => (answer = value)); \
        for (; answer === undefined; turns++) await new Promise((done) => setTimeout(done, 0)); \
        return [answer.ms, turns > 8]";
    match Worker::start(engine).run(script, LIMITS).done.result {
        Ok(value) if value.get() == "[20,true]" => Ok(()),
        other => Err(format!("{other:?}").into()),
    }
}

/// Answers in a random order, at random times that also go back, and notes both.
struct Recording {
    random: Random,
    now_ms: u64,
    log: Vec<(u64, u64)>,
}

impl Recording {
    fn new(order: u64) -> Self {
        Self { random: Random(order), now_ms: NOW_MS, log: Vec::new() }
    }
}

impl Player for Recording {
    fn patience(&mut self) -> Duration {
        Duration::from_micros(300)
    }

    fn choose(&mut self, open: &[u64]) -> Vec<(u64, u64)> {
        if open.is_empty() || self.random.below(3) == 0 {
            return Vec::new();
        }
        self.now_ms += self.random.below(20);
        let call = open[usize::try_from(self.random.below(open.len() as u64)).unwrap_or_default()];
        let chosen = (call, self.now_ms - self.random.below(10));
        self.log.push(chosen);
        vec![chosen]
    }
}

/// Answers in the order of a log, at most so many at once.
struct Replay<'a> {
    log: &'a [(u64, u64)],
    at: usize,
    most: usize,
    random: Random,
}

impl Player for Replay<'_> {
    fn patience(&mut self) -> Duration {
        Duration::from_micros(self.random.below(900) + 100)
    }

    fn choose(&mut self, open: &[u64]) -> Vec<(u64, u64)> {
        if self.most > 1 && self.random.below(3) > 0 {
            return Vec::new();
        }
        let rest = self.log[self.at..].iter().take(self.most);
        let chosen: Vec<_> = rest.take_while(|(call, _)| open.contains(call)).copied().collect();
        self.at += chosen.len();
        chosen
    }
}

/// Numbers that look random and are the same each time.
struct Random(u64);

impl Random {
    fn below(&mut self, limit: u64) -> u64 {
        self.0 = self.0.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
        (self.0 >> 33) % limit
    }
}
