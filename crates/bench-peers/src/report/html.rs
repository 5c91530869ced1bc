//! A page that stands alone: tables and plots.

use super::plots;
use super::results::Results;
use super::svg::escaped;
use super::tables::{self, CASES, Table};

const STYLE: &str = "body{font:16px/1.5 system-ui,sans-serif;max-width:1100px;margin:2em auto;padding:0 1em;color:#1c1917;\
    background:#fff}table{border-collapse:collapse;font-size:14px;display:block;overflow-x:auto}td,th{padding:3px 10px;\
    border-bottom:1px solid #e7e5e4;text-align:right;white-space:nowrap}td:first-child,th:first-child{text-align:left}\
    svg{max-width:100%;height:auto}";

pub(crate) fn html(results: &Results) -> String {
    let machine = &results.machine;
    let mut body = vec![
        "<h1>rollstore beside its peers</h1>".to_owned(),
        format!(
            "<p>{}, {} cores, {} GiB, {}, Linux {}, {}; {}; load {} at the start; {} rounds.</p>",
            escaped(&machine.cpu),
            machine.cores,
            machine.memory_gib,
            escaped(&machine.file_system),
            escaped(&machine.kernel),
            escaped(&machine.compiler),
            escaped(&machine.date),
            escaped(&machine.load),
            results.rounds()
        ),
        "<h2>Bars</h2>".to_owned(),
        table(&tables::of_bars(results)),
    ];
    for (case, title) in CASES {
        if let Some(of_case) = tables::of_case(results, case) {
            body.push(format!("<h2>{}</h2>", escaped(title)));
            body.push(table(&of_case));
        }
    }
    body.push("<h2>Plots</h2>".to_owned());
    body.extend(plots::all(results).into_iter().map(|plot| plot.svg));
    let settings =
        results.settings.iter().map(|(peer, told)| format!("<li><b>{}</b>: {}</li>", escaped(peer), escaped(told)));
    body.push(format!("<h2>Settings</h2><ul>{}</ul>", settings.collect::<Vec<_>>().concat()));
    format!(
        "<!doctype html><html lang=\"en\"><meta charset=\"utf-8\"><title>rollstore beside its peers</title>\
         <style>{STYLE}</style>\n{}\n</html>\n",
        body.join("\n")
    )
}

fn table(table: &Table) -> String {
    let head: Vec<String> = table.head.iter().map(|cell| format!("<th>{}</th>", escaped(cell))).collect();
    let row = |row: &Vec<tables::Cell>| {
        let cell = |cell: &tables::Cell| {
            let text = escaped(&cell.text);
            if cell.is_best { format!("<td><b>{text}</b></td>") } else { format!("<td>{text}</td>") }
        };
        format!("<tr>{}</tr>\n", row.iter().map(cell).collect::<Vec<_>>().concat())
    };
    let rows: Vec<String> = table.rows.iter().map(row).collect();
    format!("<table><tr>{}</tr>\n{}</table>", head.concat(), rows.concat())
}
