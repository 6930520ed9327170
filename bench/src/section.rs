//! The layout of a section of the page: what it shows of a scenario.

/// What the page shows of a scenario.
#[derive(Clone, Copy, Debug)]
pub(crate) struct SectionLayout {
    pub(crate) columns: &'static [Column],
    /// A part of the name of the cases whose ratios it shows.
    pub(crate) compared: &'static str,
    /// Whether it shows only the candidates that are compared with others.
    pub(crate) only_compared: bool,
}

/// A column: its heading, a part of the name of its cases, and its quantity.
pub(crate) type Column = (&'static str, &'static str, &'static str);
