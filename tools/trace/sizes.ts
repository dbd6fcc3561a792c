/** How large the parts of a conversation are. Sizes are characters, as JSON; the API counts tokens. */

/** Where nothing was counted. */
export const CHARS_PER_TOKEN = 3;
/** Of {"role":"user","content":[]} and its comma. */
export const WRAPPER = 30;
/** In place of an image: 1,500 tokens, about what one of 1,000 × 1,000 pixels takes. */
export const IMAGE = "[image or document] ".padEnd(1_500 * CHARS_PER_TOKEN, ".");

const isImage = (value: unknown) => /^(image|document)$/.test(Object(value).type);

/** Characters of a block as JSON, images at their estimated size. */
export const sizeOf = (value: unknown): number =>
  JSON.stringify(value, (_, part) => (isImage(part) ? IMAGE : part))?.length ?? 0;
