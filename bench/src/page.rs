//! A Markdown file with a section for each scenario, between `<!-- measured: NAME -->` and `<!-- end -->`. Only the sections
//! are replaced.

use std::{
    fs,
    path::{Path, PathBuf},
};

use crate::{Result, plot::Picture};

const END: &str = "<!-- end -->";

/// The file.
#[derive(Debug)]
pub(crate) struct Page(PathBuf);

impl Page {
    /// Opens it. Fails unless it has a section for each scenario.
    pub(crate) fn open<'a>(path: &Path, scenarios: impl IntoIterator<Item = &'a str>) -> Result<Self> {
        let text = fs::read_to_string(path).map_err(|error| format!("{}: {error}", path.display()))?;
        for scenario in scenarios {
            section(&text, scenario).ok_or_else(|| {
                format!(
                    "{} has no section for {scenario}: add {}, and {END} below",
                    path.display(),
                    begin(scenario).trim_end()
                )
            })?;
        }
        Ok(Self(path.canonicalize()?))
    }

    /// Replaces the section of a scenario.
    pub(crate) fn show(&self, scenario: &str, shown: &str) -> Result<()> {
        // Read again: it may have been edited during the run.
        let mut text = fs::read_to_string(&self.0)?;
        let (from, to) = section(&text, scenario).ok_or("the section was removed during the run")?;
        text.replace_range(from..to, &format!("\n{}\n\n", shown.trim()));
        Ok(fs::write(&self.0, text)?)
    }

    /// Returns Markdown that shows pictures, by paths relative to the page if they are below it.
    pub(crate) fn refer(&self, directory: &Path, pictures: &[Picture]) -> Result<String> {
        let directory = directory.canonicalize()?;
        let own = self.0.parent().unwrap_or(Path::new("/"));
        let below = directory.strip_prefix(own).unwrap_or(&directory).display();
        let refer = |picture: &Picture| format!("![{}]({below}/{})\n\n", picture.title, picture.file);
        Ok(pictures.iter().map(refer).collect())
    }
}

fn begin(scenario: &str) -> String {
    format!("<!-- measured: {scenario} -->\n")
}

/// Returns where a section starts and ends.
fn section(text: &str, scenario: &str) -> Option<(usize, usize)> {
    let begin = begin(scenario);
    let from = text.find(&begin)? + begin.len();
    Some((from, from + text[from..].find(END)?))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_the_named_section_is_replaced() {
        let file = tempfile::NamedTempFile::new().expect("a file");
        let text =
            "before\n<!-- measured: send -->\nold\n<!-- end -->\nbetween\n<!-- measured: idle -->\n<!-- end -->\n";
        fs::write(&file, text).expect("written");
        let page = Page::open(file.path(), ["send", "idle"]).expect("all sections exist");
        page.show("idle", "new\n").expect("shown");
        let shown = text.replace("idle -->\n", "idle -->\n\nnew\n\n");
        assert_eq!(fs::read_to_string(&file).expect("read"), shown);
        page.show("idle", "newer").expect("shown again");
        assert_eq!(fs::read_to_string(&file).expect("read"), shown.replace("new", "newer"));
        Page::open(file.path(), ["drain"]).expect_err("it has no section");
    }
}
