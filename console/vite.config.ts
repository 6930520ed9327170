import { fileURLToPath } from "node:url";
import { svelte } from "@sveltejs/vite-plugin-svelte";
import { defineConfig } from "vite";
import { plainDescriptors, withoutJson, withoutRenderer } from "./bundle/plugins.js";

const client = (path: string) => fileURLToPath(new URL(`../client/typescript/${path}`, import.meta.url));

const COORDINATOR = process.env["TEAMWIRE_ADDRESS"] ?? "http://127.0.0.1:7420";

export default defineConfig({
  plugins: [svelte(), plainDescriptors, withoutJson, withoutRenderer],
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
    // Few files: each is compressed alone, and small ones cannot refer to what is said in others.
    rolldownOptions: {
      output: {
        codeSplitting: {
          groups: [
            // Otherwise, it goes with the pages that are seldom opened, and the first page loads them all.
            { name: "keys", test: /console\/src\/lib\/keys/, priority: 1 },
            // The first page shows no diffs.
            { name: "shared", test: /console\/src\/(?!lib\/work\/(?!words))/, minShareCount: 2 },
            { name: "work", test: /console\/src\/lib\/work\// },
            { name: "rare", test: /console\/src\/pages\/(timeline|health|access|Timeline|Health|Access)/ },
          ],
        },
      },
    },
  },
});
