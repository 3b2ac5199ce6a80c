"use strict";
const form = document.getElementById("login");
const problem = document.getElementById("problem");

form.addEventListener("submit", async (event) => {
  event.preventDefault();
  problem.textContent = "";
  try {
    const answer = await fetch("/session", {
      method: "POST",
      headers: { "Content-Type": "application/json" },
      body: JSON.stringify({ token: form.token.value.trim() }),
    });
    if (answer.ok) {
      location.assign("/");
    } else {
      problem.textContent = (await answer.json()).detail;
    }
  } catch {
    problem.textContent = "The Balancer does not answer.";
  }
});

// Before there is a listener the browser itself would send the form.
form.querySelector("button").disabled = false;
