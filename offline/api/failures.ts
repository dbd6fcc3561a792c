/** Orders the failure of one request. */
export type Failure =
  /** `retryAfter` becomes the retry-after header. It may be a fraction of a second. */
  | { kind: "status"; status: 400 | 401 | 413 | 429 | 500 | 529; message?: string; retryAfter?: number }
  /** The connection breaks after half of the stream's events, or before a plain answer. */
  | { kind: "drop" }
  /** An error follows half of the stream's events, an overloaded_error by default. A plain answer gets its status. */
  | { kind: "error_event"; status?: 400 | 413 | 429 }
  /** Waits `delay` milliseconds before each event of the stream, or before a plain answer. */
  | { kind: "slow"; delay: number }
  /** The reply reaches max_tokens in the middle of its last block. If that is a call, its JSON is incomplete. */
  | { kind: "max_tokens" }
  /** The reply fills the context window in the middle of its last block. */
  | { kind: "context_window" }
  /** The reply arrives whole, with the stop reason `refusal`. */
  | { kind: "refusal" }
  /** The input of each call is invalid JSON. */
  | { kind: "broken_json" };
