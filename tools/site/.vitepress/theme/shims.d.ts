declare module "*.vue" {
  const component: import("vue").DefineComponent<Record<string, unknown>>;
  export default component;
}
declare module "virtual:scripts" {
  const scripts: Record<string, () => Promise<{ default: import("../code.ts").Script }>>;
  export default scripts;
}
