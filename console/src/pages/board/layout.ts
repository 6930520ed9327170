/** Places tasks in layers: each to the right of everything that it waits for. */

import type { v1 } from "@teamwire/client";

/** A place in the graph: of a task, or of a line on its way past other tasks. */
export interface Slot {
  readonly task?: v1.Task;
  /** The layer, from 0. */
  readonly x: number;
  /** The place in the layer, from 0. */
  y: number;
}

export interface Graph {
  readonly nodes: readonly (Slot & { readonly task: v1.Task })[];
  /** From a task to one that waits for it, layer by layer. */
  readonly edges: readonly (readonly Slot[])[];
  /** How many layers there are, and how many places the largest one has. */
  readonly width: number;
  readonly height: number;
  /** How many tasks depend on no other task here, and are left out. */
  readonly alone: number;
}

/** The most places for lines. Further lines go straight, behind the tasks in between. */
const BENDS_MAX = 3_000;

export function layout(tasks: readonly v1.Task[]): Graph {
  const shown = new Map(tasks.map((task) => [task.id, task]));
  const blockers = (task: v1.Task | undefined) => task?.blockedBy.filter((id) => shown.has(id)) ?? [];
  const linked = new Set(tasks.flatMap((task) => (blockers(task).length > 0 ? [task.id, ...blockers(task)] : [])));

  const layers: Slot[][] = [];
  const place = <T extends Slot>(slot: T): T => {
    (layers[slot.x] ??= []).push(slot);
    return slot;
  };
  const nodes = new Map<bigint, Slot & { readonly task: v1.Task }>();
  for (const [id, x] of depths(linked, (id) => blockers(shown.get(id)))) {
    const task = shown.get(id);
    if (task) nodes.set(id, place({ task, x, y: 0 }));
  }

  const edges: Slot[][] = [];
  const before = new Map<Slot, Slot[]>();
  let bends = 0;
  for (const to of nodes.values()) {
    for (const from of blockers(to.task).flatMap((id) => nodes.get(id) ?? [])) {
      const edge: Slot[] = [from];
      for (let x = from.x + 1; x < to.x && bends < BENDS_MAX; x++, bends++) edge.push(place({ x, y: 0 }));
      edge.push(to);
      edge.slice(1).forEach((slot, index) => before.set(slot, [...(before.get(slot) ?? []), edge[index] ?? from]));
      edges.push(edge);
    }
  }
  for (const layer of layers) {
    // Near what leads there, so that few lines cross.
    const wish = new Map(
      layer.map((slot) => {
        const rows = before.get(slot) ?? [];
        return [slot, rows.reduce((sum, { y }) => sum + y, 0) / (rows.length || 1)];
      }),
    );
    layer.sort((a, b) => (wish.get(a) ?? 0) - (wish.get(b) ?? 0) || Number((a.task?.id ?? 0n) - (b.task?.id ?? 0n)));
    layer.forEach((slot, y) => (slot.y = y));
  }
  const height = Math.max(0, ...layers.map((layer) => layer.length));
  return { nodes: [...nodes.values()], edges, width: layers.length, height, alone: tasks.length - linked.size };
}

/** Returns how many steps each task is away from the first that must be done. */
function depths(ids: ReadonlySet<bigint>, blockers: (id: bigint) => readonly bigint[]): Map<bigint, number> {
  const found = new Map<bigint, number>();
  // Not recursive: a chain may be as long as the board. Every pass places a layer, and what is in a circle goes nowhere.
  let open = [...ids];
  for (let depth = 0; open.length > 0; depth++) {
    const next = open.filter((id) => blockers(id).every((blocker) => found.has(blocker)));
    if (next.length === 0) break;
    for (const id of next) found.set(id, depth);
    open = open.filter((id) => !found.has(id));
  }
  return found;
}
