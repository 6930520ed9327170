/** Which members need a person's attention, and how urgently. */

import { v1 } from "@teamwire/client";

const { MemberState } = v1;

/** Returns how urgently a member needs attention. Zero: it does not. */
export function attention(member: v1.Member): number {
  if (member.state === MemberState.LOST) return 5;
  if (member.state === MemberState.EXITED) return member.exit?.code ? 2 : 0;
  if ((member.failedTurns?.count ?? 0) > 0) return 4;
  if (member.inboxFull) return 4;
  if (member.pendingPermissions.length > 0 || member.pendingPlan) return 3;
  return 0;
}

/** Where each state goes among those that need no attention. */
const ORDER: Readonly<Record<number, number>> = {
  [MemberState.ACTIVE]: 0,
  [MemberState.SPAWNING]: 1,
  [MemberState.STOPPING]: 2,
  [MemberState.JOINED]: 3,
  [MemberState.IDLE]: 4,
  [MemberState.AWAY]: 5,
  [MemberState.EXITED]: 6,
};

/** Sorts members: those that need attention first, then those that work, and at last those that have exited. */
export function sorted(members: v1.Member[]): v1.Member[] {
  return members.sort(
    (a, b) =>
      attention(b) - attention(a) ||
      (ORDER[a.state] ?? 9) - (ORDER[b.state] ?? 9) ||
      a.name.localeCompare(b.name, "en"),
  );
}
