const SAMPLE = /^([\w:]+)(?:\{(.*)\})? (\S+)/;
const LABEL = /(\w+)="((?:[^"\\]|\\.)*)"/g;

/** Prometheus' text format as [{name, labels, value}]. */
export function samples(text) {
  const found = [];
  for (const line of text.split("\n")) {
    const match = line.startsWith("#") ? null : SAMPLE.exec(line);
    if (match) {
      const labels = [...(match[2] ?? "").matchAll(LABEL)].map(([, name, value]) => [name, value]);
      found.push({ name: match[1], labels: Object.fromEntries(labels), value: Number(match[3]) });
    }
  }
  return found;
}

/** Sums of a metric's samples, by the values of one label (an empty text where they have none). */
export function sums(found, name, label) {
  const total = new Map();
  for (const sample of found) {
    if (sample.name !== name) continue;
    const key = sample.labels[label] ?? "";
    total.set(key, (total.get(key) ?? 0) + sample.value);
  }
  return total;
}
