/** The other tabs of the console in this browser: they share a sign-in, so that a person who opens a second tab needs no second code. */

/** What a tab shares with another one. */
export interface Shared {
  readonly credential: string;
  readonly readOnly: boolean;
}

type Message =
  | { readonly type: "ask" }
  | ({ readonly type: "answer" } & Shared)
  /** The person has signed out: the credential with this id is to be forgotten. */
  | { readonly type: "ended"; readonly credentialId: string };

/** How long a tab waits for the answers of the others, in milliseconds. */
const WAIT_MS = 300;

// The browser delivers its messages to pages of the same origin only, and keeps none.
const channel = new BroadcastChannel("teamwire.tabs");

const post = (message: Message) => channel.postMessage(message);

/**
 * Returns what the other tabs share. If some of them can only read, it is one of those: a person who has opened the console
 * read-only does not get more by opening a tab. Undefined: no tab has answered.
 */
export async function askTabs(): Promise<Shared | undefined> {
  const answers: Shared[] = [];
  const listen = ({ data }: MessageEvent<Message>) => data.type === "answer" && answers.push(data);
  channel.addEventListener("message", listen);
  post({ type: "ask" });
  await new Promise((resolve) => setTimeout(resolve, WAIT_MS));
  channel.removeEventListener("message", listen);
  return answers.find(({ readOnly }) => readOnly) ?? answers[0];
}

/** Answers the other tabs from now on. `onEnded` is called when one of them has ended the sign-in with an id. */
export function answerTabs(shared: () => Shared | undefined, onEnded: (credentialId: string) => void): void {
  channel.addEventListener("message", ({ data }: MessageEvent<Message>) => {
    if (data.type === "ended") onEnded(data.credentialId);
    const own = data.type === "ask" ? shared() : undefined;
    if (own) post({ type: "answer", credential: own.credential, readOnly: own.readOnly });
  });
}

/** Says to the other tabs that a sign-in has ended. */
export function tellEnded(credentialId: string): void {
  post({ type: "ended", credentialId });
}
