// Runs the tests' scripts in one process, because a process needs about a second of CPU time to
// load the packages of most clients. Each line of the standard input starts a script: {id, script,
// env}. When a script has ended, the host writes a line to file descriptor 3: {id, code, stdout,
// stderr}. The host ends when its input ends.
//
// Each script has its own variables of the environment, its own console and its own exit code. An
// asynchronous context that begins with the script identifies them. An error that no script catches
// fails the script in whose context it occurs. If that script has already ended without
// process.exit, the exit code of the host is 1.
import { AsyncLocalStorage } from "node:async_hooks";
import { Console } from "node:console";
import { writeSync } from "node:fs";
import { createInterface } from "node:readline";
import { Writable } from "node:stream";
import { pathToFileURL } from "node:url";

const scripts = new AsyncLocalStorage();
const plain = { console: globalThis.console, env: process.env, exit: process.exit };
let late = 0;

class Exit extends Error {}

class Script {
  constructor({ id, script, env }) {
    Object.assign(this, { id, file: script, env, stdout: "", stderr: "" });
    const sink = (name) => new Writable({
      write: (text, _, done) => {
        this[name] += text;
        done();
      },
    });
    this.console = new Console({ stdout: sink("stdout"), stderr: sink("stderr") });
  }

  async run() {
    try {
      await import(`${pathToFileURL(this.file)}?${this.id}`);
      this.end(0);
    } catch (error) {
      if (error instanceof Exit) this.end(this.exited);
      else this.fail(error);
    }
  }

  fail(error) {
    this.stderr += error?.stack ?? String(error);
    this.end(1);
  }

  end(code) {
    if (this.ended) return;
    this.ended = true;
    const { id, stdout, stderr } = this;
    const line = Buffer.from(JSON.stringify({ id, code, stdout, stderr }) + "\n");
    for (let from = 0; from < line.length;) from += writeSync(3, line, from);
  }
}

globalThis.console = new Proxy(plain.console, {
  get: (_, name) => (scripts.getStore()?.console ?? plain.console)[name],
  set: (_, name, value) => Reflect.set(scripts.getStore()?.console ?? plain.console, name, value),
});

process.env = new Proxy(plain.env, {
  get: (_, name) => scripts.getStore()?.env[name] ?? plain.env[name],
  has: (_, name) => name in plain.env || name in (scripts.getStore()?.env ?? {}),
  ownKeys: () => Reflect.ownKeys({ ...plain.env, ...scripts.getStore()?.env }),
  getOwnPropertyDescriptor(_, name) {
    const value = scripts.getStore()?.env[name] ?? plain.env[name];
    return value === undefined ? undefined : { value, writable: true, enumerable: true, configurable: true };
  },
  set(_, name, value) {
    (scripts.getStore()?.env ?? plain.env)[name] = String(value);
    return true;
  },
});

process.exit = (code = 0) => {
  const script = scripts.getStore();
  if (!script) plain.exit(code);
  script.exited = code;
  throw new Exit();
};

function uncaught(error) {
  const script = scripts.getStore();
  if (error instanceof Exit || script?.exited !== undefined) return;
  if (!script) {
    plain.console.error(error);
    plain.exit(1);
  }
  if (!script.ended) return script.fail(error);
  plain.console.error(`after the end of ${script.file}:`, error);
  late = 1;
}
process.on("unhandledRejection", uncaught);
process.on("uncaughtException", uncaught);

createInterface({ input: process.stdin })
  .on("line", (line) => {
    const script = new Script(JSON.parse(line));
    scripts.run(script, () => script.run());
  })
  .on("close", () => plain.exit(late));
