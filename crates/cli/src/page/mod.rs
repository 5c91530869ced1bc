//! A report as one HTML page: the figures as JSON, and the script that draws them.
//!
//! May touch nothing. Knows nothing of what the figures mean: the script does.
//!
//! Always true:
//! - G1. No text of a store ends the block that it stands in: a `<` of the data is written as an escape.

const TEMPLATE: &str = include_str!("page.html");
const STYLE: &str = include_str!("page.css");
const SCRIPTS: [&str; 2] = [include_str!("chart.js"), include_str!("page.js")];

/// The page of a report, which is JSON.
pub(crate) fn of(report: &str) -> String {
    let page = TEMPLATE.replace("/*style*/", STYLE).replace("/*script*/", &SCRIPTS.concat());
    // Data goes in last, so that nothing in it is taken for a place to fill. Outside of strings JSON has no `<`.
    page.replacen("/*data*/", &report.replace('<', "\\u003c"), 1)
}

#[cfg(test)]
mod tests {
    use serde_json::{Value, json};

    use super::*;

    /// What a browser takes for the data: all up to the first end of a script.
    fn data(page: &str) -> &str {
        page.split("id=\"data\">").nth(1).unwrap().split("</script").next().unwrap()
    }

    #[test]
    fn no_text_leaves_the_block_that_it_stands_in() {
        let hostile = "</script><script>alert(1)</script><!-- /*data*/ /*script*/ \" ' \u{2028} \\";
        let report = json!({ "store": hostile, hostile: [hostile] });
        let page = of(&report.to_string());
        let read: Value = serde_json::from_str(data(&page)).unwrap();
        assert_eq!(read, report);
        assert_eq!(page.matches("<script").count(), TEMPLATE.matches("<script").count());
    }

    #[test]
    fn the_page_names_no_address() {
        let page = of("{}");
        let named = page.match_indices("://").filter(|(at, _)| !page[..*at].ends_with("\"http"));
        // The one that is left names SVG, and is never asked for.
        assert_eq!(named.count(), 0);
        assert_eq!(page.matches("http://www.w3.org/2000/svg").count(), 1);
    }
}
