"use strict";
// Sorting, searching, highlighting, saving and the moving figures. Nothing is fetched; names are only ever written as text.
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
  const showBeside = (card, sent, name) => { // the client's own atom, under the component's
    const figure = document.createElement("figure"), caption = document.createElement("figcaption");
    figure.className = "sent beside";
    caption.textContent = `What ${name} sent`;
    figure.append(sent.firstElementChild.cloneNode(true), caption);
    card.querySelector(".own").append(figure);
  };
  const select = (client, from) => {
    selected = client === selected && from !== byId("choose") ? null : client;
    all("tr.selected").forEach((row) => row.classList.remove("selected"));
    all(".pick").forEach((button) => button.setAttribute("aria-pressed", String(Number(button.dataset.client) === selected)));
    byId("choose").value = selected === null ? "" : String(selected);
    const known = selected === null ? null : data.clients[selected];
    byId("chosen").textContent = known ? `${known[1]}: ${known[2]}` : "";
    all(".beside").forEach((old) => old.remove());
    all(".sent li").forEach((one) => one.classList.toggle("selected", Number(one.dataset.client) === selected));
    all(".card").forEach((card) => {
      const mine = card.querySelector(".mine"), a = Number(card.dataset.number);
      mine.hidden = !known;
      if (!known) return;
      const angle = data.angles[selected][a];
      mine.querySelector(".who").textContent = known[0];
      const shown = angle >= 90 ? "no atom" : `${angle.toFixed(1)}°`, explained = data.explained[selected];
      mine.querySelector("dd").textContent = explained ? `${shown}, ${explained[a]} of its variance` : shown;
      const sent = card.querySelector(".sent li.selected");
      if (sent && sent.parentElement.closest("details").open === false) showBeside(card, sent, known[0]);
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

  // --- components: sort, search, open ------------------------------------------------------------------------------
  const cards = all(".card");
  const sortCards = () => {
    const chosen = byId("order").selectedOptions[0], key = chosen.value, sign = "down" in chosen.dataset ? -1 : 1;
    const value = (card) => { const number = sign * parseFloat(card.dataset[key]); return Number.isNaN(number) ? Infinity : number; };
    const compare = (a, b) => (value(a) === value(b) ? a.dataset.number - b.dataset.number : value(a) - value(b));
    document.querySelector(".cards").append(...cards.slice().sort(compare));
  };
  const namesOf = (card) => all(".bars tbody th, figcaption", card).map((one) => one.textContent.toLowerCase());
  const searchCards = () => {
    const terms = byId("search").value.toLowerCase().split(",").map((term) => term.trim()).filter(Boolean);
    const fits = (card, term) => (/^\d+$/.test(term) ? card.dataset.number === String(Number(term)) : namesOf(card).some((name) => name.includes(term)));
    cards.forEach((card) => { card.hidden = terms.length > 0 && !terms.some((term) => fits(card, term)); });
    byId("found").textContent = terms.length ? `${cards.filter((card) => !card.hidden).length} of ${cards.length} components` : "";
  };
  all(".finder, .save").forEach((one) => { one.hidden = false; });
  if (byId("order")) {
    byId("order").addEventListener("change", sortCards);
    byId("search").addEventListener("input", searchCards);
  }
  all(".card .drawing").forEach((drawing) => drawing.addEventListener("click", () => {
    const sent = drawing.closest(".card").querySelector(".sent");
    if (sent) sent.open = !sent.open;
  }));
  all(".sent").forEach((sent) => sent.addEventListener("toggle", () => all(".beside", sent.closest(".card")).forEach((one) => { one.hidden = sent.open; })));

  // --- saving --------------------------------------------------------------------------------------------------------
  const SVG = "http://www.w3.org/2000/svg";
  const make = (name, attributes, words) => {
    const element = document.createElementNS(SVG, name);
    for (const [key, value] of Object.entries(attributes)) element.setAttribute(key, value);
    if (words !== undefined) element.textContent = words;
    return element;
  };
  const barsAsDrawing = (card) => { // a table of bars, drawn
    const rows = Array.from(card.querySelector(".bars").tBodies[0].rows), names = rows.map((row) => row.cells[0].textContent);
    const left = 16 + 6.2 * Math.max(...names.map((name) => name.length)), drawing = make("svg", { viewBox: `0 0 ${left + 240} ${rows.length * 18 + 30}`, "font-size": 11 });
    rows.forEach((row, i) => {
      const bar = row.querySelector(".track span").style, y = i * 18 + 4;
      drawing.append(make("text", { x: left - 8, y: y + 10, "text-anchor": "end" }, names[i]));
      drawing.append(make("rect", { x: left + 1.8 * parseFloat(bar.left), y, width: 1.8 * parseFloat(bar.width), height: 12, fill: card.style.getPropertyValue("--hue") }));
      drawing.append(make("text", { x: left + 232, y: y + 10, "text-anchor": "end" }, row.querySelector(".number").textContent));
    });
    drawing.append(make("path", { d: `M${left + 90} 0V${rows.length * 18}`, stroke: "#8b949e" }));
    drawing.append(make("text", { x: left - 8, y: rows.length * 18 + 14, "text-anchor": "end" }, "feature"), make("text", { x: left + 90, y: rows.length * 18 + 14, "text-anchor": "middle" }, "value"));
    return drawing;
  };
  const asAddress = (drawing, hue) => { // a drawing of the page with the styles that it has from here
    const copy = drawing.cloneNode(true), [, , width, height] = drawing.getAttribute("viewBox").split(" ").map(Number);
    copy.setAttribute("xmlns", SVG);
    for (const [key, value] of Object.entries({ width: 2 * width, height: 2 * height, color: "#1b1f24", "font-family": "sans-serif" })) copy.setAttribute(key, value);
    all(".strokes", copy).forEach((path) => { path.setAttribute("stroke", hue); path.setAttribute("stroke-width", "1.2"); });
    copy.prepend(make("rect", { width: "100%", height: "100%", fill: "#ffffff" }));
    return [`data:image/svg+xml;charset=utf-8,${encodeURIComponent(new XMLSerializer().serializeToString(copy))}`, 4 * width, 4 * height];
  };
  const asPng = ([address, width, height]) => new Promise((done, failed) => {
    const image = new Image(), canvas = document.createElement("canvas");
    Object.assign(canvas, { width, height });
    image.onload = () => { canvas.getContext("2d").drawImage(image, 0, 0, width, height); done(canvas.toDataURL("image/png")); };
    image.onerror = failed;
    image.src = address;
  });
  const plotAsAddress = async (plot) => { // plotly's own PNG goes through an address that the page's policy forbids
    const { width, height } = plot._fullLayout;
    return [await Plotly.toImage(plot, { format: "svg", width, height }), 2 * width, 2 * height];
  };
  const save = async ({ figure, format }, card) => {
    const drawn = await (card ? asAddress(byId(figure) || barsAsDrawing(card), card.style.getPropertyValue("--hue")) : plotAsAddress(byId(figure)));
    const address = format === "svg" ? drawn[0] : await asPng(drawn);
    const link = document.createElement("a");
    Object.assign(link, { href: address, download: `${figure.replace("drawing", "component")}.${format}` });
    link.click();
  };
  all(".save button").forEach((button) => button.addEventListener("click", () => save(button.dataset, button.closest(".card"))));

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
    for (const id of Object.keys(data.figures)) {
      const figure = data.figures[id];
      delete figure.layout.title;
      delete figure.layout.height; // the page's own boxes set the size
      figure.layout.margin = { l: 56, r: 12, t: id === "atoms" ? 36 : 12, b: 44 };
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
    for (const id of Object.keys(data.figures))
      if (byId(id).data) Plotly.react(id, byId(id).data, dress(byId(id).layout));
  };
  addEventListener("load", draw);
  matchMedia("(prefers-color-scheme: dark)").addEventListener("change", restyle);
  matchMedia("print").addEventListener("change", restyle);
  addEventListener("beforeprint", () => all("details:not(.sent)").forEach((one) => { one.open = true; }));
})();
