/** The keyboard: single keys that act on the page while nothing is being typed. */

export type Keys = Readonly<Record<string, (event: KeyboardEvent) => void>>;

/** Binds keys until the returned function is called. Use within `$effect`. */
export function bindKeys(keys: Keys): () => void {
  const pressed = (event: KeyboardEvent) => {
    if (event.defaultPrevented || event.ctrlKey || event.metaKey || event.altKey || takes(event.target, event.key))
      return;
    const act = keys[event.key];
    if (!act) return;
    event.preventDefault();
    act(event);
  };
  addEventListener("keydown", pressed);
  return () => removeEventListener("keydown", pressed);
}

/** Returns whether an element takes a key itself. */
function takes(target: EventTarget | null, key: string): boolean {
  if (!(target instanceof HTMLElement)) return false;
  const isActivated = (key === "Enter" || key === " ") && target.closest("a, button, summary") !== null;
  return isActivated || target.closest("input, textarea, select, dialog") !== null || target.isContentEditable;
}
