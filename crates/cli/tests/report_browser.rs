//! Opens the report in a real browser, where there is one: no console message, no request, charts drawn.

#![allow(clippy::unwrap_used, reason = "a test stops at the first fault")]

mod sample;
#[path = "../../sys/tests/support/skip.rs"]
mod skip;

use std::fs;
use std::path::{Path, PathBuf};
use std::process::{Command, Output};

use fsage_analysis::report::{ReportOptions, render};
use fsage_lab::store::Reader;
use sample::{Size, write_store};

fn browser() -> Option<PathBuf> {
    let paths = std::env::var_os("PATH")?;
    let names = ["chromium", "chromium-browser", "google-chrome"];
    std::env::split_paths(&paths)
        .flat_map(|folder| names.map(|name| folder.join(name)))
        .find(|program| program.is_file())
}

/// Runs the browser on a page; it ends by itself after the page's time is over.
fn open(browser: &Path, folder: &Path, page: &Path, extra: &[&str]) -> Output {
    let profile = folder.join("profile");
    Command::new("timeout")
        .arg("120")
        .arg(browser)
        // What a page saves goes to its user's folder for downloads.
        .env("HOME", folder)
        .args(["--headless", "--no-sandbox", "--disable-gpu", "--disable-quic", "--no-first-run"])
        .args(["--disable-background-networking", "--disable-component-update", "--disable-sync"])
        .args(["--enable-logging=stderr", "--v=0", "--virtual-time-budget=8000"])
        // A name that resolves to nothing: whatever the page asked for would fail and be logged.
        .arg("--host-resolver-rules=MAP * ~NOTFOUND")
        .arg(format!("--user-data-dir={}", profile.display()))
        .args(extra)
        .arg(format!("file://{}", page.display()))
        .output()
        .unwrap()
}

fn console(output: &Output) -> Vec<String> {
    String::from_utf8_lossy(&output.stderr)
        .lines()
        .filter(|line| line.contains("CONSOLE") || line.contains("Uncaught"))
        .map(str::to_owned)
        .collect()
}

fn write_page(folder: &Path, trials: &[fsage_model::record::TrialRecord]) -> PathBuf {
    let store = folder.join("store");
    write_store(&store, trials);
    let page = folder.join("report.html");
    fs::write(&page, render(&Reader::open(&store).unwrap(), &ReportOptions::default()).unwrap()).unwrap();
    page
}

#[test]
fn the_page_opens_without_a_complaint_and_draws_its_charts() {
    let Some(browser) = browser() else {
        skip::skip("no chromium in PATH");
        return;
    };
    let folder = tempfile::tempdir().unwrap();
    let page = write_page(folder.path(), &sample::trials(Size { ticks: 120, ..Size::QUICK }));
    let output = open(&browser, folder.path(), &page, &["--window-size=1400,12000", "--dump-dom"]);
    assert_eq!(console(&output), Vec::<String>::new());
    let dom = String::from_utf8_lossy(&output.stdout);
    let charts: Vec<&str> =
        dom.split("<figure class=\"chart\" ").skip(1).filter_map(|rest| rest.split('>').next()).collect();
    assert!(charts.len() >= 6, "{charts:?}");
    for tag in &charts {
        assert!(tag.contains("data-drawn=\"yes\""), "not drawn: {tag}");
    }
    assert!(dom.matches("main-svg").count() >= charts.len(), "charts have no drawing");
    assert!(!dom.contains("\"plot failed\""));
    // plotly.js 4 offers this beside every chart unless it is switched off.
    assert!(dom.contains("data-title=\"Zoom in\"") && !dom.contains("data-title=\"Share chart"));
    for id in ["claim-table", "latency-table", "layout-table", "difference-table", "cost-table"] {
        assert!(dom.contains(&format!("id=\"{id}\"")), "{id}");
    }
    assert!(dom.contains("hidden=\"\""), "the table of differences follows the chosen metric");
}

/// Says how many lines the chart of percentiles drew, and how many rows its table has.
const PERCENTILES: &str = r##"<script>
addEventListener("load", () => setTimeout(() => {
  const plot = document.querySelector("#device-percentile-chart .plot");
  // The edges of a band are lines without width.
  const seen = path => parseFloat(getComputedStyle(path).strokeWidth) > 0;
  const lines = [...plot.querySelectorAll(".scatterlayer path.js-line")].filter(seen).length;
  const bands = plot.querySelectorAll(".scatterlayer path.js-fill").length;
  document.body.dataset.percentiles = `${lines} lines, ${bands} bands, ${fsage.charts.device_percentiles.csv().length} rows`;
}, 4000));
</script></body>"##;

#[test]
fn charts_of_fio_are_drawn() {
    let Some(browser) = browser() else {
        skip::skip("no chromium in PATH");
        return;
    };
    let folder = tempfile::tempdir().unwrap();
    let page = write_page(folder.path(), &sample::points::trials(3));
    with_script(&page, PERCENTILES);
    let output = open(&browser, folder.path(), &page, &["--window-size=1400,12000", "--dump-dom"]);
    assert_eq!(console(&output), Vec::<String>::new());
    let dom = String::from_utf8_lossy(&output.stdout);
    for id in ["device-chart", "device-latency-chart", "device-percentile-chart"] {
        let begin = dom.find(&format!("<figure class=\"chart\" id=\"{id}\"")).unwrap();
        assert!(dom[begin..begin + dom[begin..].find('>').unwrap()].contains("data-drawn=\"yes\""), "{id}");
    }
    // Two file systems in each of seven panels, a line and a band each; 24 percentiles of 14 curves and the heading.
    let (_, drawn) = dom.split_once("data-percentiles=\"").expect("what came of it");
    assert!(drawn.starts_with("14 lines, 14 bands, 337 rows\""), "{}", &drawn[..40]);
}

#[test]
fn bars_of_hosts_that_share_a_volume_are_drawn() {
    let Some(browser) = browser() else {
        skip::skip("no chromium in PATH");
        return;
    };
    let folder = tempfile::tempdir().unwrap();
    let page = write_page(folder.path(), &sample::cluster::trials());
    let output = open(&browser, folder.path(), &page, &["--window-size=1400,6000", "--dump-dom"]);
    assert_eq!(console(&output), Vec::<String>::new());
    let dom = String::from_utf8_lossy(&output.stdout);
    let begin = dom.find("<figure class=\"chart\" id=\"cluster-chart\"").unwrap();
    let rest = &dom[begin..];
    assert!(rest[..rest.find('>').unwrap()].contains("data-drawn=\"yes\""));
    // A label for each bar.
    for label in
        ["ocfs2-full, same files", "ocfs2-full, disjoint files", "ocfs2, same files", "ocfs2, disjoint files"]
    {
        assert!(rest.contains(&format!(">{label}<")), "{label}");
    }
}

#[test]
fn markup_in_a_value_blanks_no_chart() {
    let Some(browser) = browser() else {
        skip::skip("no chromium in PATH");
        return;
    };
    let folder = tempfile::tempdir().unwrap();
    let mut trials = sample::trials(Size { ticks: 60, ..Size::QUICK });
    for trial in &mut trials {
        // The first begins what ends only with the page, the second what ends the island.
        trial.factors.insert("a".to_owned(), "<!--<script>".into());
        trial.factors.insert("file_system.kind".to_owned(), "</script><!--<script>\u{2028}".into());
    }
    let page = write_page(folder.path(), &trials);
    let output = open(&browser, folder.path(), &page, &["--window-size=1400,12000", "--dump-dom"]);
    assert_eq!(console(&output), Vec::<String>::new());
    let dom = String::from_utf8_lossy(&output.stdout);
    let begin = dom.find("<figure class=\"chart\" id=\"latency-chart\"").unwrap();
    let tag = &dom[begin..begin + dom[begin..].find('>').unwrap()];
    assert!(tag.contains("data-drawn=\"yes\""), "not drawn: {tag}");
}

/// Puts `suspect` behind every text of a value; keys, and texts that name something the page looks up, stay.
fn tainted(value: serde_json::Value, suspect: &str) -> serde_json::Value {
    use serde_json::Value;
    match value {
        Value::String(text) => Value::String(format!("{text}{suspect}")),
        Value::Array(items) => items.into_iter().map(|item| tainted(item, suspect)).collect(),
        Value::Object(map) => map
            .into_iter()
            .map(|(key, value)| (key, tainted(value, suspect)))
            .collect::<serde_json::Map<_, _>>()
            .into(),
        other => other,
    }
}

/// Where a page would go, and what would be in its document: hovers over every chart first, since labels are
/// drawn only then.
const LOOK_FOR_TEXTS_OF_OTHERS: &str = r#"<script>
addEventListener("load", () => setTimeout(() => {
  for (const plot of document.querySelectorAll("figure.chart .plot")) {
    try { Plotly.Fx.hover(plot, [{ curveNumber: 0, pointNumber: 0 }]); } catch { /* nothing there to hover over */ }
  }
  const leads = (a) => ["style", "href", "xlink:href", "src"].includes(a.name) && a.value.includes("127.0.0.1");
  const found = [...document.querySelectorAll("*")].filter((element) => [...element.attributes].some(leads));
  document.body.dataset.found = `${found.length} found`;
  document.body.dataset.shown = [...document.querySelectorAll(".legendtext")].some((text) => text.textContent.includes("<span")) ? "as text" : "nowhere";
}, 3000));
</script></body>"#;

fn with_script(page: &Path, script: &str) {
    let html = fs::read_to_string(page).unwrap();
    let end = html.rfind("</body>").unwrap();
    fs::write(page, format!("{}{script}{}", &html[..end], &html[end + "</body>".len()..])).unwrap();
}

#[test]
fn no_text_of_a_store_becomes_a_link_a_style_or_a_request() {
    let Some(browser) = browser() else {
        skip::skip("no chromium in PATH");
        return;
    };
    let listener = std::net::TcpListener::bind("127.0.0.1:0").unwrap();
    listener.set_nonblocking(true).unwrap();
    let server = format!("http://{}", listener.local_addr().unwrap());
    let suspect = format!(
        "<span style=\"cursor:url({server}/c),auto;mask-image:url({server}/m);background-image:url({server}/b)\">x</span> \
         <a href=\"{server}/l\" target=\"_blank\">click</a><img src=\"{server}/i\">"
    );
    let folder = tempfile::tempdir().unwrap();
    let mut trials = sample::trials(Size { ticks: 60, ..Size::QUICK });
    for trial in &mut trials {
        trial.factors = std::mem::take(&mut trial.factors)
            .into_iter()
            .map(|(key, value)| (key, tainted(value, &suspect)))
            .collect();
        for metric in &mut trial.metrics {
            metric.unit.push_str(&suspect);
        }
        trial.metrics.extend(trial.metrics.first().cloned().map(|metric| fsage_model::record::Metric {
            name: format!("{}{suspect}", metric.name),
            ..metric
        }));
    }
    let page = write_page(folder.path(), &trials);
    with_script(&page, LOOK_FOR_TEXTS_OF_OTHERS);
    let output = open(
        &browser,
        folder.path(),
        &page,
        &[
            "--window-size=1400,12000",
            "--dump-dom",
            "--host-resolver-rules=MAP * ~NOTFOUND, EXCLUDE 127.0.0.1",
        ],
    );
    let dom = String::from_utf8_lossy(&output.stdout);
    assert!(dom.contains("data-found=\"0 found\""), "{:?}", console(&output));
    assert!(dom.contains("data-shown=\"as text\""), "the names are drawn, so that the test tests something");
    assert!(!dom.contains("\"plot failed\""));
    let heard = listener.accept().map(|(_, from)| from);
    assert_eq!(heard.unwrap_err().kind(), std::io::ErrorKind::WouldBlock, "the page asked the server");
}

#[test]
fn the_example_of_the_guide_draws() {
    let Some(browser) = browser() else {
        skip::skip("no chromium in PATH");
        return;
    };
    let folder = tempfile::tempdir().unwrap();
    let page = write_page(folder.path(), &sample::trials(Size { ticks: 60, ..Size::QUICK }));
    let example = include_str!("../../../docs/examples/use.js");
    with_script(
        &page,
        &format!(
            "<script>{example}
            addEventListener(\"load\", async () => {{
              const {{ traces, layout }} = fsage.charts.use.draw({{ scale: \"linear\" }});
              const plot = document.createElement(\"div\");
              document.body.append(plot);
              await Plotly.newPlot(plot, traces, layout);
              const lines = plot.querySelectorAll(\".scatterlayer path.js-line\").length;
              const rows = fsage.charts.use.csv().length;
              document.body.dataset.use = lines > 0 && lines === traces.length && rows > 1 ? \"drawn\" : `${{lines}} of ${{traces.length}}, ${{rows}} rows`;
            }});</script></body>"
        ),
    );
    let output = open(&browser, folder.path(), &page, &["--window-size=1400,12000", "--dump-dom"]);
    assert_eq!(console(&output), Vec::<String>::new());
    let dom = String::from_utf8_lossy(&output.stdout);
    let (_, drawn) = dom.split_once("data-use=\"").expect("what came of it");
    assert!(drawn.starts_with("drawn\""), "{}", &drawn[..40]);
}

/// Saves a picture and a table, and says what was forbidden on the way.
const SAVE: &str = r##"<script>
const forbidden = [];
document.addEventListener("securitypolicyviolation", (event) => forbidden.push(event.violatedDirective));
addEventListener("load", () => setTimeout(async () => {
  const plot = document.querySelector("#latency-chart .plot");
  const picture = await Plotly.toImage(plot, { format: "png", width: 300, height: 200 });
  const rows = [["=1+1", "-5", "+3.5e2", "-x", "@a", "\tb", "c\rd", "e\"f", 1.5, null]];
  fsage.save("table.csv", fsage.csv(rows));
  document.body.dataset.picture = picture.slice(0, 15);
  document.body.dataset.table = encodeURIComponent(fsage.csv(rows));
  setTimeout(() => { document.body.dataset.forbidden = `${forbidden.length} forbidden`; }, 1000);
}, 2000));
</script></body>"##;

#[test]
fn what_is_saved_is_whole_and_no_formula() {
    let Some(browser) = browser() else {
        skip::skip("no chromium in PATH");
        return;
    };
    let folder = tempfile::tempdir().unwrap();
    let page = write_page(folder.path(), &sample::trials(Size { ticks: 60, ..Size::QUICK }));
    let html = fs::read_to_string(&page).unwrap();
    assert!(html.contains("Content-Security-Policy") && html.contains("default-src 'none'"));
    with_script(&page, SAVE);
    let output = open(&browser, folder.path(), &page, &["--window-size=1400,12000", "--dump-dom"]);
    let dom = String::from_utf8_lossy(&output.stdout);
    assert!(dom.contains("data-picture=\"data:image/png;\""), "{:?}", console(&output));
    assert!(dom.contains("data-forbidden=\"0 forbidden\""), "{:?}", console(&output));
    let table = "'%3D1%2B1%2C-5%2C%2B3.5e2%2C'-x%2C'%40a%2C'%09b%2C%22c%0Dd%22%2C%22e%22%22f%22%2C1.5%2C%0A";
    assert!(dom.contains(&format!("data-table=\"{table}\"")), "{:?}", console(&output));
}

#[test]
fn a_page_with_one_trial_or_none_opens_too() {
    let Some(browser) = browser() else {
        skip::skip("no chromium in PATH");
        return;
    };
    for trials in
        [Vec::new(), vec![sample::trial("ext4", 0.8, 0, Size { ticks: 2, probes: 1, ..Size::QUICK })]]
    {
        let folder = tempfile::tempdir().unwrap();
        let page = write_page(folder.path(), &trials);
        let output = open(&browser, folder.path(), &page, &["--window-size=390,12000", "--dump-dom"]);
        assert_eq!(console(&output), Vec::<String>::new());
        let dom = String::from_utf8_lossy(&output.stdout);
        assert!(dom.contains("<h1>") && !dom.contains("\"plot failed\""));
    }
}

/// Chooses the surface and, after it is drawn, the heat map again; says in the DOM what each drew.
const SURFACE_AND_BACK: &str = r#"<script>
addEventListener("load", () => setTimeout(async () => {
  const figure = document.getElementById("free-chart");
  const choose = (view) => figure.querySelector(`[data-value="${view}"]`).click();
  const drawn = () => `${figure.querySelectorAll(".gl-container canvas").length} scenes, ${figure.querySelectorAll(".heatmaplayer image").length} maps`;
  choose("surface");
  await fsage.solid();
  setTimeout(() => {
    const surface = drawn();
    choose("heat");
    document.body.dataset.drew = fsage.webgl() ? `${surface}; ${drawn()}` : "no WebGL";
  }, 1000);
}, 1000));
</script></body>"#;

#[test]
fn the_surface_is_drawn_and_the_heat_map_comes_back() {
    let Some(browser) = browser() else {
        skip::skip("no chromium in PATH");
        return;
    };
    let folder = tempfile::tempdir().unwrap();
    let page = write_page(folder.path(), &sample::trials(Size { ticks: 120, ..Size::QUICK }));
    with_script(&page, SURFACE_AND_BACK);
    let software = ["--enable-unsafe-swiftshader", "--use-angle=swiftshader"];
    let output = open(&browser, folder.path(), &page, &[&software[..], &["--dump-dom"]].concat());
    let dom = String::from_utf8_lossy(&output.stdout);
    if dom.contains("data-drew=\"no WebGL\"") {
        skip::skip("this chromium has no WebGL");
        return;
    }
    assert!(dom.contains("data-drew=\"2 scenes, 0 maps; 0 scenes, 2 maps\""), "{:?}", console(&output));
    // The browser itself remarks on the speed of WebGL without a graphics card.
    let faults: Vec<_> = console(&output)
        .into_iter()
        .filter(|line| line.contains("Uncaught") || line.contains("free-chart"))
        .collect();
    assert_eq!(faults, Vec::<String>::new());
}

#[test]
fn it_prints() {
    let Some(browser) = browser() else {
        skip::skip("no chromium in PATH");
        return;
    };
    let folder = tempfile::tempdir().unwrap();
    let page = write_page(folder.path(), &sample::trials(Size { ticks: 60, probes: 20, ..Size::QUICK }));
    let paper = folder.path().join("report.pdf");
    let output = open(&browser, folder.path(), &page, &[&format!("--print-to-pdf={}", paper.display())]);
    assert_eq!(console(&output), Vec::<String>::new());
    let pdf = fs::read(&paper).unwrap();
    assert!(pdf.starts_with(b"%PDF") && pdf.len() > 100_000, "{} bytes", pdf.len());
}

/// The accessibility checker (`data/axe/README.md`).
const AXE: &str = include_str!("data/axe/axe.min.js");

/// Runs it over the whole page once every chart is drawn.
const CHECK: &str = r#"<script>
addEventListener("load", () => setTimeout(async () => {
  document.querySelectorAll("figure.chart").forEach(fsage.draw);
  document.querySelectorAll("details").forEach((details) => { details.open = true; });
  const { violations, passes } = await axe.run(document, { resultTypes: ["violations"] });
  const serious = violations.filter((v) => ["serious", "critical"].includes(v.impact));
  const told = serious.map((v) => `${v.id} ${v.nodes.length}: ${v.nodes.slice(0, 3).map((n) => `${n.target} ${n.any[0]?.message ?? ""}`).join(" | ")}`);
  document.body.dataset.axe = `${passes.length > 10 ? "checked" : "not checked"}: ${told.join("; ")}.`;
}, 3000));
</script></body>"#;

#[test]
fn no_serious_fault_of_accessibility() {
    let Some(browser) = browser() else {
        skip::skip("no chromium in PATH");
        return;
    };
    let folder = tempfile::tempdir().unwrap();
    let size = Size { ticks: 120, probes: 20, repeats: 3, ..Size::QUICK };
    let page = write_page(folder.path(), &sample::trials(size));
    let html = fs::read_to_string(&page).unwrap();
    for (theme, width) in [("light", 1400), ("dark", 390)] {
        fs::write(&page, &html).unwrap();
        let theme = format!("<script>document.documentElement.dataset.theme = \"{theme}\";</script>");
        with_script(&page, &format!("{theme}<script>{AXE}</script>{CHECK}"));
        let window = format!("--window-size={width},3000");
        let output =
            open(&browser, folder.path(), &page, &[&window, "--virtual-time-budget=30000", "--dump-dom"]);
        let dom = String::from_utf8_lossy(&output.stdout);
        let (_, found) = dom.split_once("data-axe=\"").unwrap_or_else(|| panic!("{:?}", console(&output)));
        let found = found.split('"').next().unwrap_or_default();
        assert_eq!(found, "checked: .", "{width} px, {theme}");
    }
}

/// Makes the window narrow and wide again; says what the heat maps and the first chart drew each time.
const NARROW_AND_BACK: &str = r##"<script>
addEventListener("load", () => setTimeout(() => {
  const resize = (width) => {
    Object.defineProperty(window, "innerWidth", { value: width, configurable: true });
    dispatchEvent(new Event("resize"));
  };
  const drawn = () => {
    const maps = [...document.querySelectorAll("#free-chart .heatmaplayer image")];
    const seen = maps.filter((map) => map.width.baseVal.value > 0 && map.height.baseVal.value > 0);
    return `${seen.length} of ${maps.length} maps, ${document.querySelectorAll("#answer-chart .scatterlayer .point").length > 0}`;
  };
  document.querySelectorAll("figure.chart").forEach(fsage.draw);
  const said = [drawn()];
  for (const width of [600, 1400]) { resize(width); said.push(drawn()); }
  document.body.dataset.drew = said.join("; ");
}, 2000));
</script></body>"##;

#[test]
fn a_window_made_narrow_keeps_its_heat_maps() {
    let Some(browser) = browser() else {
        skip::skip("no chromium in PATH");
        return;
    };
    let folder = tempfile::tempdir().unwrap();
    let page = write_page(folder.path(), &sample::trials(Size { ticks: 120, probes: 20, ..Size::QUICK }));
    with_script(&page, NARROW_AND_BACK);
    let output = open(&browser, folder.path(), &page, &["--window-size=1400,3000", "--dump-dom"]);
    assert_eq!(console(&output), Vec::<String>::new());
    let dom = String::from_utf8_lossy(&output.stdout);
    let (_, drew) = dom.split_once("data-drew=\"").unwrap();
    let drew = drew.split('"').next().unwrap_or_default();
    assert_eq!(drew, "2 of 2 maps, true; 2 of 2 maps, true; 2 of 2 maps, true");
}

/// Ticks of axes of ratios of every span: how near their labels come, in pixels.
const TICKS: &str = r#"<script>
addEventListener("load", () => {
  let nearest = Infinity, fewest = Infinity;
  for (const width of [150, 300, 800]) for (const low of [0.01, 0.5, 0.9, 0.999]) for (const high of [1.001, 1.3, 4, 90, 5000]) {
    const axis = fsage.ratios([low, high], width);
    const at = (v) => ((Math.log10(v) - axis.range[0]) / (axis.range[1] - axis.range[0])) * width;
    axis.tickvals.forEach((v, i) => { if (i) nearest = Math.min(nearest, at(v) - at(axis.tickvals[i - 1]) - 7 * axis.ticktext[i].length); });
    fewest = Math.min(fewest, axis.tickvals.length);
  }
  document.body.dataset.ticks = `${nearest >= 15 ? "apart" : nearest}, ${fewest >= 1 ? "some" : "none"}`;
});
</script></body>"#;

#[test]
fn labels_of_ratios_do_not_touch() {
    let Some(browser) = browser() else {
        skip::skip("no chromium in PATH");
        return;
    };
    let folder = tempfile::tempdir().unwrap();
    let page = write_page(
        folder.path(),
        &[sample::trial("ext4", 0.8, 0, Size { ticks: 2, probes: 1, ..Size::QUICK })],
    );
    with_script(&page, TICKS);
    let output = open(&browser, folder.path(), &page, &["--window-size=1400,3000", "--dump-dom"]);
    let dom = String::from_utf8_lossy(&output.stdout);
    assert!(
        dom.contains("data-ticks=\"apart, some\""),
        "{:?} {:?}",
        console(&output),
        dom.split_once("data-ticks=").map(|(_, rest)| &rest[..60])
    );
}
