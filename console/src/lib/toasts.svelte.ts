/** Short notes about what the person has just done. */

export interface Toast {
  readonly id: number;
  readonly text: string;
  readonly isError: boolean;
}

/** How long a note stays, in milliseconds. An error stays until it is dismissed. */
const STAYS_MS = 5_000;

class Toasts {
  all = $state.raw<readonly Toast[]>([]);
  #next = 1;

  show(text: string, isError = false): void {
    const id = this.#next++;
    this.all = [...this.all.slice(-4), { id, text, isError }];
    if (!isError) setTimeout(() => this.dismiss(id), STAYS_MS);
  }

  dismiss(id: number): void {
    this.all = this.all.filter((toast) => toast.id !== id);
  }
}

export const toasts = new Toasts();
