import { fileURLToPath } from "node:url";
import { svelte } from "@sveltejs/vite-plugin-svelte";
import { defineConfig } from "vite";

const client = (path: string) => fileURLToPath(new URL(`../client/typescript/${path}`, import.meta.url));

const COORDINATOR = process.env["TEAMWIRE_ADDRESS"] ?? "http://127.0.0.1:7420";

/** What leaves out the JSON forms of messages: calls are binary, so the page never reads or writes them. */
const withoutJson = {
  name: "without-json",
  enforce: "pre" as const,
  transform(code: string, id: string) {
    if (!/@bufbuild\/protobuf\/dist\/esm\/(from|to)-json\.js$/.test(id)) return undefined;
    const functions = [...code.matchAll(/^export (function \w+)/gm)];
    const refused = `() { throw new Error("the page has no JSON forms of messages"); }`;
    return { code: functions.map(([, head]) => `export ${head}${refused}`).join("\n"), map: null };
  },
};

export default defineConfig({
  plugins: [svelte(), withoutJson],
  resolve: {
    // The client is built from its sources, for browsers.
    alias: {
      "@teamwire/client": client("src/index.ts"),
      "#platform": client("src/platform/browser.ts"),
    },
    dedupe: ["@bufbuild/protobuf"],
  },
  // With `npm run dev`, calls go to a coordinator whose `web.origins` allow the development server.
  server: { proxy: { "/teamwire.v1.": COORDINATOR, "/grpc.health.v1.": COORDINATOR } },
  build: {
    target: "es2022",
    // The Content-Security-Policy allows neither data: URLs nor inline scripts.
    assetsInlineLimit: 0,
    modulePreload: { polyfill: false },
    chunkSizeWarningLimit: 600,
    // The coordinator serves it with the page. `cargo xtask dist` reads it.
    license: { fileName: "licenses.txt" },
  },
});
