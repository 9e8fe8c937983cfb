//! How much of the machine a command takes that looks for longer than an instant.

use crate::units::parse_bytes;
use stillframe::{ObserverOptions, Polite};

/// Arguments of the commands that look for longer than an instant.
#[derive(Debug, clap::Args)]
pub struct PoliteArgs {
    /// Use these processors alone, such as 60-63,127
    #[arg(long, value_name = "LIST", value_parser = parse_processors, help_heading = HEADING)]
    processors: Option<Listed>,
    /// Take processors as any other program, whoever wants them, and not only what others leave
    #[arg(long, conflicts_with = "processors", help_heading = HEADING)]
    impolite: bool,
}

/// A list of processors that was given.
#[derive(Debug, Clone, PartialEq)]
struct Listed {
    text: String,
    polite: Polite,
}

/// Arguments of the commands that look at one version after the other.
#[derive(Debug, clap::Args)]
pub struct PaceArgs {
    /// How much of one processor to take where nothing is left over [default: 2%]
    #[arg(long, value_name = "PERCENT", value_parser = parse_share, conflicts_with = "impolite", help_heading = HEADING)]
    share: Option<f64>,
    /// Read at most so many bytes in a second, such as 200M
    #[arg(long, value_name = "BYTES", value_parser = parse_bytes, conflicts_with = "impolite", help_heading = HEADING)]
    rate: Option<u64>,
    #[command(flatten)]
    polite: PoliteArgs,
}

const HEADING: &str = "What it takes of the machine";

impl PoliteArgs {
    /// What was asked for; `None` if the command is to be as any other.
    fn polite(&self) -> Option<Polite> {
        (!self.impolite).then(|| self.processors.as_ref().map(|listed| listed.polite.clone()).unwrap_or_default())
    }

    /// Has this process use the processors of the list alone, and take as much of them as any other program: what a person waits
    /// for in front of a terminal is to come, however busy they are.
    pub fn begin(&self) -> stillframe::Result<()> {
        self.polite().map_or(Ok(()), |polite| polite.keep_class().apply())
    }

    /// Has this process take what others leave, from now on.
    pub fn step_back(&self) -> stillframe::Result<()> {
        self.polite().map_or(Ok(()), |polite| polite.apply())
    }

    /// The same, as arguments of a program that has them too.
    pub fn arguments(&self) -> Vec<String> {
        let processors = self.processors.iter().map(|listed| format!("--processors={}", listed.text));
        self.impolite.then(|| "--impolite".into()).into_iter().chain(processors).collect()
    }
}

impl PaceArgs {
    /// Puts what was asked for into the options of an observer.
    pub fn options(&self, options: ObserverOptions) -> ObserverOptions {
        let Some(mut polite) = self.polite.polite() else { return options };
        if let Some(share) = self.share {
            polite = polite.share(share);
        }
        if let Some(bytes) = self.rate {
            polite = polite.bytes_per_s(bytes);
        }
        options.polite(polite)
    }
}

pub fn parse_share(text: &str) -> Result<f64, String> {
    let percent = text.trim().strip_suffix('%').and_then(|number| number.trim_end().parse::<f64>().ok());
    match percent {
        Some(percent) if percent > 0.0 && percent <= 100.0 => Ok(percent / 100.0),
        _ => Err("give a part of one processor above 0% and up to 100%, such as 2%".into()),
    }
}

/// An observer on the processors of a list.
fn parse_processors(text: &str) -> Result<Listed, String> {
    let listed = Polite::new().processors_listed(text);
    let polite = listed.map_err(|_| "give numbers and ranges of them, such as 0,4-7".to_string())?;
    Ok(Listed { text: text.into(), polite })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn shares_are_percents_and_processors_are_ranges() {
        assert_eq!(parse_share("2%"), Ok(0.02));
        assert_eq!(parse_share("100 %"), Ok(1.0));
        for wrong in ["0%", "2", "101%", "-1%", "nan%", ""] {
            assert!(parse_share(wrong).is_err(), "{wrong}");
        }
        assert_eq!(parse_processors("60-63, 127").unwrap().polite, Polite::new().processors([60..=63, 127..=127]));
        for wrong in ["", "a", "4-2", "1,,2", "-1"] {
            assert!(parse_processors(wrong).is_err(), "{wrong}");
        }
    }
}
