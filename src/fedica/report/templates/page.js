"use strict";
// Sorting, highlighting and the two moving figures. Nothing is fetched; names are only ever written as text.
(() => {
  const data = JSON.parse(document.getElementById("data").textContent);
  const all = (selector, inside = document) => Array.from(inside.querySelectorAll(selector));
  const byId = (id) => document.getElementById(id);
  let selected = null;

  // --- sorting -------------------------------------------------------------------------------------------------------
  const text = new Intl.Collator(undefined, { numeric: true });
  const keyOf = (cell, kind) => {
    if (kind === "text") return cell.textContent;
    const number = parseFloat(cell.dataset.v ?? cell.textContent);
    return Number.isNaN(number) ? Infinity : number;
  };
  const sortBy = (heading) => {
    const table = heading.closest("table"), body = table.tBodies[0], kind = heading.dataset.kind;
    const up = heading.getAttribute("aria-sort") !== "ascending";
    all("th[aria-sort]", table).forEach((other) => other.removeAttribute("aria-sort"));
    heading.setAttribute("aria-sort", up ? "ascending" : "descending");
    const rows = Array.from(body.rows, (row) => [keyOf(row.cells[heading.cellIndex], kind), row]);
    const compare = kind === "text" ? (a, b) => text.compare(a[0], b[0]) : (a, b) => (a[0] === b[0] ? 0 : a[0] - b[0]);
    rows.sort(up ? compare : (a, b) => compare(b, a));
    body.append(...rows.map(([, row]) => row));
  };
  all("table.sortable .sort").forEach((button) => button.addEventListener("click", () => sortBy(button.closest("th"))));

  // --- highlighting --------------------------------------------------------------------------------------------------
  const markPoints = () => {
    const plot = byId("atoms");
    if (!plot.data) return;
    const chosen = plot.data.map((trace) => {
      if (selected === null || !trace.customdata) return null;
      return trace.customdata.flatMap((about, i) => (about[0] === selected ? [i] : []));
    });
    Plotly.restyle(plot, { selectedpoints: chosen });
  };
  const select = (client, from) => {
    selected = client === selected && from !== byId("choose") ? null : client;
    all("tr.selected").forEach((row) => row.classList.remove("selected"));
    all(".pick").forEach((button) => button.setAttribute("aria-pressed", String(Number(button.dataset.client) === selected)));
    byId("choose").value = selected === null ? "" : String(selected);
    const known = selected === null ? null : data.clients[selected];
    byId("chosen").textContent = known ? `${known[1]}: ${known[2]}` : "";
    all(".card").forEach((card, a) => {
      const mine = card.querySelector(".mine");
      mine.hidden = !known;
      if (!known) return;
      const angle = data.angles[selected][a];
      mine.querySelector(".who").textContent = known[0];
      mine.querySelector("dd").textContent = angle >= 90 ? "no atom" : `${angle.toFixed(1)}°`;
    });
    if (selected !== null)
      all(`tr[data-client="${selected}"]`).forEach((row) => {
        row.classList.add("selected");
        const frame = row.closest(".scroll"); // bring the row into view inside its own frame; the page stays where it is
        const above = row.offsetTop - frame.querySelector("thead").offsetHeight;
        if (!frame.contains(from) && (above < frame.scrollTop || row.offsetTop + row.offsetHeight > frame.scrollTop + frame.clientHeight))
          frame.scrollTop = above - frame.clientHeight / 3;
      });
    markPoints();
  };
  all(".pick").forEach((button) => button.addEventListener("click", () => select(Number(button.dataset.client), button)));
  byId("choose").addEventListener("change", (event) => {
    select(event.target.value === "" ? null : Number(event.target.value), event.target);
  });
  document.addEventListener("keydown", (event) => {
    if (event.key === "Escape" && selected !== null) select(null, byId("choose"));
  });

  // --- names under the pointer ---------------------------------------------------------------------------------------
  const tip = byId("tip");
  byId("heat").addEventListener("pointermove", (event) => {
    const cell = event.target.closest("td"), row = event.target.closest("tbody tr");
    tip.hidden = !cell || !row || cell.cellIndex < 2;
    if (tip.hidden) return;
    const a = cell.cellIndex - 2, angle = data.angles[row.dataset.client][a];
    tip.textContent = `${data.clients[row.dataset.client][0]}, component ${a}: ${angle >= 90 ? "no atom" : `${angle.toFixed(2)}°`}`;
    tip.style.left = `${Math.max(4, Math.min(event.clientX + 14, innerWidth - tip.offsetWidth - 8))}px`;
    tip.style.top = `${event.clientY + 18 + tip.offsetHeight > innerHeight ? event.clientY - tip.offsetHeight - 12 : event.clientY + 18}px`;
  });
  byId("heat").addEventListener("pointerleave", () => { tip.hidden = true; });

  // --- figures -------------------------------------------------------------------------------------------------------
  const colours = () => {
    const style = getComputedStyle(document.documentElement);
    return (name) => style.getPropertyValue(`--${name}`).trim();
  };
  const dress = (layout) => {
    const css = colours();
    layout.font.color = css("ink");
    layout.hoverlabel = { bgcolor: css("ink"), bordercolor: css("ink"), font: { color: css("paper") } };
    for (const axis of [layout.xaxis, layout.yaxis]) axis.gridcolor = css("line");
    for (const shape of layout.shapes || []) {
      shape.line.color = css("accent");
      layout.annotations[0].font.color = css("accent");
    }
    return layout;
  };
  const draw = () => {
    const touch = matchMedia("(pointer: coarse)").matches;
    const options = { responsive: true, displayModeBar: false, displaylogo: false };
    for (const id of ["spectrum", "atoms"]) {
      const figure = data.figures[id];
      delete figure.layout.title;
      delete figure.layout.height; // the page's own boxes set the size
      figure.layout.margin = id === "atoms" ? { l: 4, r: 4, t: 4, b: 4 } : { l: 48, r: 12, t: 12, b: 44 };
      figure.layout.dragmode = touch ? false : "zoom";
      if (id === "atoms")
        for (const trace of figure.data) {
          trace.selected = { marker: { opacity: 1, size: (trace.marker.size || 8) + 4 } };
          trace.unselected = { marker: { opacity: 0.22 } };
        }
      Plotly.newPlot(id, figure.data, dress(figure.layout), options);
    }
    byId("atoms").on("plotly_click", (event) => {
      const about = event.points[0].customdata;
      if (about) select(about[0], byId("atoms"));
    });
    if (selected !== null) markPoints();
    document.documentElement.dataset.ready = String(Math.round(performance.now()));
  };
  const restyle = () => {
    for (const id of ["spectrum", "atoms"])
      if (byId(id).data) Plotly.react(id, byId(id).data, dress(byId(id).layout));
  };
  addEventListener("load", draw);
  matchMedia("(prefers-color-scheme: dark)").addEventListener("change", restyle);
  matchMedia("print").addEventListener("change", restyle);
  addEventListener("beforeprint", () => all("details").forEach((one) => { one.open = true; }));
})();
