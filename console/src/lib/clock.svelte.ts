/** The present, for ages on the page. */

class Clock {
  /** The time in milliseconds, renewed once per second while the page is visible. */
  now = $state(Date.now());

  constructor() {
    const renew = () => {
      if (document.visibilityState === "visible") this.now = Date.now();
    };
    setInterval(renew, 1_000);
    document.addEventListener("visibilitychange", renew);
  }
}

export const clock = new Clock();
