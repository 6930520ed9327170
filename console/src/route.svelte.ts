/** The address bar as state: which page is shown, with which filters. `#/messages?member=ann&search=plan`. */

/** The pages, in the order of the navigation. */
export const PAGES = ["team", "messages", "approvals", "board", "timeline", "health", "access"] as const;

/** A page of the navigation, or the page of a member. */
export type Page = (typeof PAGES)[number] | "member";

export type Params = Record<string, string | undefined>;

class Route {
  page = $state<Page>("team");
  /** The filters. */
  params = $state.raw<Readonly<Record<string, string>>>({});

  constructor() {
    this.#read();
    addEventListener("hashchange", () => this.#read());
  }

  #read(): void {
    const [path = "", query = ""] = location.hash.replace(/^#\/?/, "").split("?");
    this.page = isPage(path) ? path : "team";
    this.params = Object.fromEntries(new URLSearchParams(query));
  }

  /** Returns one filter. Empty: it is not set. */
  param(name: string): string {
    return this.params[name] ?? "";
  }

  /** Goes to a page: a new entry in the browser's history. */
  go(page: Page, params: Params = {}): void {
    location.hash = href(page, params);
  }

  /** Changes filters of the current page without a new entry in the browser's history. Empty values are removed. */
  set(params: Params): void {
    history.replaceState(undefined, "", href(this.page, { ...this.params, ...params }));
    this.#read();
  }
}

/** Returns the link to a page. The team that the operator has chosen stays chosen, unless `params` has another. */
export function href(page: Page, params: Params = {}): string {
  const set = Object.entries({ team: route.param("team"), ...params }).filter(
    (entry): entry is [string, string] => !!entry[1],
  );
  const query = new URLSearchParams(set).toString();
  return query ? `#/${page}?${query}` : `#/${page}`;
}

function isPage(text: string): text is Page {
  return text === "member" || PAGES.some((page) => page === text);
}

export const route = new Route();
