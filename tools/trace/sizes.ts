/** Estimates sizes from the characters of the JSON, because only the API can count tokens. */
import { CHARS_PER_TOKEN } from "../prices.ts";

/** Characters of {"role":"user","content":[]} and a comma. */
export const WRAPPER = 30;
/** Stands in for an image: 1,500 tokens, about as many as 1,000 × 1,000 pixels take. */
export const IMAGE = "[image or document] ".padEnd(1_500 * CHARS_PER_TOKEN, ".");

const isImage = (value: unknown) => /^(image|document)$/.test(Object(value).type);

/** Returns the characters of a value as JSON, with images at their estimated size. */
export const sizeOf = (value: unknown): number =>
  JSON.stringify(value, (_, part) => (isImage(part) ? IMAGE : part))?.length ?? 0;
