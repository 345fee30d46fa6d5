import { Failure } from "./server.js";

/** The text of a file in UTF-8; throws a Failure for anything else. */
export async function readText(file) {
  const decoder = new TextDecoder("utf-8", { fatal: true });
  try {
    return decoder.decode(await file.arrayBuffer());
  } catch (error) {
    if (error instanceof TypeError) throw new Failure(`${file.name} is not text in UTF-8.`);
    throw new Failure(`${file.name} cannot be read.`);
  }
}
