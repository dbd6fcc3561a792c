/** Makes the recorded runs of a page go step by step. What there is to show is in the page: `player.ts` beside the config. */
const STEP = 1_800; // ms for each while it plays

export function startPlayers(): void {
  for (const player of document.querySelectorAll<HTMLElement>(".player:not([data-step])")) start(player);
}

function start(player: HTMLElement): void {
  const steps: [line: number, says: string][] = JSON.parse(player.dataset.steps ?? "[]");
  const find = <Found extends HTMLElement>(selector: string) => player.querySelector(selector) as Found;
  const all = (selector: string) => [...player.querySelectorAll<HTMLElement>(selector)];
  const [loop, messages, play] = [find(".loop"), find(".messages"), find<HTMLButtonElement>(".play")];
  const [lines, parts] = [all(".loop .line"), all("[data-from]")];
  const playing = play.dataset.pause ?? "";
  const paused = play.textContent ?? "";
  const last = steps.length - 1;
  let now = 0;
  let timer = 0;

  function show(step: number): void {
    now = Math.min(Math.max(step, 0), last);
    player.dataset.step = String(now);
    const [line = 0, says = ""] = steps[now] ?? [];
    find(".says").textContent = says;
    find(".count").textContent = `${now + 1} / ${steps.length}`;
    for (const [i, each] of lines.entries()) each.classList.toggle("marked", i === line);
    for (const part of parts) {
      const { from, in: arrived = from, until = Infinity } = part.dataset;
      part.hidden = now < Number(from) || now > Number(until);
      part.classList.toggle("pending", now < Number(arrived));
      part.classList.toggle("gone", now === Number(until));
    }
    for (const each of all("[data-do]")) {
      const isAtEnd = each.dataset.do === "next" ? now === last : each.dataset.do !== "play" && now === 0;
      each.ariaDisabled = String(isAtEnd); // and not disabled, which takes the focus away
    }
    loop.scrollTop = (lines[line]?.offsetTop ?? 0) - loop.clientHeight / 2;
    const isNew = ({ dataset }: HTMLElement) => dataset.from === String(now) && dataset.in !== undefined;
    messages.scrollTop = Math.min((parts.find(isNew)?.offsetTop ?? Infinity) - 40, messages.scrollHeight);
  }

  function stop(): void {
    clearInterval(timer);
    timer = 0;
    play.textContent = paused;
  }
  function tick(): void {
    show(now + 1);
    if (!player.isConnected || now === last) stop();
  }
  function toggle(): void {
    if (timer) {
      stop();
      return;
    }
    show(now === last ? 0 : now);
    timer = window.setInterval(tick, STEP);
    play.textContent = playing;
  }

  const to: Record<string, () => void> = {
    first: () => show(0),
    previous: () => show(now - 1),
    next: () => show(now + 1),
  };
  const keys: Record<string, string> = { ArrowLeft: "previous", ArrowRight: "next", Home: "first" };
  player.addEventListener("click", ({ target }) => {
    const action = (target as Element).closest<HTMLElement>("[data-do]")?.dataset.do ?? "";
    if (action === "play") toggle();
    else if (action) {
      stop();
      to[action]?.();
    }
  });
  player.addEventListener("keydown", (event) => {
    const action = to[keys[event.key] ?? ""];
    if (!action) return;
    event.preventDefault();
    stop();
    action();
  });
  show(0);
}
