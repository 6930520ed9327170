/** The keyboard: single keys that act on the page while nothing is being typed. */

export type Keys = Readonly<Record<string, (event: KeyboardEvent) => void>>;

/** Binds keys until the returned function is called. Use within `$effect`. */
export function bindKeys(keys: Keys): () => void {
  const pressed = (event: KeyboardEvent) => {
    if (event.defaultPrevented || event.ctrlKey || event.metaKey || event.altKey || isTyping(event.target)) return;
    const act = keys[event.key];
    if (!act) return;
    event.preventDefault();
    act(event);
  };
  addEventListener("keydown", pressed);
  return () => removeEventListener("keydown", pressed);
}

/** Returns whether an element takes keys itself. */
function isTyping(target: EventTarget | null): boolean {
  return (
    target instanceof HTMLElement &&
    (target.closest("input, textarea, select, dialog") !== null || target.isContentEditable)
  );
}
