const SVG = "http://www.w3.org/2000/svg";

/** A new element; `content` are texts and elements, and texts stay texts. */
export function element(name, properties = {}, ...content) {
  const made = Object.assign(document.createElement(name), properties);
  made.append(...content);
  return made;
}

/** A new element of a drawing; `content` as above. */
export function shape(name, attributes = {}, ...content) {
  const made = document.createElementNS(SVG, name);
  for (const [key, value] of Object.entries(attributes)) made.setAttribute(key, value);
  made.append(...content);
  return made;
}
