//! Plots as plain SVG: bars, lines and steps. They stand alone: no script, no font, no file beside them.

use std::fmt::Write;

use super::tables::number;

const WIDTH: f64 = 720.0;
const ROW: f64 = 22.0;
const LABEL: f64 = 110.0;
const OURS: &str = "#c2410c";
const LIMIT: &str = "#a8a29e";
const COLORS: [&str; 6] = ["#c2410c", "#1d4ed8", "#15803d", "#7e22ce", "#57534e", "#b45309"];

/// A row of a bar plot.
#[derive(Debug, Clone)]
pub(super) struct Row {
    pub(super) label: String,
    pub(super) value: f64,
}

/// A line of a line plot.
#[derive(Debug, Clone)]
pub(super) struct Line {
    pub(super) label: String,
    pub(super) values: Vec<f64>,
}

/// Text that means nothing to XML.
pub(super) fn escaped(text: &str) -> String {
    text.replace('&', "&amp;").replace('<', "&lt;").replace('>', "&gt;").replace('"', "&quot;")
}

fn open(height: f64, title: &str) -> String {
    let title = escaped(title);
    format!(
        "<svg xmlns=\"http://www.w3.org/2000/svg\" viewBox=\"0 0 {WIDTH} {height}\" width=\"{WIDTH}\" height=\"{height}\" \
         font-family=\"system-ui, sans-serif\" font-size=\"13\" role=\"img\" aria-label=\"{title}\">\n\
         <rect width=\"100%\" height=\"100%\" fill=\"#fff\"/>\n\
         <text x=\"12\" y=\"22\" font-weight=\"600\" fill=\"#1c1917\">{title}</text>\n"
    )
}

/// Writing to a string cannot fail.
macro_rules! draw {
    ($svg:expr, $($what:tt)*) => {
        let _ = writeln!($svg, $($what)*);
    };
}

/// Horizontal bars, each with its figure.
pub(super) fn bars(title: &str, rows: &[Row]) -> String {
    let most = rows.iter().map(|row| row.value).fold(f64::MIN_POSITIVE, f64::max);
    let mut svg = open(40.0 + ROW * length(rows.len()), title);
    for (at, row) in rows.iter().enumerate() {
        let (y, width) = (36.0 + ROW * length(at), (WIDTH - LABEL - 90.0) * (row.value / most));
        let fill = match row.label.as_str() {
            "rollstore" => OURS,
            "raw" => LIMIT,
            _ => "#78716c",
        };
        let (label, x, told) = (escaped(&row.label), LABEL - 8.0, number(row.value));
        draw!(svg, "<text x=\"{x}\" y=\"{:.0}\" text-anchor=\"end\" fill=\"#1c1917\">{label}</text>", y + 13.0);
        draw!(svg, "<rect x=\"{LABEL}\" y=\"{:.0}\" width=\"{width:.1}\" height=\"15\" fill=\"{fill}\"/>", y + 1.0);
        draw!(svg, "<text x=\"{:.1}\" y=\"{:.0}\" fill=\"#1c1917\">{told}</text>", LABEL + width + 6.0, y + 13.0);
    }
    svg + "</svg>\n"
}

/// Lines over named places; the axis begins at 0.
pub(super) fn lines(title: &str, places: &[&str], all: &[Line]) -> String {
    let (height, bottom, top) = (300.0, 262.0, 40.0);
    let most = all.iter().flat_map(|line| &line.values).copied().fold(f64::MIN_POSITIVE, f64::max);
    let count = all.iter().map(|line| line.values.len()).max().unwrap_or_default().max(2);
    let x = |at: usize| 60.0 + (WIDTH - 220.0) * length(at) / length(count - 1);
    let y = |value: f64| bottom - (bottom - top) * value / most;
    let mut svg = open(height, title);
    for part in [0.0, 0.5, 1.0] {
        let (at, told, end) = (y(most * part), number(most * part), WIDTH - 160.0);
        draw!(svg, "<line x1=\"60\" x2=\"{end}\" y1=\"{at:.1}\" y2=\"{at:.1}\" stroke=\"#e7e5e4\"/>");
        draw!(svg, "<text x=\"54\" y=\"{:.1}\" text-anchor=\"end\" fill=\"#57534e\">{told}</text>", at + 4.0);
    }
    for (at, place) in places.iter().enumerate() {
        let x = 60.0 + (WIDTH - 220.0) * length(at) / length(places.len().max(2) - 1);
        draw!(svg, "<text x=\"{x:.1}\" y=\"284\" text-anchor=\"middle\" fill=\"#57534e\">{}</text>", escaped(place));
    }
    for (at, line) in all.iter().enumerate() {
        let color = COLORS[at % COLORS.len()];
        let points: Vec<String> =
            line.values.iter().enumerate().map(|(at, value)| format!("{:.1},{:.1}", x(at), y(*value))).collect();
        draw!(svg, "<polyline points=\"{}\" fill=\"none\" stroke=\"{color}\" stroke-width=\"2\"/>", points.join(" "));
        let (key_y, key_x) = (top + 10.0 + 20.0 * length(at), WIDTH - 146.0);
        draw!(svg, "<rect x=\"{key_x}\" y=\"{:.0}\" width=\"12\" height=\"12\" fill=\"{color}\"/>", key_y - 10.0);
        draw!(svg, "<text x=\"{}\" y=\"{key_y:.0}\" fill=\"#1c1917\">{}</text>", key_x + 18.0, escaped(&line.label));
    }
    svg + "</svg>\n"
}

#[expect(clippy::cast_precision_loss, reason = "places in a plot")]
fn length(count: usize) -> f64 {
    count as f64
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_plot_is_one_closed_element_and_labels_cannot_break_it() {
        let row = Row { label: "<&\">".to_owned(), value: 3.0 };
        let line = Line { label: "<b>".to_owned(), values: vec![0.0, 2.0] };
        for svg in [bars("a < b", std::slice::from_ref(&row)), lines("a", &["<", "y"], &[line])] {
            assert!(svg.starts_with("<svg ") && svg.ends_with("</svg>\n"));
            assert!(!svg.contains("<b>") && !svg.contains("<&"), "{svg}");
        }
    }

    #[test]
    fn nothing_to_plot_is_an_empty_plot() {
        assert!(!bars("none", &[]).contains("NaN"));
        assert!(!lines("none", &[], &[]).contains("NaN"));
    }
}
