// The three piles of the inbox, and how each is read from the service.
import { api } from "../lib/api.js";

export const GROUPS = [
  { name: "needs", statuses: ["waiting_user"], size: 50 },
  { name: "working", statuses: ["queued", "running"], size: 50 },
  { name: "done", statuses: ["succeeded", "failed", "canceled"], size: 20 },
];
export const STATUSES = GROUPS.flatMap((group) => group.statuses);
export const STEP = 50;
const PAGE = 200;

/** The states of this group that the reader wants to see; none: the group is not shown. */
export const wantedStatuses = (group, filters) =>
  group.statuses.filter((status) => !filters.status || filters.status === status);

/** The newest `wanted` runs of some states, however many pages that takes. */
export async function loadRuns(statuses, filters, wanted, signal) {
  const asked = { status: statuses, q: filters.q, skill_id: filters.skill, engine: filters.engine };
  const runs = [];
  let cursor = null;
  do {
    const limit = Math.min(PAGE, wanted - runs.length);
    const page = await api.get("/v1/jobs", { ...asked, limit, cursor }, { signal });
    runs.push(...page.jobs);
    cursor = page.next_cursor;
  } while (cursor && runs.length < wanted);
  return { runs, hasMore: cursor !== null };
}

/** What is over never changes: behind the first page of it, old entries are kept instead of read again. */
export async function loadGroup(group, filters, wanted, before, signal) {
  const statuses = wantedStatuses(group, filters);
  if (group.name !== "done" || wanted <= PAGE || (before?.runs.length ?? 0) < wanted) {
    return loadRuns(statuses, filters, wanted, signal);
  }
  const newest = await loadRuns(statuses, filters, PAGE, signal);
  const ids = new Set(newest.runs.map((run) => run.run_id));
  return { runs: [...newest.runs, ...before.runs.filter((run) => !ids.has(run.run_id))], hasMore: before.hasMore };
}
