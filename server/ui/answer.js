import { seconds } from "./quantities.js";

/** One of the two answers: its text as it comes, its times, and what went wrong. */
export class Answer {
  #times;
  #text;
  #error;
  #first = null;
  #started = 0;

  constructor(section) {
    this.#times = section.querySelector(".times");
    this.#text = section.querySelector(".text");
    this.#error = section.querySelector(".error");
  }

  clear() {
    this.#times.textContent = "";
    this.#text.textContent = "";
    this.#error.hidden = true;
  }

  /** Streams an answer; returns its id. What fails is shown here, and the id is then null. */
  async stream(server, body, signal) {
    this.clear();
    this.#first = null;
    this.#times.textContent = "waiting for the first token …";
    this.#text.setAttribute("aria-busy", "true"); // read out once, when it is whole
    this.#started = performance.now();
    let id = null;
    try {
      for await (const piece of server.chat(body, signal)) {
        id = piece.id ?? id;
        if (piece.text) this.#add(piece.text);
      }
      this.#times.textContent = this.#timing();
      return id;
    } catch (error) {
      this.#fail(error);
      return null;
    } finally {
      this.#text.setAttribute("aria-busy", "false");
    }
  }

  /** Adds what the server's record tells of the way to the first token. */
  explain(record) {
    const { score, maps, answer } = record.seconds;
    const parts = [];
    if (record.guard && record.guard.decision !== "full") parts.push(verdict(record.guard));
    if (record.memo) parts.push("relevance remembered");
    if (score !== undefined) parts.push(`score pass ${seconds(score)}`);
    if (maps !== undefined) parts.push(`maps ${seconds(maps)}`);
    if (answer !== undefined) parts.push(`answer pass ${seconds(answer)}`);
    if (parts.length) this.#times.textContent += ` (${parts.join(", ")})`;
  }

  #add(text) {
    if (this.#first === null) {
      this.#first = performance.now();
      this.#times.textContent = `first token ${this.#since(this.#first)}`;
    }
    this.#text.append(text);
  }

  #timing() {
    const first = this.#first === null ? "no token" : `first token ${this.#since(this.#first)}`;
    return `${first}, total ${this.#since(performance.now())}`;
  }

  #since(moment) {
    return seconds((moment - this.#started) / 1000);
  }

  #fail(error) {
    const stopped = error.name === "AbortError";
    this.#times.textContent = stopped ? "stopped" : "";
    if (stopped) return;
    this.#error.textContent = error.message;
    this.#error.hidden = false;
  }
}

function verdict({ decision, confidence }) {
  const done = decision === "soft" ? "softened" : "answered plainly";
  return `${done}: ${Math.round(100 * confidence)} % sure of the relevance`;
}
