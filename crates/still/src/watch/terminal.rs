//! The terminal while the screen is shown: taken over, and given back however the command ends.

use super::sample::Sampler;
use super::screen::Screen;
use crate::context::Verdict;
use crate::failure::{FINE, Failure};
use crate::polite::PoliteArgs;
use ratatui::DefaultTerminal;
use ratatui::crossterm::event::{self, Event, KeyCode, KeyEventKind, KeyModifiers};
use signal_hook::consts::{SIGHUP, SIGINT, SIGTERM};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};

/// The longest a signal waits for an answer.
const PATIENCE: Duration = Duration::from_millis(100);

/// Shows the screen until somebody quits.
pub fn run(sampler: Sampler, interval: Duration, polite: &PoliteArgs) -> Verdict {
    // A signal only raises this flag; the terminal is given back on the ordinary way out.
    let ended = Arc::new(AtomicBool::new(false));
    for signal in [SIGHUP, SIGINT, SIGTERM] {
        signal_hook::flag::register(signal, ended.clone())?;
    }
    // This also sees to it that a panic gives the terminal back before it speaks.
    let terminal = ratatui::try_init()?;
    let shown = show(terminal, sampler, interval, polite, &ended);
    let restored = ratatui::try_restore();
    shown?;
    restored?;
    Ok(FINE)
}

fn show(
    mut terminal: DefaultTerminal,
    mut sampler: Sampler,
    interval: Duration,
    polite: &PoliteArgs,
    ended: &AtomicBool,
) -> Result<(), Failure> {
    let mut screen = Screen::new(sampler.dir(), interval);
    let mut next = Instant::now() + interval.min(Duration::from_millis(200));
    screen.update(sampler.sample()?);
    terminal.draw(|frame| screen.draw(frame))?;
    polite.step_back()?;
    while !ended.load(Ordering::Relaxed) {
        let wait = next.saturating_duration_since(Instant::now()).min(PATIENCE);
        if event::poll(wait)? {
            match event::read()? {
                Event::Key(key) if key.kind == KeyEventKind::Press => {
                    let control = key.modifiers.contains(KeyModifiers::CONTROL);
                    match key.code {
                        KeyCode::Char('c' | 'd') if control => return Ok(()),
                        KeyCode::Char('q') | KeyCode::Esc => return Ok(()),
                        KeyCode::Down | KeyCode::Char('j') => screen.choose(1),
                        KeyCode::Up | KeyCode::Char('k') => screen.choose(-1),
                        KeyCode::Char(' ' | 'p') => screen.pause(),
                        _ => continue,
                    }
                }
                Event::Resize(..) => {}
                _ => continue,
            }
            terminal.draw(|frame| screen.draw(frame))?;
        }
        if Instant::now() >= next {
            next = Instant::now() + interval;
            let sample = sampler.sample()?;
            screen.update(sample);
            terminal.draw(|frame| screen.draw(frame))?;
        }
    }
    Ok(())
}
