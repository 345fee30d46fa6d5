import { element, shape } from "./elements.js";
import { count } from "./quantities.js";

const WIDTH = 320;
const HEIGHT = 230;
const LEFT = 58;
const RIGHT = 10;
const TOP = 10;
const BOTTOM = 40;
const TITLES = { fast: "Fast plane", boundary: "Boundary plane", slow: "Slow plane" };

/** Plots of position against token, one a plane, with lines of both maps. */
export function plots({ positions, sentences, protected_prefix: prefix }) {
  const best = sentences.find((sentence) => sentence.rank === 0);
  return positions.planes.map((plane) => {
    const title = TITLES[plane.name];
    const last = positions.tokens.at(-1);
    const words =
      `${title} (number ${plane.plane}): token ${count(last)} stands at ${count(plane.broad.at(-1))} ` +
      `in the broad map and at ${count(plane.sharp.at(-1))} in the sharp one.`;
    const figure = element("figure");
    figure.append(drawing(positions.tokens, plane, best, prefix, words), element("figcaption", {}, words));
    return figure;
  });
}

function drawing(tokens, plane, best, prefix, words) {
  const last = Math.max(tokens.at(-1), 1);
  const x = (token) => LEFT + (token / last) * (WIDTH - LEFT - RIGHT);
  const y = (position) => HEIGHT - BOTTOM - (position / last) * (HEIGHT - TOP - BOTTOM);
  const point = (token, position) => `${x(token).toFixed(2)} ${y(position).toFixed(2)}`;
  const line = (positions) => `M${tokens.map((token, i) => point(token, positions[i])).join("L")}`;
  const width = Math.max(x(best.end) - x(best.start), 2);
  return shape(
    "svg",
    { viewBox: `0 0 ${WIDTH} ${HEIGHT}`, role: "img", "aria-label": words },
    shape("rect", { class: "top", x: x(best.start), y: TOP, width, height: HEIGHT - TOP - BOTTOM }),
    ...axes(last, x, y),
    shape("line", { class: "prefix-end", x1: x(prefix), x2: x(prefix), y1: TOP, y2: HEIGHT - BOTTOM }),
    shape("path", { class: "standard", d: line(tokens) }),
    shape("path", { class: "broad", d: line(plane.broad) }),
    shape("path", { class: "sharp", d: line(plane.sharp) }),
  );
}

function axes(last, x, y) {
  const label = (words, attributes) => shape("text", attributes, words);
  const made = [shape("path", { class: "axis", d: `M${LEFT} ${TOP}V${HEIGHT - BOTTOM}H${WIDTH - RIGHT}` })];
  for (const share of [0, 0.5, 1]) {
    const value = Math.round(share * last);
    const anchor = { 0: "start", 0.5: "middle", 1: "end" }[share];
    made.push(
      label(count(value), { x: x(value), y: HEIGHT - BOTTOM + 15, "text-anchor": anchor }),
      label(count(value), { x: LEFT - 5, y: y(value) + 4, "text-anchor": "end" }),
    );
  }
  const middle = (TOP + HEIGHT - BOTTOM) / 2;
  made.push(
    label("token", { x: (LEFT + WIDTH - RIGHT) / 2, y: HEIGHT - 8, "text-anchor": "middle" }),
    label("position", { x: 10, y: middle, "text-anchor": "middle", transform: `rotate(-90 10 ${middle})` }),
  );
  return made;
}
