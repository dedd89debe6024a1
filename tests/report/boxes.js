// Faults of layout, measured from boxes: what sticks out of the page, what is cut off, what lies on something else.
const faults = [];
for (const frame of document.querySelectorAll(".scroll")) frame.scrollTo(0, 0); // else rows pass under the heading, as they should
const wide = innerWidth + 1;
const shown = (el) => el.checkVisibility({ visibilityProperty: true }) && !el.closest(".unseen, .skip, #tip, .symbols, select");
const name = (el) => `${el.tagName.toLowerCase()}${el.id ? "#" + el.id : ""}.${(el.getAttribute("class") || "").trim()} "${(el.textContent || "").trim().slice(0, 40)}"`;
if (document.documentElement.scrollWidth > innerWidth) faults.push(`the page is ${document.documentElement.scrollWidth} wide`);

for (const el of document.body.querySelectorAll("*")) {
  if (!shown(el) || el.closest("svg")) continue;
  const box = el.getBoundingClientRect();
  const frame = el.parentElement.closest(".scroll, pre");
  if (box.width && !frame && (box.right > wide || box.left < -1)) faults.push(`sticks out of the page: ${name(el)}`);
  const style = getComputedStyle(el);
  if (style.display !== "inline" && el.clientWidth && el.scrollWidth > el.clientWidth + 1 && !el.matches(".scroll, pre, html, body, main, .js-plotly-plot, .plot-container, .svg-container"))
    faults.push(`its text is wider than its box: ${name(el)} ${el.scrollWidth} > ${el.clientWidth}`);
  const size = parseFloat(style.fontSize);
  if (!el.children.length && el.textContent.trim().length > 4 && box.width < 1.5 * size && box.height > 4 * size) faults.push(`its letters stand one below the other: ${name(el)}`);
}

const common = (a, b) => ({ left: Math.max(a.left, b.left), top: Math.max(a.top, b.top), right: Math.min(a.right, b.right), bottom: Math.min(a.bottom, b.bottom) });
const windows = new Map([[null, { left: -1e9, top: -1e9, right: 1e9, bottom: 1e9 }]]);
const windowOf = (el) => { // what can be seen of anything inside this element
  if (!windows.has(el)) {
    const outer = windowOf(el.parentElement);
    windows.set(el, getComputedStyle(el).overflow === "visible" ? outer : common(outer, el.getBoundingClientRect()));
  }
  return windows.get(el);
};
const texts = [];
const walker = document.createTreeWalker(document.body, NodeFilter.SHOW_TEXT);
while (walker.nextNode()) {
  const node = walker.currentNode, el = node.parentElement;
  if (!node.data.trim() || el.closest("script, style, noscript") || !shown(el)) continue;
  const range = document.createRange();
  range.selectNodeContents(node);
  for (const rect of range.getClientRects()) texts.push({ ...common(rect, windowOf(el)), el });
}
const seen = texts.filter((t) => t.right - t.left > 1 && t.bottom - t.top > 1).sort((a, b) => a.top - b.top);
let active = [];
for (const one of seen) {
  active = active.filter((other) => other.bottom - 3 > one.top);
  for (const other of active)
    if (other.el !== one.el && Math.min(one.right, other.right) - Math.max(one.left, other.left) > 2)
      faults.push(`${name(one.el)} lies on ${name(other.el)}`);
  active.push(one);
}
const apart = (selector) => {
  const boxes = Array.from(document.querySelectorAll(selector)).filter(shown).map((el) => [el, el.getBoundingClientRect()]);
  for (const [i, [el, a]] of boxes.entries())
    for (const [other, b] of boxes.slice(i + 1))
      if (Math.min(a.right, b.right) - Math.max(a.left, b.left) > 1 && Math.min(a.bottom, b.bottom) - Math.max(a.top, b.top) > 1)
        faults.push(`${name(el)} overlaps ${name(other)}`);
};
apart("main > *, body > header, body > footer");
apart(".card");
return faults.slice(0, 20).concat(seen.length < 30 ? [`only ${seen.length} texts were measured`] : []);
