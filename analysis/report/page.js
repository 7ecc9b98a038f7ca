"use strict";
// Draws each timeline with plotly and lets buttons, keys and the table move it.
document.documentElement.classList.add("js");
for (const box of document.querySelectorAll(".timeline")) {
  const plot = box.querySelector(".plot");
  const figure = JSON.parse(box.querySelector(".figure").textContent);
  const all = figure.layout.xaxis.range.slice();
  const table = document.querySelector(`table[data-key="${box.dataset.key}"]`);
  const marks = [...table.querySelectorAll("tr[data-mark]")];
  const now = box.querySelector(".now");
  const still = figure.layout.shapes.slice();
  let current = -1;  // of marks
  let shownAt = null;  // seconds of the row that was chosen

  const range = () => plot.layout.xaxis.range.map(Number);
  const show = (left, right) => {
    const width = Math.min(right - left, all[1] - all[0]);
    const begin = Math.min(Math.max(left, all[0]), all[1] - width);
    return Plotly.relayout(plot, {"xaxis.range": [begin, begin + width]});
  };
  const zoom = (factor) => {
    const [left, right] = range(), chosen = Number(shownAt);
    const inView = shownAt !== null && left <= chosen && chosen <= right;
    const middle = inView ? chosen : (left + right) / 2;
    const half = Math.max((right - left) * factor, 0.001) / 2;
    return show(middle - half, middle + half);
  };
  const move = (share) => {
    const [left, right] = range(), step = (right - left) * share;
    return show(left + step, right + step);
  };
  const go = (row) => {
    const seconds = Number(row.dataset.seconds);
    shownAt = seconds;
    table.querySelectorAll("tr.current").forEach((other) => other.classList.remove("current"));
    row.classList.add("current");
    now.textContent = [...row.cells].map((cell, i) =>
      cell.textContent && (i ? cell.textContent : cell.textContent + " s")).filter(Boolean).join(" · ");
    const [left, right] = range(), half = (right - left) / 2;
    const line = {type: "line", xref: "x", yref: "paper", x0: seconds, x1: seconds, y0: 0, y1: 1,
      line: {color: "#22303c", width: 1.5, dash: "dot"}};
    Plotly.relayout(plot, {shapes: [...still, line]});
    if (seconds < left || seconds > right) show(seconds - half, seconds + half);
  };
  const event = (step) => {
    if (!marks.length) return;
    current = Math.min(Math.max(current + step, 0), marks.length - 1);
    go(marks[current]);
  };
  const actions = {
    in: () => zoom(0.5), out: () => zoom(2), left: () => move(-0.25), right: () => move(0.25),
    all: () => show(all[0], all[1]), next: () => event(1), previous: () => event(-1),
  };
  const keys = {ArrowLeft: "left", ArrowRight: "right", "+": "in", "=": "in", "-": "out",
    "0": "all", Home: "all", n: "next", N: "next", p: "previous", P: "previous"};

  Plotly.newPlot(plot, figure.data, figure.layout,
    {responsive: true, scrollZoom: true, displaylogo: false, displayModeBar: false});
  box.querySelectorAll("button[data-do]").forEach((button) =>
    button.addEventListener("click", () => actions[button.dataset.do]()));
  plot.addEventListener("keydown", (pressed) => {
    const action = keys[pressed.key];
    if (!action || pressed.ctrlKey || pressed.metaKey || pressed.altKey) return;
    pressed.preventDefault();
    actions[action]();
  });
  table.querySelectorAll(".go").forEach((button) => button.addEventListener("click", () => {
    const row = button.closest("tr");
    if (row.hasAttribute("data-mark")) current = marks.indexOf(row);
    go(row);
  }));
}
