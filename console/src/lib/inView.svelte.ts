/** Which elements of a long list are near the visible part: only those have contents. The others keep their height. */

import { SvelteSet } from "svelte/reactivity";

/** How far outside the visible part elements have contents. */
const MARGIN = "600px";

export class InView<K> {
  readonly #near = new SvelteSet<K>();
  readonly #keys = new Map<Element, K>();
  #observer: IntersectionObserver | undefined;

  has(key: K): boolean {
    return this.#near.has(key);
  }

  /** Watches an element within a `.scroll`. For `use:`. */
  readonly watch = (element: HTMLElement, key: K) => {
    this.#keys.set(element, key);
    const root = element.closest(".scroll");
    this.#observer ??= new IntersectionObserver((entries) => this.#moved(entries), { root, rootMargin: MARGIN });
    this.#observer.observe(element);
    return {
      destroy: () => {
        this.#observer?.unobserve(element);
        this.#keys.delete(element);
        this.#near.delete(key);
      },
    };
  };

  #moved(entries: readonly IntersectionObserverEntry[]): void {
    for (const { target, isIntersecting, boundingClientRect } of entries) {
      const key = this.#keys.get(target);
      if (key === undefined || !(target instanceof HTMLElement)) continue;
      target.style.minHeight = isIntersecting ? "" : `${boundingClientRect.height}px`;
      if (isIntersecting) this.#near.add(key);
      else this.#near.delete(key);
    }
  }

  close(): void {
    this.#observer?.disconnect();
  }
}
