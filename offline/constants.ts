/** What the local API and the tools have to agree on. */

/** An estimate for prompts that the API didn't count. */
export const CHARS_PER_TOKEN = 3;
/** How many milliseconds a cache entry lives after the last request that used it. */
export const CACHE_LIFE = 300_000;
export const LONG_CACHE_LIFE = 3_600_000;
