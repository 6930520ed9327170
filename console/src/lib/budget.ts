/** Budgets: how much programs may use, and how much they have used. */

import { v1 } from "@teamwire/client";
import { compact, money } from "./format.js";
import { tokens } from "./usage.js";

/** The tool of the requests that ask for more budget. */
const TOOL = "budget";

/** Returns whether a request asks for more budget. Its approval raises budgets. */
export function isForBudget({ kind, tool }: v1.Request): boolean {
  return kind === v1.RequestKind.PERMISSION && tool === TOOL;
}

/** What a budget bounds, and what was used of it. */
export type Use = Pick<v1.BudgetUse, "budget" | "costUsdMicros" | "tokens">;

/** One of the two amounts of a budget, in words. */
export interface Part {
  readonly text: string;
  readonly percent: number;
}

/** Returns a member's budget, and what it has used. Undefined: it has none. */
export function useOf({ budget, totalUsage }: v1.Member): Use | undefined {
  return budget && { budget, costUsdMicros: totalUsage?.costUsdMicros ?? 0n, tokens: tokens(totalUsage) };
}

/** Returns the amounts that a budget bounds. */
export function parts({ budget, costUsdMicros, tokens }: Use): Part[] {
  const all: Part[] = [];
  const add = (used: bigint, bound: bigint, text: string) => {
    if (bound > 0n) all.push({ text, percent: Number((used * 100n) / bound) });
  };
  const { costUsdMicros: cost = 0n, tokens: count = 0n } = budget ?? {};
  add(costUsdMicros, cost, `${money(costUsdMicros)} of ${money(cost)}`);
  add(tokens, count, `${compact(tokens)} of ${compact(count)} tokens`);
  return all;
}

/** Returns how many percent of a budget are used: the larger of cost and tokens. */
export function percent(use: Use): number {
  return Math.max(0, ...parts(use).map((part) => part.percent));
}

/** An amount as a person writes it. */
export interface Written {
  dollars: string;
  tokens: string;
}

const UNITS: Readonly<Record<string, number>> = { "": 1, k: 1e3, m: 1e6, g: 1e9 };

/** The largest amount: what a number holds exactly. */
const MAX = Number.MAX_SAFE_INTEGER;

/** Reads an amount. Zero in both: none was written. Undefined: it cannot be read. */
export function readAmount(written: Written): { costUsdMicros: bigint; tokens: bigint } | undefined {
  const dollars = readNumber(written.dollars.trim().replace(/^\$|\s*USD$/gi, ""), 1e6);
  const [, number = "", unit = ""] = /^([\d.,\s]*?)\s*([kmg]?)$/i.exec(written.tokens.trim()) ?? [, "?"];
  const tokens = readNumber(number, UNITS[unit.toLowerCase()] ?? 1);
  return dollars === undefined || tokens === undefined ? undefined : { costUsdMicros: dollars, tokens };
}

function readNumber(text: string, unit: number): bigint | undefined {
  const plain = text.replace(/[,\s]/g, "");
  if (plain === "") return 0n;
  if (!/^\d*\.?\d+$|^\d+\.$/.test(plain)) return undefined;
  const value = Math.round(Number(plain) * unit);
  return value <= MAX ? BigInt(value) : undefined;
}
