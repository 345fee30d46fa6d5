import { Answer } from "./answer.js";
import { plots } from "./plot.js";
import { Failure, Server } from "./server.js";
import { ShadedDocument } from "./shaded_document.js";
import { Tiles } from "./tiles.js";
import { readText } from "./upload.js";
import { count } from "./quantities.js";

const MODES = ["plain", "qgpm"];
const REASONS = {
  too_few_sentences: "the document has fewer than two sentences",
  equal_relevance: "all sentences are equally relevant",
  guard: "the relevance was not sure enough for the guard",
  no_relevance: "no source of relevance answered",
};
const SOURCES = {
  heads: "the model's own heads",
  lexical: "shared words",
  embedding: "similar meaning",
  fused: "several sources",
};

const at = (id) => document.getElementById(id);
const server = new Server(() => at("api-key").value.trim());
const answers = { plain: new Answer(at("plain")), qgpm: new Answer(at("qgpm")) };
const shaded = new ShadedDocument(at("shaded"), at("top"), at("sentence"));
const tiles = new Tiles(server, at("tiles"), at("refreshed"));
let running = null;

async function compare() {
  if (running) return;
  const asked = question();
  if (!asked) return;
  running = new AbortController();
  busy(true);
  clear();
  try {
    const whole = await answer(asked, running.signal);
    say(whole ? "Done." : "Not all was answered.");
  } catch (error) {
    if (error.name === "AbortError") say("Stopped.");
    else complain(error.message);
  } finally {
    busy(false);
    running = null;
    tiles.refresh();
  }
}

/** What the form asks, or null where something is missing, which is then said. */
function question() {
  const text = at("document").value.trim();
  const asked = at("question").value.trim();
  at("document").ariaInvalid = String(!text);
  at("question").ariaInvalid = String(!asked);
  if (!text || !asked) {
    complain(text ? "Type a question first." : "Paste or upload a document first.");
    at(text ? "question" : "document").focus();
    return null;
  }
  return { text, query: `Question: ${asked}`, maxTokens: at("max-tokens").valueAsNumber };
}

/** Asks plainly and with QGPM, and shows what QGPM did; whether both were answered. */
async function answer({ text, query, maxTokens }, signal) {
  say("Looking for the model …");
  const model = await findModel();
  const messages = [{ role: "user", content: `${text}\n\n${query}` }];
  // Each from a cold cache, else the second would find what the first one left and look faster than it is.
  const salts = { plain: salt(), qgpm: salt() };
  const modes = { plain: false, qgpm: { question: query } };
  const stream = (mode) => {
    const body = { model, messages, max_tokens: maxTokens, temperature: 0 };
    return answers[mode].stream(server, { ...body, qgpm: modes[mode], cache_salt: salts[mode] }, signal);
  };
  let ids;
  if (at("together").checked) {
    say("Asking both at the same time …");
    ids = await Promise.all(MODES.map(stream));
  } else {
    say("Asking plainly …");
    ids = [await stream("plain")];
    signal.throwIfAborted();
    say("Asking with QGPM …");
    ids.push(await stream("qgpm"));
  }
  signal.throwIfAborted();
  if (ids[1] === null) return false;
  say("Reading what QGPM did …");
  const record = await server.record(ids[1]);
  answers.qgpm.explain(record);
  const body = { model, messages, qgpm: modes.qgpm, cache_salt: salts.qgpm };
  explain(record, record.mode === "plain" ? null : await server.relevance(body, signal));
  return ids[0] !== null;
}

async function findModel() {
  const model = await server.model();
  at("model").textContent = model;
  return model;
}

/** Shows what was relevant and where tokens stood; `relevance` is null where the answer was plain. */
function explain(record, relevance) {
  at("relevance").hidden = false;
  const note = at("relevance-note");
  at("top").closest(".split").hidden = relevance === null;
  if (relevance === null) {
    note.textContent = `QGPM changed nothing: ${REASONS[record.reason] ?? record.reason}.`;
    return;
  }
  const prompt = `a prompt of ${count(relevance.tokens.prompt)} tokens`;
  note.textContent =
    `${count(relevance.sentences.length)} sentences in ${prompt}, ranked by ${SOURCES[relevance.relevance.name]}.`;
  shaded.show(relevance);
  if (relevance.positions === null) return;
  at("plots").replaceChildren(...plots(relevance));
  at("positions").hidden = false;
}

function clear() {
  at("error").hidden = true;
  at("relevance").hidden = true;
  at("positions").hidden = true;
  for (const shown of Object.values(answers)) shown.clear();
}

function busy(on) {
  const [from, to] = on ? [at("compare"), at("stop")] : [at("stop"), at("compare")];
  const focused = document.activeElement === from;
  to.disabled = false;
  if (focused) to.focus(); // a button that is switched off would drop the focus
  from.disabled = true;
}

function say(words) {
  at("status").textContent = words;
}

function complain(words) {
  say("");
  at("error").textContent = words;
  at("error").hidden = false;
}

function salt() {
  // Not randomUUID, which browsers keep from pages that came by HTTP from another machine.
  return crypto.getRandomValues(new Uint32Array(4)).join("-");
}

function measure() {
  const text = at("document").value.trim();
  const words = text ? text.split(/\s+/).length : 0;
  const size = `${count(words)} words, ${count(text.length)} characters`;
  at("document-size").textContent = words ? size : "no text yet";
}

async function upload() {
  const [file] = at("upload").files;
  if (!file) return;
  try {
    at("document").value = await readText(file);
    at("error").hidden = true;
    say(`Read ${file.name}.`);
  } catch (error) {
    if (!(error instanceof Failure)) throw error;
    complain(error.message);
  }
  measure();
}

async function connect() {
  try {
    await findModel();
    at("error").hidden = true;
  } catch (error) {
    complain(error.message);
  }
  tiles.refresh();
}

at("ask").addEventListener("submit", (event) => {
  event.preventDefault();
  compare();
});
at("document").addEventListener("keydown", (event) => {
  if (event.key === "Enter" && (event.ctrlKey || event.metaKey)) at("ask").requestSubmit();
});
at("document").addEventListener("input", measure);
at("upload").addEventListener("change", upload);
at("stop").addEventListener("click", () => running?.abort());
at("api-key").addEventListener("change", connect);
connect().then(() => tiles.run());
