/** Options for esbuild that bundle a program and its packages into one file. It starts six times as fast as under tsx. */
export const BUNDLE_OPTIONS = {
  bundle: true,
  platform: "node",
  format: "esm",
  target: "es2024",
  outExtension: { ".js": ".mjs" },
  logLevel: "silent", // esbuild throws the errors as well
  banner: {
    js: 'import { createRequire as $makeRequire } from "node:module"; const require = $makeRequire(import.meta.url);',
  },
} as const;
