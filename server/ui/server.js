// The server that served this page, asked by relative addresses, so that a proxy may put it below a path.
import { dataOf } from "./events.js";

/** A request that failed: the message is for people; `status` is null where no answer came at all. */
export class Failure extends Error {
  constructor(message, status = null) {
    super(message);
    this.status = status;
  }
}

export class Server {
  #key;

  /** `key`: returns the API key of now, or an empty text. It is stored nowhere. */
  constructor(key) {
    this.#key = key;
  }

  async model() {
    const listed = await this.#json("v1/models");
    if (!listed.data?.length) throw new Failure("The server lists no model.");
    return listed.data[0].id;
  }

  record(id) {
    return this.#json(`v1/requests/${encodeURIComponent(id)}`);
  }

  relevance(body, signal) {
    return this.#json("v1/qgpm/relevance", { body, signal });
  }

  cache() {
    return this.#json("v1/cache");
  }

  async metrics() {
    return (await this.#request("metrics")).text();
  }

  /** Yields {id, text} for each piece of a chat's answer; the first pieces may have no text. */
  async *chat(body, signal) {
    const response = await this.#request("v1/chat/completions", { body: { ...body, stream: true }, signal });
    try {
      for await (const data of dataOf(response.body)) {
        if (data === "[DONE]") return;
        const chunk = JSON.parse(data);
        if (chunk.error) throw new Failure(`The server failed while it answered: ${chunk.error.message}`);
        const delta = chunk.choices?.[0]?.delta ?? {};
        yield { id: chunk.id, text: delta.content || delta.reasoning || "" };
      }
    } catch (error) {
      throw named(error, "The connection ended in the middle of the answer.");
    }
    throw new Failure("The answer ended before it was complete.");
  }

  async #json(path, options) {
    const response = await this.#request(path, options);
    try {
      return await response.json();
    } catch (error) {
      throw named(error, "The server's answer cannot be read.");
    }
  }

  async #request(path, { body, signal } = {}) {
    const key = this.#key();
    const headers = {};
    if (body !== undefined) headers["Content-Type"] = "application/json";
    if (key) headers.Authorization = `Bearer ${key}`;
    let response;
    try {
      response = await fetch(new URL(`../${path}`, document.baseURI), {
        method: body === undefined ? "GET" : "POST",
        headers: headersOf(headers),
        body: body === undefined ? undefined : JSON.stringify(body),
        credentials: "omit",
        cache: "no-store",
        signal,
      });
    } catch (error) {
      throw named(error, "The server cannot be reached. Does it still run?");
    }
    if (!response.ok) throw new Failure(await refusal(response), response.status);
    return response;
  }
}

function headersOf(headers) {
  try {
    return new Headers(headers);
  } catch {
    throw new Failure("The API key holds characters that cannot be sent.");
  }
}

/** What was thrown, in words unless it has its own or the user stopped the request. */
function named(error, words) {
  return error instanceof Failure || error.name === "AbortError" ? error : new Failure(words);
}

async function refusal(response) {
  const said = await saidBy(response);
  const wait = response.headers.get("Retry-After");
  if (response.status === 401) return "The server asks for an API key, or refuses the one that was given.";
  if (response.status === 413) return `This is more than the server takes: ${said}`;
  if (response.status === 429 || response.status === 503) {
    return `The server is busy${wait ? `; try again in ${wait} s` : ""}: ${said}`;
  }
  const did = response.status < 500 ? "refused the request" : "failed";
  return `The server ${did} (${response.status}): ${said}`;
}

async function saidBy(response) {
  try {
    const body = JSON.parse(await response.text());
    return body.error?.message ?? body.error ?? body.detail ?? response.statusText;
  } catch {
    return response.statusText || "it gave no reason";
  }
}
