/** Follows a stream of the coordinator, and reopens it whenever it breaks. */

import { type CallOptions, Code, ConnectError, createContextValues } from "@connectrpc/connect";
import { Delays, ONE_ATTEMPT, SETTLED_MS } from "./calls.js";
import { Changes } from "./changes.js";
import type { Client } from "./client.js";
import { isReopened, readError, type TeamwireError } from "./error.js";

/** The longest delay between two attempts, in milliseconds: a person may be waiting in front of the display. */
const DELAY_MS_MAX = 2_000;

/** How long a stream may be silent, in milliseconds. The coordinator sends a frame every 5 s or more often. */
const SILENCE_MS = 25_000;

/** The connection to the coordinator was lost; the client keeps trying to open another one. Reported once per outage. */
export interface Lost {
  readonly type: "lost";
  /** Why. */
  readonly error: TeamwireError;
}

/** There is a connection again. Comes before the first event from it. */
export interface Back {
  readonly type: "back";
}

/** How to follow a stream. */
export interface FollowOptions {
  /** Only an operator needs it. Default: the client's. */
  readonly team?: string | undefined;
  /** Aborting it ends the iteration, without an error. So does closing the client. */
  readonly signal?: AbortSignal | undefined;
  /** After how many milliseconds without a frame the connection counts as lost. Default 25,000; at least 6,000. */
  readonly silenceMs?: number | undefined;
}

/** Opens a stream. It starts where the last frame ended. */
type Open<F> = (options: CallOptions) => AsyncIterable<F>;

/**
 * Yields the frames of a stream, and what happens to its connection. Ends when the signal is aborted or the client is
 * closed; throws if another attempt would be refused, too.
 */
export async function* follow<F>(
  client: Client,
  open: Open<F>,
  { signal, silenceMs = SILENCE_MS }: FollowOptions,
): AsyncGenerator<{ readonly type: "frame"; readonly frame: F } | Lost | Back, void, undefined> {
  const over = new AbortController();
  const unlink = [signal, client.signal].map((from) => link(from, over));
  const delays = new Delays(DELAY_MS_MAX);
  let isLost = false;
  try {
    while (!over.signal.aborted) {
      const openedAt = performance.now();
      try {
        for await (const frame of read(open, over.signal, silenceMs)) {
          if (isLost) yield { type: "back" };
          isLost = false;
          yield { type: "frame", frame };
        }
      } catch (thrown) {
        if (over.signal.aborted) return;
        const error = readError(thrown, true);
        if (!isReopened(error)) throw error;
        if (!isLost) yield { type: "lost", error };
        isLost = true;
        if (performance.now() - openedAt >= SETTLED_MS) delays.reset();
        await new Changes().until(() => false, delays.after(error), over.signal);
      }
    }
  } finally {
    for (const end of unlink) end();
  }
}

/** Reads one stream to its end, which is always an error. */
async function* read<F>(open: Open<F>, signal: AbortSignal, silenceMs: number): AsyncGenerator<F> {
  const controller = new AbortController();
  const unlink = link(signal, controller);
  const late = new ConnectError(`no frame within ${silenceMs} ms`, Code.DeadlineExceeded);
  try {
    const contextValues = createContextValues().set(ONE_ATTEMPT, true);
    const frames = open({ signal: controller.signal, contextValues })[Symbol.asyncIterator]();
    for (;;) {
      // The time counts only while this waits: a slow program is not silence.
      const timer = setTimeout(() => controller.abort(late), silenceMs);
      const { done, value } = await orAborted(frames.next(), controller.signal).finally(() => clearTimeout(timer));
      if (done) throw new ConnectError("the stream ended without a reason", Code.Unavailable);
      yield value;
    }
  } finally {
    unlink();
    controller.abort();
  }
}

/** Waits for a promise, but not beyond an abort. Not every `fetch` ends a read by itself when its signal is aborted. */
function orAborted<T>(promise: Promise<T>, signal: AbortSignal): Promise<T> {
  return new Promise((resolve, reject) => {
    const abort = () => reject(signal.reason);
    signal.addEventListener("abort", abort);
    promise.then(resolve, reject).finally(() => signal.removeEventListener("abort", abort));
    if (signal.aborted) abort();
  });
}

/** Aborts a controller when a signal is aborted. Returns a function that undoes this. */
function link(signal: AbortSignal | undefined, controller: AbortController): () => void {
  const abort = () => controller.abort(signal?.reason);
  if (signal?.aborted) abort();
  signal?.addEventListener("abort", abort);
  return () => signal?.removeEventListener("abort", abort);
}
