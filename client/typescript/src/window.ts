/** What a subscription remembers of the messages that it has handed out: the latest ones, and whether each was acknowledged. */
export class Window {
  readonly #isAcked = new Map<string, boolean>();

  constructor(readonly idsMax: number) {}

  /** Notes that a message has come in, and returns what was known of it before. */
  deliver(id: string): "new" | "handed" | "acked" {
    const isAcked = this.#isAcked.get(id);
    if (isAcked === undefined) this.#note(id, false);
    return isAcked === undefined ? "new" : isAcked ? "acked" : "handed";
  }

  ack(id: string): void {
    this.#note(id, true);
  }

  #note(id: string, isAcked: boolean): void {
    this.#isAcked.set(id, isAcked);
    // A map keeps the order in which its keys came: the first is the oldest.
    const [oldest] = this.#isAcked.keys();
    if (this.#isAcked.size > this.idsMax && oldest !== undefined) this.#isAcked.delete(oldest);
  }
}
