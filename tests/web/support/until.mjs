// Waits for a condition with a deadline; the deadline is against hanging, not a statement about speed.

import { setTimeout as pause } from "node:timers/promises";

export async function until(condition, what, deadlineMs = 60000) {
  const end = Date.now() + deadlineMs;
  for (;;) {
    const value = await condition();
    if (value) {
      return value;
    }
    if (Date.now() > end) {
      throw new Error(`not within ${deadlineMs / 1000} s: ${what}`);
    }
    await pause(50);
  }
}
