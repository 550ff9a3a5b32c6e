// The one event stream of the page, with its own reconnecting: the countdown is shown, the last id
// is sent along, and after a gap or a pause everything is fetched again, so that nothing is missing.

const TYPES = [
  "job",
  "sample",
  "transition",
  "signal",
  "checkpoint",
  "recorder",
  "log",
  "host",
  "gap",
  "bye",
];
const FIRST_RETRY_MS = 1000;
const LONGEST_RETRY_MS = 15000;
const SILENCE_MS = 40000;

export class Events {
  /** on: {event(type, data), open(resumed), lost(retryAtMs), denied()}. */
  constructor(path, on, probe) {
    this.path = path;
    this.on = on;
    this.probe = probe;
    this.lastId = null;
    this.retry = FIRST_RETRY_MS;
    this.lastAt = 0;
  }

  start() {
    this.stopped = false;
    this.connect();
    this.watch = setInterval(() => this.checkSilence(), 5000);
  }

  stop() {
    this.stopped = true;
    clearInterval(this.watch);
    clearTimeout(this.timer);
    this.source?.close();
  }

  connect() {
    clearTimeout(this.timer);
    this.source?.close();
    const since = this.lastId === null ? "" : `?since=${encodeURIComponent(this.lastId)}`;
    const source = new EventSource(this.path + since);
    this.source = source;
    source.onopen = () => {
      this.retry = FIRST_RETRY_MS;
      this.lastAt = Date.now();
      this.on.open(this.lastId !== null);
    };
    source.onerror = () => this.lose();
    for (const type of TYPES) {
      source.addEventListener(type, (e) => this.take(type, e));
    }
  }

  take(type, e) {
    this.lastAt = Date.now();
    if (e.lastEventId) {
      this.lastId = e.lastEventId;
    }
    let data = null;
    try {
      data = JSON.parse(e.data);
    } catch {
      return;
    }
    if (type === "bye") {
      this.lose();
    } else {
      this.on.event(type, data);
    }
  }

  checkSilence() {
    if (this.source?.readyState === EventSource.OPEN && Date.now() - this.lastAt > SILENCE_MS) {
      // the server comments every 15 s, which EventSource does not show: ask it directly
      this.probe().then(
        () => {
          this.lastAt = Date.now();
        },
        () => this.lose(),
      );
    }
  }

  async lose() {
    this.source?.close();
    if (this.stopped) {
      return;
    }
    clearTimeout(this.timer);
    const wait = this.retry;
    this.retry = Math.min(LONGEST_RETRY_MS, this.retry * 2);
    this.on.lost(Date.now() + wait);
    this.timer = setTimeout(() => this.again(), wait);
  }

  /** Asks the server first: a refusal is told apart from silence. */
  async again() {
    try {
      await this.probe();
    } catch (e) {
      if (e.status === 401) {
        this.stop();
        this.on.denied();
      } else {
        this.lose();
      }
      return;
    }
    this.connect();
  }
}
