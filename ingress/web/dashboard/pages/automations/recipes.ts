// The exact lines that have an agent run by what people have: cron, systemd, GitHub Actions, Kubernetes, or any service that sends requests.

export type Period = "hour" | "day" | "week" | "month";

export interface Setup {
  baseUrl: string;
  agentId: string;
  name: string;
  message: string;
  period: Period;
  /** "07:30"; of a period of an hour only the minutes count. */
  at: string;
  /** Seconds that results are kept for beyond the usual; 0 leaves that to the service. */
  keep: number;
}

/** A piece of text and where it belongs. */
export interface Piece {
  where: string;
  text: string;
}

export interface Recipe {
  id: string;
  title: string;
  /** What there is to know about it. */
  note: string;
  pieces: Piece[];
}

const start = "curl -sS --fail-with-body --retry 5 --retry-connrefused"; // safe to repeat: the key sees to it

const quoted = (text: string): string => `'${text.replaceAll("'", `'\\''`)}'`;

/** JSON without characters that some reader on the way takes for the end of a line. */
const json = (value: unknown): string =>
  JSON.stringify(value).replace(/[\u007f-\u009f\u2028\u2029\ufeff]/g, (c) => "\\u" + c.charCodeAt(0).toString(16).padStart(4, "0"));

/** A name as file names and Kubernetes take it. */
function slugOf(name: string): string {
  const slug = name.toLowerCase().normalize("NFKD").replace(/[^a-z0-9]+/g, "-").slice(0, 40).replace(/^-+|-+$/g, "");
  return slug === "" ? "automation" : slug;
}

/** What the clock calls the period: repeated within it, a trigger runs once. */
const stamps: Record<Period, string> = { hour: "%Y-%m-%dT%H", day: "%F", week: "%G-W%V", month: "%Y-%m" };

interface Call {
  /** A word of the shell that gives the key's end, within double quotes. */
  key: string;
  between: string;
}

/** The request as a command; key is expanded by the shell that runs it. */
function curl(s: Setup, { key, between }: Call): string {
  const rest = { target: s.agentId, input: { message: s.message }, ...(s.keep > 0 ? { ttlOverride: s.keep } : {}) };
  const body = quoted(`{"idempotencyKey":${json(s.name + "-").slice(0, -1)}`) + `"${key}"` + quoted(`",${json(rest).slice(1)}`);
  return [
    start, quoted(s.baseUrl + "/api/internal/run-automation"), `-H "x-api-key: $PARLEY_API_KEY"`,
    "-H 'x-trigger-type: schedule'", `-H ${quoted("x-automation-id: " + s.name)}`, "-H 'content-type: application/json'", `-d ${body}`,
  ].join(between);
}

const lines = " \\\n  ";
const indent = (text: string, by: number): string => text.split("\n").map((line) => " ".repeat(by) + line).join("\n");

/** Minute and hour of a time such as "07:30". */
export function clock(at: string): { hour: number; minute: number } | null {
  const found = /^([01]?\d|2[0-3]):([0-5]\d)$/.exec(at.trim());
  return found ? { hour: Number(found[1]), minute: Number(found[2]) } : null;
}

function cronTime(s: Setup): string {
  const { hour, minute } = clock(s.at) ?? { hour: 7, minute: 0 };
  return { hour: `${minute} * * * *`, day: `${minute} ${hour} * * *`, week: `${minute} ${hour} * * 1`, month: `${minute} ${hour} 1 * *` }[s.period];
}

function calendarTime(s: Setup): string {
  const { hour, minute } = clock(s.at) ?? { hour: 7, minute: 0 };
  const two = (n: number) => String(n).padStart(2, "0");
  const time = `${two(hour)}:${two(minute)}:00`;
  return { hour: `*-*-* *:${two(minute)}:00`, day: `*-*-* ${time}`, week: `Mon *-*-* ${time}`, month: `*-*-01 ${time}` }[s.period];
}

const cronMost = 950; // characters; Debian's cron takes 998 of a command

function cron(s: Setup): Recipe {
  const command = curl(s, { key: `$(date +${stamps[s.period]})`, between: " " }).replaceAll("%", "\\%"); // cron takes a bare % for the end of the line
  const long = command.length > cronMost ? " This line is longer than many crons take: have cron start a program such as the one under systemd instead." : "";
  return {
    id: "cron", title: "cron", note: "In the time zone of the machine. cron mails what the line prints to the crontab's owner." + long,
    pieces: [{ where: "crontab -e", text: `PARLEY_API_KEY=the key\n${cronTime(s)} ${command}` }],
  };
}

function systemd(s: Setup): Recipe {
  const unit = "parley-" + slugOf(s.name);
  const program = `#!/bin/sh\nexec ${curl(s, { key: `$(date +${stamps[s.period]})`, between: lines })}\n`;
  const service = `[Unit]\nDescription=Parley automation ${slugOf(s.name)}\nWants=network-online.target\nAfter=network-online.target\n\n[Service]\nType=oneshot\nDynamicUser=yes\nEnvironmentFile=/etc/parley.env\nExecStart=/usr/local/bin/${unit}\n`;
  const timer = `[Unit]\nDescription=When to run ${unit}\n\n[Timer]\nOnCalendar=${calendarTime(s)}\nPersistent=true\n\n[Install]\nWantedBy=timers.target\n`;
  return {
    id: "systemd", title: "systemd", note: "In the time zone of the machine. A run that was missed while the machine was off is made up for.",
    pieces: [
      { where: "/etc/parley.env, readable by root only", text: "PARLEY_API_KEY=the key\n" },
      { where: `/usr/local/bin/${unit}, with chmod 755`, text: program },
      { where: `/etc/systemd/system/${unit}.service`, text: service },
      { where: `/etc/systemd/system/${unit}.timer`, text: timer },
      { where: "in a shell", text: `systemctl daemon-reload && systemctl enable --now ${unit}.timer` },
    ],
  };
}

function github(s: Setup): Recipe {
  const command = curl(s, { key: "$GITHUB_RUN_ID", between: lines }).replaceAll("${{", "${{ '${{' }}"); // text that looks like an expression stays text
  return {
    id: "github", title: "GitHub Actions",
    note: "In UTC, and often some minutes late: the key is the workflow run's id, so a job that is run again gets the answer of the first time. " +
      "Put the API key into the repository's secrets as PARLEY_API_KEY.",
    pieces: [{
      where: `.github/workflows/parley-${slugOf(s.name)}.yml`,
      text: `name: ${json("Parley " + slugOf(s.name))}
on:
  schedule:
    - cron: "${cronTime(s)}"
  workflow_dispatch:
permissions: {}
jobs:
  run:
    runs-on: ubuntu-latest
    timeout-minutes: 10
    steps:
      - name: Run the agent
        env:
          PARLEY_API_KEY: \${{ secrets.PARLEY_API_KEY }}
        run: |
${indent(command, 10)}
`,
    }],
  };
}

function kubernetes(s: Setup): Recipe {
  const command = curl(s, { key: "$JOB", between: lines }).replace(/\$(?=[$(])/g, "$$$$"); // Kubernetes expands $(…) of its own
  return {
    id: "kubernetes", title: "Kubernetes",
    note: "The key is the job's name, which Kubernetes makes of the scheduled minute: a pod that is started again gets the answer of the first one. " +
      "From version 1.27.",
    pieces: [
      { where: "in a shell, once", text: `kubectl create secret generic parley --from-literal=api-key="$PARLEY_API_KEY"` },
      {
        where: `parley-${slugOf(s.name)}.yaml, for kubectl apply -f`,
        text: `apiVersion: batch/v1
kind: CronJob
metadata:
  name: parley-${slugOf(s.name)}
spec:
  schedule: "${cronTime(s)}"
  timeZone: Etc/UTC
  concurrencyPolicy: Forbid
  jobTemplate:
    spec:
      backoffLimit: 3
      template:
        spec:
          restartPolicy: Never
          automountServiceAccountToken: false
          containers:
            - name: trigger
              image: curlimages/curl:8.10.1
              env:
                - name: PARLEY_API_KEY
                  valueFrom: {secretKeyRef: {name: parley, key: api-key}}
                - name: JOB
                  valueFrom: {fieldRef: {fieldPath: "metadata.labels['batch.kubernetes.io/job-name']"}}
              command: [/bin/sh, -c]
              args:
                - |
${indent(command, 18)}
`,
      },
    ],
  };
}

function webhook(s: Setup): Recipe {
  const url = s.baseUrl + "/api/internal/run-automation";
  const body = { target: s.agentId, input: { message: s.message }, ...(s.keep > 0 ? { ttlOverride: s.keep } : {}) };
  const command = [
    start, quoted(url), `-H "x-api-key: $PARLEY_API_KEY"`, "-H 'x-trigger-type: webhook'", `-H ${quoted("x-automation-id: " + s.name)}`,
    `-H "idempotency-key: $DELIVERY_ID"`, "-H 'prefer: respond-async'", "-H 'content-type: application/json'", `-d ${quoted(json(body))}`,
  ].join(lines);
  const headers = [
    "x-api-key: the key", "x-trigger-type: webhook", "x-automation-id: " + s.name,
    "idempotency-key: the delivery's id", "prefer: respond-async", "content-type: application/json",
  ];
  return {
    id: "webhook", title: "Webhook sender",
    note: "For any service that can set headers. Let its delivery id be the idempotency key: a delivery that is sent again runs nothing again. " +
      "Further keys of input are handed to the agent as data.",
    pieces: [
      { where: "what the service is to send", text: `POST ${url}\n${headers.join("\n")}\n\n${json(body)}` },
      { where: "the same from a shell, with the delivery's id in DELIVERY_ID", text: command },
    ],
  };
}

/** Every way to set an automation up. */
export const recipesOf = (s: Setup): Recipe[] => [cron(s), systemd(s), github(s), kubernetes(s), webhook(s)];
