declare module "*.vue" {
  const component: import("vue").DefineComponent<Record<string, unknown>>;
  export default component;
}
