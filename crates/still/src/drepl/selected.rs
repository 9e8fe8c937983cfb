//! Views, replicas and fragments as command lines name them.

use super::described::{misuse, words};
use crate::failure::Failure;
use ::drepl::{Bindings, Fragment, Replica, Schema, View};
use std::collections::HashMap;
use std::ops::Range;
use std::path::PathBuf;
use std::sync::Arc;

/// Sources that `--each` makes at most: each is a fragment and may be a file.
const EXPANDED_MAX: u64 = 1 << 17;

/// A number that runs, such as `i=0..8`.
#[derive(Debug, Clone)]
pub struct Each {
    name: String,
    values: Range<i64>,
}

/// A layout that the command names, and the file that goes with it.
#[derive(Debug)]
pub struct Selected {
    /// What the user called it.
    pub name: String,
    /// What lies where.
    pub fragment: Arc<Fragment>,
    /// What the user gave, or the text gives a replica.
    pub file: Option<PathBuf>,
    /// Whether that is from the text.
    pub default_file: bool,
}

/// How commands are told about layouts and files.
pub struct Selection<'a> {
    schema: &'a Schema,
    /// Numbers that texts on the command line may use too.
    bindings: &'a Bindings,
    each: &'a [Each],
}

impl<'a> Selection<'a> {
    /// What the command line can name. No name has two numbers.
    pub fn new(schema: &'a Schema, bindings: &'a Bindings, each: &'a [Each]) -> Result<Self, Failure> {
        for (position, Each { name, .. }) in each.iter().enumerate() {
            if each[..position].iter().any(|other| other.name == *name) {
                return Err(Failure::Misuse(format!("--each {name} is given twice: run another name")));
            }
            if bindings.get(name).is_some() {
                return Err(Failure::Misuse(format!(
                    "{name} has a number, -D {name}, and runs, --each {name}: give one"
                )));
            }
        }
        Ok(Self { schema, bindings, each })
    }

    /// What `text` names: a view, a replica or a fragment in braces, several where `--each` has them run.
    pub fn layouts(&self, text: &str) -> Result<Vec<Selected>, Failure> {
        self.expand(text, None)
    }

    /// The one that `text` names.
    pub fn layout(&self, text: &str) -> Result<Selected, Failure> {
        let mut all = self.layouts(text)?;
        match all.pop() {
            Some(one) if all.is_empty() => Ok(one),
            _ => Err(Failure::Misuse(format!("{text} is {} views; give one", all.len() + 1))),
        }
    }

    /// What there is where the user does not say: what is stored, or the view that stands for it.
    pub fn defaults(&self) -> Result<Vec<Selected>, Failure> {
        let mut all: Vec<_> = self.schema.replicas().iter().map(|replica| stored(replica, None)).collect();
        if let Some(view) = self.schema.default_view().filter(|_| all.is_empty()) {
            all.push(viewed(view, None));
        }
        if all.is_empty() {
            let text = "say with --from what there is: the text has no replica and no default view";
            return Err(Failure::Misuse(text.into()));
        }
        Ok(all)
    }

    /// What `text` names, and the files behind its `=`. Those of replicas may be left out.
    pub fn stored(&self, text: &str) -> Result<Vec<Selected>, Failure> {
        // A fragment in braces has equals signs of its own, and its file may have braces.
        let mut depth = 0_usize;
        let equals = text.char_indices().find(|(_, letter)| {
            match letter {
                '{' => depth += 1,
                '}' => depth = depth.saturating_sub(1),
                _ => {}
            }
            depth == 0 && *letter == '='
        });
        match equals.map(|(place, _)| (&text[..place], &text[place + 1..])) {
            Some((_, "")) => Err(Failure::Misuse(format!("{text}: the name of the file is missing behind ="))),
            Some((layout, file)) => self.expand(layout, Some(file)),
            None => self.expand(text, None),
        }
    }

    fn expand(&self, text: &str, file: Option<&str>) -> Result<Vec<Selected>, Failure> {
        let text = text.trim();
        if !text.contains('{') {
            return Ok(vec![self.named(text, file)?]);
        }
        let running: Vec<&Each> = self.each.iter().filter(|each| words(text).any(|word| word == each.name)).collect();
        let lengths = running.iter().map(|each| each.values.end.abs_diff(each.values.start));
        let count = lengths.clone().try_fold(1_u64, u64::checked_mul).filter(|count| *count <= EXPANDED_MAX);
        let count = count
            .ok_or_else(|| Failure::Misuse(format!("--each makes more than {EXPANDED_MAX} fragments of {text}")))?;
        let lengths: Vec<u64> = lengths.collect();
        let made = (0..count).map(|number| {
            let mut rest = number;
            let mut values: Vec<i64> = Vec::new();
            for (each, length) in running.iter().zip(&lengths).rev() {
                values.push(each.values.start + (rest % length) as i64);
                rest /= length;
            }
            values.reverse();
            let numbers: Vec<(&str, i64)> = running.iter().map(|each| &*each.name).zip(values).collect();
            self.fragment(text, file, &numbers)
        });
        // Files of one name would be read as if they were several.
        let mut several = running.iter().zip(&lengths).filter(|(_, length)| **length > 1);
        if let Some(file) = file
            && let Some((each, _)) = several.find(|(each, _)| !file.contains(&format!("{{{}}}", each.name)))
        {
            let name = &each.name;
            let text = format!("--each {name} makes {count} fragments of {text}, and {file} is one file");
            return Err(Failure::Misuse(format!("{text}: put {{{name}}} into its name")));
        }
        made.collect()
    }

    fn fragment(&self, text: &str, file: Option<&str>, numbers: &[(&str, i64)]) -> Result<Selected, Failure> {
        let mut bindings = self.bindings.clone();
        bindings.extend(numbers.iter().copied());
        let view = self.schema.parse_view(text, &bindings).map_err(misuse)?;
        let mut file = file.map(str::to_owned);
        for (name, value) in numbers {
            file = file.map(|file| file.replace(&format!("{{{name}}}"), &value.to_string()));
        }
        let name = match numbers {
            [] => view_name(&view).unwrap_or_else(|| first_variable(&view)),
            _ => {
                let values: Vec<String> = numbers.iter().map(|(name, value)| format!("{name}={value}")).collect();
                format!("{} {}", first_variable(&view), values.join(" "))
            }
        };
        Ok(Selected { name, fragment: view.fragment, file: file.map(PathBuf::from), default_file: false })
    }

    fn named(&self, text: &str, file: Option<&str>) -> Result<Selected, Failure> {
        let (kind, name) = text.split_once(' ').map_or(("", text), |(kind, name)| (kind, name.trim()));
        let view = self.schema.view(name).filter(|_| kind != "replica");
        let replica = self.schema.replica(name).filter(|_| kind != "view");
        match (kind, view, replica) {
            ("" | "view", Some(view), None) => Ok(viewed(view, file)),
            ("" | "replica", None, Some(replica)) => Ok(stored(replica, file)),
            ("", Some(_), Some(_)) => {
                let text = format!("{name} is a view and a replica: say 'view {name}' or 'replica {name}'");
                Err(Failure::Misuse(text))
            }
            _ => Err(self.unknown(text)),
        }
    }

    fn unknown(&self, text: &str) -> Failure {
        let known = known(self.schema);
        let hint = match &known[..] {
            [] => "the text names none; give a fragment in braces, such as '{ var part = OBJECT }'".to_owned(),
            known => format!("there are {}; a fragment in braces does as well", known.join(", ")),
        };
        Failure::Misuse(format!("there is no view or replica `{text}`: {hint}"))
    }
}

/// Tells layouts of one name apart.
pub fn number(layouts: &mut [Selected]) {
    let mut seen: HashMap<String, usize> = HashMap::new();
    for layout in layouts {
        let times = seen.entry(layout.name.clone()).or_default();
        *times += 1;
        if *times > 1 {
            layout.name = format!("{} ({times})", layout.name);
        }
    }
}

/// What a text names: views, then replicas.
fn known(schema: &Schema) -> Vec<String> {
    let views = schema.views().iter().filter_map(view_name);
    views.chain(schema.replicas().iter().map(|replica| replica.name.to_string())).collect()
}

fn viewed(view: &View, file: Option<&str>) -> Selected {
    let name = view_name(view).unwrap_or_else(|| first_variable(view));
    Selected { name, fragment: view.fragment.clone(), file: file.map(PathBuf::from), default_file: false }
}

fn stored(replica: &Replica, file: Option<&str>) -> Selected {
    Selected {
        name: replica.name.to_string(),
        fragment: replica.fragment.clone(),
        file: file.or(replica.file.as_deref()).map(PathBuf::from),
        default_file: file.is_none(),
    }
}

fn view_name(view: &View) -> Option<String> {
    view.name.as_ref().map(|name| name.to_string())
}

fn first_variable(view: &View) -> String {
    view.fragment.variables().first().map_or_else(|| "fragment".into(), |variable| variable.name.to_string())
}

/// Reads `i=0..8`.
pub fn parse_each(text: &str) -> Result<Each, String> {
    let wrong = || "give a name and a range that is not empty, such as i=0..8".to_string();
    let (name, range) = text.split_once('=').ok_or_else(wrong)?;
    let (start, end) = range.split_once("..").ok_or_else(wrong)?;
    let number = |text: &str| text.trim().parse::<i64>().map_err(|_| wrong());
    let values = number(start)?..number(end)?;
    let name = name.trim();
    if values.is_empty() || name.is_empty() || words(name).count() > 1 {
        return Err(wrong());
    }
    Ok(Each { name: name.into(), values })
}
