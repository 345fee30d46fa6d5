import { element } from "./elements.js";
import { count, signed } from "./quantities.js";

const SHOWN = 10;
// At this rank a sentence is shaded half as much as the first.
const HALF = 4;

/** The document with its sentences shaded by rank, the protected prefix marked, and the list of the first. */
export class ShadedDocument {
  #region;
  #top;
  #status;
  #sentences = [];
  #spans = [];
  #chosen = -1;

  constructor(region, top, status) {
    this.#region = region;
    this.#top = top;
    this.#status = status;
    region.addEventListener("click", (event) => {
      const span = event.target.closest(".sentence");
      if (span) this.#choose(this.#spans.indexOf(span));
    });
    region.addEventListener("keydown", (event) => this.#step(event));
  }

  /** `relevance`: what the score pass found. */
  show({ sentences, protected_prefix: prefix }) {
    this.#sentences = sentences;
    this.#chosen = -1;
    this.#status.textContent = "Left and right arrow keys go from sentence to sentence.";
    this.#spans = sentences.map(spanOf);
    const inside = prefix === null ? 0 : sentences.findLastIndex((sentence) => sentence.end <= prefix) + 1;
    const content = this.#spans.slice(inside);
    if (prefix !== null) {
      const words = `protected prefix: the ${count(prefix)} tokens before this line`;
      content.unshift(element("span", { className: "boundary" }, words));
      content.unshift(element("span", { className: "prefix" }, ...this.#spans.slice(0, inside)));
    }
    this.#region.replaceChildren(...content);
    this.#region.scrollTop = 0;
    this.#top.replaceChildren(...this.#first().map((index) => this.#entry(index)));
  }

  #first() {
    const order = this.#sentences.map((_, index) => index);
    order.sort((a, b) => this.#sentences[a].rank - this.#sentences[b].rank);
    return order.slice(0, SHOWN);
  }

  #entry(index) {
    const button = element("button", { type: "button" }, this.#sentences[index].text.trim());
    button.addEventListener("click", () => this.#choose(index));
    return element("li", {}, button);
  }

  #step(event) {
    const by = { ArrowRight: 1, ArrowLeft: -1 }[event.key];
    if (!by || !this.#spans.length) return;
    event.preventDefault();
    this.#choose(Math.min(Math.max(this.#chosen + by, 0), this.#spans.length - 1));
  }

  #choose(index) {
    this.#spans[this.#chosen]?.classList.remove("chosen");
    this.#chosen = index;
    this.#spans[index].classList.add("chosen");
    this.#spans[index].scrollIntoView({ block: "nearest" });
    const { rank, z, start, end, broad, sharp } = this.#sentences[index];
    this.#status.textContent =
      `Sentence ${count(index + 1)} of ${count(this.#spans.length)}: rank ${count(rank)}, z ${signed(z)}, ` +
      `tokens ${count(start)} to ${count(end - 1)}, ` +
      `score ${broad.toFixed(2)} in the broad map, ${sharp.toFixed(2)} in the sharp one.`;
  }
}

function spanOf({ text, rank }) {
  const span = element("span", { className: "sentence" }, text);
  span.style.setProperty("--shade", (1 / (1 + rank / HALF)).toFixed(4));
  if (rank < SHOWN) span.dataset.rank = rank;
  return span;
}
