// The page without its charts: theme, navigation, tables.
"use strict";
const fsage = { charts: {}, data: JSON.parse(document.getElementById("data").textContent) };

fsage.dark = () => {
  if (fsage.printing) return false;
  const chosen = document.documentElement.dataset.theme;
  return chosen ? chosen === "dark" : matchMedia("(prefers-color-scheme: dark)").matches;
};

document.getElementById("theme").addEventListener("click", () => {
  const theme = fsage.dark() ? "light" : "dark";
  document.documentElement.dataset.theme = theme;
  try { localStorage.setItem("fsage-theme", theme); } catch { /* private windows have no storage */ }
  fsage.redraw();
});

// Mark the section in view.
const links = new Map([...document.querySelectorAll("nav .links a")].map((a) => [a.hash.slice(1), a]));
const inView = new Set();
const spy = new IntersectionObserver((entries) => {
  for (const entry of entries) entry.isIntersecting ? inView.add(entry.target.id) : inView.delete(entry.target.id);
  const here = [...links.keys()].find((id) => inView.has(id));
  if (!here) return;
  for (const [id, link] of links) link.classList.toggle("here", id === here);
  const strip = links.get(here).parentElement;
  if (strip.scrollWidth > strip.clientWidth) strip.scrollLeft = links.get(here).offsetLeft - strip.offsetLeft - 20;
}, { rootMargin: "-10% 0px -60% 0px" });
document.querySelectorAll("main section").forEach((section) => spy.observe(section));

fsage.save = (name, text) => {
  const link = document.createElement("a");
  link.href = URL.createObjectURL(new Blob([text], { type: "text/csv" }));
  link.download = name;
  link.click();
  setTimeout(() => URL.revokeObjectURL(link.href), 1000);
};

// A spreadsheet takes what begins with one of these for a formula; a number may begin so.
const formula = /^[=+\-@\t\r]/;
const number = /^[+-]?(\d+\.?\d*|\.\d+)(e[+-]?\d+)?$/i;

fsage.inert = (cell) => {
  const text = cell == null ? "" : String(cell);
  return formula.test(text) && !number.test(text) ? `'${text}` : text;
};

fsage.csv = (rows) => rows.map((row) => row.map((cell) => {
  const text = fsage.inert(cell);
  return /[",\r\n]/.test(text) ? `"${text.replaceAll('"', '""')}"` : text;
}).join(",")).join("\n") + "\n";

// Rows of a table as raw values; what a filter hides is left out.
const rawRows = (id) => {
  const box = document.getElementById(id);
  const head = [...box.querySelectorAll("th")].map((th) =>
    th.textContent.trim() + (th.dataset.unit ? ` (${th.dataset.unit})` : ""));
  const body = [...box.querySelectorAll("tbody tr")].filter((tr) => !tr.hidden)
    .map((tr) => [...tr.cells].map((td) => td.dataset.raw));
  return [head, ...body];
};

document.addEventListener("click", async (event) => {
  const button = event.target.closest("button");
  if (!button) return;
  if (button.dataset.csvTable) fsage.save(`${button.dataset.csvTable}.csv`, fsage.csv(rawRows(button.dataset.csvTable)));
  if (button.dataset.copy) {
    const text = rawRows(button.dataset.copy).map((row) => row.map((c) => fsage.inert(c).replace(/[\t\r\n]/g, " ")).join("\t")).join("\n");
    const said = button.textContent;
    try { await navigator.clipboard.writeText(text); } catch {
      // Pages opened from a file may not have the clipboard interface.
      const area = Object.assign(document.createElement("textarea"), { value: text });
      document.body.append(area); area.select(); document.execCommand("copy"); area.remove();
    }
    button.textContent = "Copied";
    setTimeout(() => { button.textContent = said; }, 1200);
  }
  const th = button.parentElement;
  if (th.tagName === "TH") sort(th);
});

function sort(th) {
  const body = th.closest("table").tBodies[0];
  const rising = th.getAttribute("aria-sort") !== "ascending";
  for (const other of th.parentElement.cells) other.setAttribute("aria-sort", "none");
  th.setAttribute("aria-sort", rising ? "ascending" : "descending");
  const numeric = th.classList.contains("num");
  const key = (tr) => tr.cells[th.cellIndex].dataset.raw;
  const order = (a, b) => {
    const [x, y] = [key(a), key(b)];
    if (x === "" || y === "") return (x === "") - (y === ""); // unknown values stay last
    const by = numeric ? x - y : x.localeCompare(y, undefined, { numeric: true });
    return rising ? by : -by;
  };
  body.append(...[...body.rows].sort(order));
}
