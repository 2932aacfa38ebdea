"use strict";
// Draws the data of the page. Texts of the data become text nodes only.
const report = JSON.parse(document.getElementById("data").textContent);
const colours = ["#1f4e9e", "#c0392b", "#2e7d32", "#8e44ad", "#d17b00", "#00838f", "#6d4c41", "#ad1457", "#607d8b"];

function add(parent, tag, text, name) {
  const element = document.createElement(tag);
  if (text !== undefined) element.textContent = text;
  if (name) element.className = name;
  parent.appendChild(element);
  return element;
}

function inFigures(value) {
  if (value === 0 || !isFinite(value)) return String(value);
  const size = Math.abs(value);
  if (size >= 1e6 || size < 1e-3) return value.toExponential(3).replace("e+", "e");
  return String(Number(value.toPrecision(5)));
}

// dygraphs tells series apart by their labels, and the first is the x axis.
function uniqueLabels(chart) {
  const labels = [chart.x];
  for (const series of chart.series) {
    let label = series.label;
    for (let n = 2; labels.includes(label); n++) label = series.label + " (" + n + ")";
    labels.push(label);
  }
  return labels;
}

// One row for each x of any series. null: the series has no point there; NaN: it has one without a value.
function rowsOf(chart) {
  const rows = new Map();
  chart.series.forEach((series, column) => {
    series.x.forEach((x, i) => {
      if (!rows.has(x)) rows.set(x, [x].concat(chart.series.map(() => null)));
      rows.get(x)[column + 1] = series.y[i] === null ? NaN : series.y[i];
    });
  });
  return [...rows.values()].sort((a, b) => a[0] - b[0]);
}

function optionsOf(series) {
  const colour = colours[series.colour % colours.length];
  const few = series.x.length < 60;
  const options = { color: colour, strokeWidth: 1.6 };
  if (series.style === "faint") { options.color = colour + "66"; options.strokeWidth = 1; }
  if (series.style === "dashed") options.strokePattern = [6, 4];
  if (series.style === "dots" || series.x.length === 1) { options.drawPoints = few; options.pointSize = 2.5; }
  if (series.style === "area") { options.strokeWidth = 0.6; options.fillGraph = true; }
  return options;
}

function drawMarks(chart) {
  return (context, area, dygraph) => {
    context.strokeStyle = "#9aa5b1";
    for (const x of chart.marks) {
      const at = Math.round(dygraph.toDomXCoord(x)) + 0.5;
      if (at < area.x || at > area.x + area.w) continue;
      context.beginPath();
      context.moveTo(at, area.y);
      context.lineTo(at, area.y + area.h);
      context.stroke();
    }
  };
}

function drawChart(chart, parent) {
  const frame = add(parent, "div", undefined, "chart");
  const positive = chart.series.every(s => s.y.every(y => y === null || y > 0));
  let log = null;
  if (chart.may_be_log && positive) {
    const label = add(frame, "label", undefined, "switch");
    log = add(label, "input");
    log.type = "checkbox";
    label.append(" logarithmic");
  }
  add(frame, "h3", chart.title);
  const legend = add(frame, "div", undefined, "legend");
  const plot = add(frame, "div", undefined, "plot");
  const labels = uniqueLabels(chart);
  const series = {};
  chart.series.forEach((one, i) => { series[labels[i + 1]] = optionsOf(one); });
  const drawn = chart.series.reduce((sum, s) => sum + s.x.length, 0);
  const points = chart.series.reduce((sum, s) => sum + s.points, 0);
  const dygraph = new Dygraph(plot, rowsOf(chart), {
    labels: labels, labelsDiv: legend, legend: "always", series: series, connectSeparatedPoints: true, xRangePad: 6,
    stackedGraph: chart.series.some(s => s.style === "area"), includeZero: chart.from_zero,
    xlabel: chart.x, ylabel: chart.y, labelsKMB: false, digitsAfterDecimal: 4, gridLineColor: "#e3e8ed",
    axes: { x: { logscale: chart.log_x, valueFormatter: inFigures, axisLabelFormatter: inFigures },
            y: { valueFormatter: inFigures, axisLabelFormatter: inFigures, axisLabelWidth: 62 } },
    underlayCallback: drawMarks(chart)
  });
  if (log) log.onchange = () => dygraph.updateOptions({ logscale: log.checked });
  // The chart in words, for readers who cannot see it, and for tests: its last values.
  plot.setAttribute("role", "img");
  plot.setAttribute("aria-label", chart.title + ": " + chart.series.map((s, i) =>
    labels[i + 1] + " " + (s.y.length ? inFigures(s.y[s.y.length - 1] ?? NaN) : "") + " at " + s.x[s.x.length - 1]).join(", "));
  frame.dataset.points = points;
  frame.dataset.drawn = drawn;
  if (drawn < points)
    add(frame, "div", drawn + " of " + points + " points are drawn", "small");
}

function drawTable(table, parent) {
  const element = add(add(parent, "div", undefined, "wide"), "table");
  const head = add(element, "tr");
  for (const name of table.head) add(head, "th", name);
  for (const row of table.rows) {
    const line = add(element, "tr", undefined, row.is_marked ? "marked" : "");
    for (const cell of row.cells) add(line, "td", cell);
  }
}

function drawSection(section, parent) {
  const element = add(parent, "section");
  add(element, "h2", section.title);
  for (const text of section.text) add(element, "p", text);
  if (section.charts.length) {
    const charts = add(element, "div", undefined, "charts");
    for (const chart of section.charts) drawChart(chart, charts);
  }
  for (const table of section.tables) drawTable(table, element);
  for (const details of section.details) {
    const folded = add(element, "details");
    add(folded, "summary", details.summary);
    add(folded, "pre", details.text);
  }
}

const main = document.getElementById("report");
document.title = report.title;
add(main, "h1", report.title);
add(main, "p", "Made by lockstep " + report.version + " on " + report.made + ". Drag over a chart to zoom, double-click to " +
  "go back. A curve of more than " + 4 * report.columns + " points is thinned: of each of " + report.columns + " columns it shows " +
  "the first, last, smallest and largest point (M4).", "small");
for (const note of report.notes) add(main, "p", note, "note");
for (const section of report.sections) drawSection(section, main);
main.dataset.done = "yes";
