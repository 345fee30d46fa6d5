import { element } from "./elements.js";
import { samples, sums } from "./exposition.js";
import { bytes, count, seconds } from "./quantities.js";

const PERIOD = 5000;

/** Tiles with figures of the server, read anew every five seconds while the page is seen. */
export class Tiles {
  #server;
  #region;
  #note;
  #refused = false;

  constructor(server, region, note) {
    this.#server = server;
    this.#region = region;
    this.#note = note;
  }

  run() {
    setInterval(() => {
      if (!document.hidden && !this.#refused) this.refresh();
    }, PERIOD);
  }

  async refresh() {
    try {
      const [cache, metrics] = await Promise.all([this.#server.cache(), this.#server.metrics()]);
      const found = samples(metrics);
      const made = [memory(cache.pools), ttft(found), room(cache, found), memo(cache.memo)];
      this.#region.replaceChildren(...made);
      this.#note.textContent = `As of ${new Date().toLocaleTimeString()}, read every ${PERIOD / 1000} s.`;
      this.#refused = false;
    } catch (error) {
      this.#note.textContent = `The server's figures could not be read. ${error.message}`;
      this.#refused = error.status === 401; // until there is another key
    }
  }
}

function memory(pools) {
  const groups = pools.flatMap((pool) => pool.groups);
  const [total, free, reserved] = ["total", "free", "reserved"].map((state) => sum(pools, `bytes_${state}`));
  const [used, cached] = ["used", "cached"].map((state) => sum(groups, `bytes_${state}`));
  const label = "share of the cache that is held";
  const meter = element("meter", { max: total, value: used + cached, ariaLabel: label });
  const rows = {
    "by running requests": bytes(used),
    "kept for reuse": bytes(cached),
    free: bytes(free),
    reserved: bytes(reserved),
  };
  return tile("Cache memory", `${bytes(used + cached)} of ${bytes(total)}`, meter, table(rows));
}

function ttft(found) {
  const counts = sums(found, "ropeway_ttft_seconds_count", "mode");
  const totals = sums(found, "ropeway_ttft_seconds_sum", "mode");
  const rows = {};
  for (const [mode, number] of counts) {
    if (number) rows[`${mode} (${count(number)})`] = seconds(totals.get(mode) / number);
  }
  const requests = [...counts.values()].reduce((sum, number) => sum + number, 0);
  const value = requests === 1 ? "1 request" : `${count(requests)} requests`;
  return tile("Mean time to the first token", value, table(rows));
}

function room(cache, found) {
  const gauge = (name) => count(sums(found, name, "").get("") ?? 0);
  const rows = { running: gauge("vllm:num_requests_running"), waiting: gauge("vllm:num_requests_waiting") };
  return tile("Room", `${count(cache.capacity_tokens)} tokens`, table(rows));
}

function memo({ bytes: held, limit, entries, hits, misses }) {
  const rows = { prompts: count(entries), hits: count(hits), misses: count(misses) };
  return tile("Remembered relevance", `${bytes(held)} of ${bytes(limit)}`, table(rows));
}

function sum(records, name) {
  return records.reduce((total, record) => total + record[name], 0);
}

function tile(name, value, ...more) {
  const shown = element("p", { className: "value" }, value);
  return element("div", { className: "tile" }, element("h3", {}, name), shown, ...more);
}

function table(rows) {
  const list = element("dl");
  for (const [name, value] of Object.entries(rows)) {
    list.append(element("dt", {}, name), element("dd", {}, value));
  }
  return list;
}
