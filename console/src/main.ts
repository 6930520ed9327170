/** Starts the page. */

import { mount } from "svelte";
import App from "./App.svelte";
import "./app.css";
import { session, takeCode } from "./session.svelte.js";

// First of all: the code must leave the address bar and the history of the browser.
takeCode();
addEventListener("hashchange", () => {
  if (takeCode()) void session.start();
});
void session.start();

const target = document.getElementById("app");
if (target) mount(App, { target });
