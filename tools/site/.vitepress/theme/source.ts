/** Marks the lines in the address of a source's page (`#L64-L70`) and scrolls to them. */
import { inBrowser, type Router } from "vitepress";
import { nextTick } from "vue";

type Lines = { from: number; to: number };

function linesInHash(hash: string): Lines | undefined {
  const [, from, to = from] = /#L(\d+)(?:-L(\d+))?$/.exec(hash) ?? [];
  return from ? { from: Number(from), to: Number(to) } : undefined;
}

function markLines(): void {
  const marked = linesInHash(location.hash);
  const lines = document.querySelectorAll(".source .vp-doc .line");
  for (const [i, line] of lines.entries())
    line.classList.toggle("marked", !!marked && i + 1 >= marked.from && i + 1 <= marked.to);
  if (marked) lines[marked.from - 1]?.scrollIntoView({ block: "center" });
}

export function showLinesOfAddress(router: Router): void {
  if (!inBrowser) return;
  const after = router.onAfterRouteChange;
  router.onAfterRouteChange = async (to) => {
    await after?.(to);
    await nextTick();
    requestAnimationFrame(markLines);
  };
  addEventListener("hashchange", markLines);
}
