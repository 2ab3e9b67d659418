// Finds defects of a page that a reader would notice, as lists of sentences; called by test_browser.py.

const round = (number) => Math.round(number * 10) / 10;
const named = (element, text) => `${element.tagName} "${Array.from(text.trim()).slice(0, 40).join("")}"`;
const short = (node) => named(node.parentElement, node.textContent);

/** Every visible text, with its rectangles. */
function shownTexts() {
  const walker = document.createTreeWalker(document.body, NodeFilter.SHOW_TEXT);
  const found = [];
  for (let node = walker.nextNode(); node; node = walker.nextNode()) {
    const within = node.parentElement;
    if (!node.textContent.trim() || within.closest("title") || !within.checkVisibility()) continue;
    const range = document.createRange();
    range.selectNodeContents(node);
    const boxes = [...range.getClientRects()].filter((box) => box.width > 0);
    if (boxes.length) found.push({ node, boxes, style: getComputedStyle(node.parentElement) });
  }
  return found;
}

/** Texts that exceed the page (unless one can scroll to them), or the cell of a table. */
function stickingOut() {
  const wide = document.scrollingElement.scrollWidth;
  const found = wide > innerWidth ? [`the page is ${wide} wide, of ${innerWidth}`] : [];
  for (const { node, boxes } of shownTexts()) {
    const right = Math.max(...boxes.map((box) => box.right));
    const cell = node.parentElement.closest("td, th");
    const scrolls = node.parentElement.closest(".scroll");
    const end = cell ? cell.getBoundingClientRect().right : scrolls ? Infinity : innerWidth;
    if (right > end + 1) found.push(`${short(node)} ends at ${round(right)}, of ${round(end)}`);
  }
  return found;
}

/** Tables that are wider than their container; matrices may be. */
function scrollingAside() {
  return [...document.querySelectorAll(".scroll:not(:has(.matrix))")]
    .filter((one) => one.checkVisibility() && one.scrollWidth > one.clientWidth + 1)
    .map((one) => named(one, one.textContent));
}

/** Times below charts with less than two pixels between them. */
function timesTouching() {
  return [...document.querySelectorAll("svg.axis")].flatMap((axis) => {
    const times = [...axis.querySelectorAll("text")].filter((one) => one.checkVisibility());
    const boxes = times.map((one) => one.getBoundingClientRect());
    return times.slice(1).filter((_, number) => boxes[number].right + 2 > boxes[number + 1].left);
  }).map((one) => named(one, one.textContent));
}

/** Texts smaller than `least` pixels. */
function tooSmall(least) {
  return shownTexts()
    .filter(({ style }) => parseFloat(style.fontSize) < least)
    .map(({ node, style }) => `${short(node)} is ${style.fontSize} high`);
}

/** Luminance of a CSS colour: `rgb(29, 154, 120)`, or `color(srgb 0.1 0.6 0.5)` if mixed. */
function luminance(colour) {
  const greatest = colour.startsWith("color(") ? 1 : 255;
  const parts = colour.match(/[\d.]+/g).slice(0, 3).map((part) => part / greatest);
  const [red, green, blue] = parts.map((part) =>
    part <= 0.04045 ? part / 12.92 : ((part + 0.055) / 1.055) ** 2.4,
  );
  return 0.2126 * red + 0.7152 * green + 0.0722 * blue;
}

function ground(element) {
  const seen = getComputedStyle(element).backgroundColor;
  return seen === "rgba(0, 0, 0, 0)" && element.parentElement ? ground(element.parentElement) : seen;
}

/** Texts with less contrast to their background than WCAG 2.2, 1.4.3 requires (4.5 to 1). */
function tooFaint() {
  return shownTexts().flatMap(({ node, style }) => {
    const colour = node.parentElement.closest("svg") ? style.fill : style.color;
    const [light, dark] = [luminance(colour), luminance(ground(node.parentElement))].sort((a, b) => b - a);
    const contrast = (light + 0.05) / (dark + 0.05);
    return contrast < 4.5 ? [`${short(node)} has a contrast of ${round(contrast)}`] : [];
  });
}

/** Links within the page without a target. */
function leadingNowhere() {
  return [...document.querySelectorAll("a")]
    .map((link) => link.getAttribute("href"))
    .filter((href) => !href.startsWith("#") || !document.getElementById(href.slice(1)));
}

/** Elements that are folded, or visible only after scrolling. */
function hidden() {
  const bottom = (one) => one.getBoundingClientRect().bottom;
  const folded = [...document.querySelectorAll("details > :not(summary, nav)")].filter(
    (one) => !one.checkVisibility() || bottom(one) > bottom(one.parentElement) + 1,
  );
  const cut = [...document.querySelectorAll("*")].filter(
    (one) => getComputedStyle(one).overflowY === "auto" && one.scrollHeight > one.clientHeight + 1,
  );
  return [...folded, ...cut].map((one) => named(one, one.textContent));
}

/** True if the target of the address is visible: in the window, and not covered. */
function targetIsSeen() {
  const box = document.querySelector(":target").getBoundingClientRect();
  const seen = document.elementFromPoint(box.left + 4, box.top + 4);
  return Boolean(seen && seen.closest(":target"));
}

/** The states of the legend: name, height, luminance, true if hollow. */
function drawnStates() {
  return [...document.querySelectorAll(".legend rect")].map((one) => {
    const { fill, stroke } = getComputedStyle(one);
    return [one.getAttribute("class"), one.getAttribute("height"), luminance(fill), stroke !== "none"];
  });
}
