/** Lets any number of waiters wait until something is so. Whoever changes what they wait for rings. */
export class Changes {
  readonly #waiting = new Set<() => void>();

  ring(): void {
    for (const check of this.#waiting) check();
  }

  /** Waits until `isSo`, the time in milliseconds is over, or the signal is aborted. */
  until(isSo: () => boolean, ms?: number, signal?: AbortSignal): Promise<void> {
    return new Promise((resolve) => {
      const stop = () => {
        this.#waiting.delete(check);
        clearTimeout(timer);
        signal?.removeEventListener("abort", stop);
        resolve();
      };
      const check = () => {
        if (isSo()) stop();
      };
      const timer = ms === undefined ? undefined : setTimeout(stop, ms);
      signal?.addEventListener("abort", stop);
      this.#waiting.add(check);
      if (signal?.aborted) stop();
      else check();
    });
  }
}
