/** A condition variable: waiters wait until a condition holds; code that changes its inputs notifies them. */
export class Changes {
  readonly #waiting = new Set<() => void>();

  notify(): void {
    for (const check of this.#waiting) check();
  }

  /** Waits until the condition holds, the time in milliseconds has passed, or the signal is aborted. */
  until(condition: () => boolean, ms?: number, signal?: AbortSignal): Promise<void> {
    return new Promise((resolve) => {
      const stop = () => {
        this.#waiting.delete(check);
        clearTimeout(timer);
        signal?.removeEventListener("abort", stop);
        resolve();
      };
      const check = () => {
        if (condition()) stop();
      };
      const timer = ms === undefined ? undefined : setTimeout(stop, ms);
      signal?.addEventListener("abort", stop);
      this.#waiting.add(check);
      if (signal?.aborted) stop();
      else check();
    });
  }
}
