// Generates the files and commands that let a scheduler run an agent: cron, systemd, GitHub
// Actions, Kubernetes, or any service that sends requests.
import * as texts from "../../texts/automations";
import { Words } from "../../texts/automations";

export type Period = "hour" | "day" | "week" | "month";

export interface Setup {
  baseUrl: string;
  agentId: string;
  name: string;
  message: string;
  period: Period;
  /** The time of the runs, for example "07:30". With an hourly period, only the minutes count. */
  at: string;
  /** How long the service stores results, in seconds; 0 means the service's default. */
  keep: number;
}

/** A text, and the name of the file or shell to which it belongs. */
export interface Piece {
  where: string;
  text: string;
}

export interface Recipe {
  id: string;
  title: string;
  /** A note that explains the recipe's behaviour. */
  note: string;
  pieces: Piece[];
}

const start = "curl -sS --fail-with-body --retry 5 --retry-connrefused"; // retries are safe, because the request has an idempotency key

const quoteShell = (text: string): string => `'${text.replaceAll("'", `'\\''`)}'`;

/** Returns JSON in which characters that some parsers treat as line breaks are escaped. */
const json = (value: unknown): string =>
  JSON.stringify(value).replace(/[\u007f-\u009f\u2028\u2029\ufeff]/g, (c) => "\\u" + c.charCodeAt(0).toString(16).padStart(4, "0"));

/** Returns a name in the form that file names and Kubernetes accept. */
function slugify(name: string): string {
  const slug = name.toLowerCase().normalize("NFKD").replace(/[^a-z0-9]+/g, "-").slice(0, 40).replace(/^-+|-+$/g, "");
  return slug === "" ? "automation" : slug;
}

/**
 * The date format for each period. The date is part of the idempotency key, so that an automation
 * runs the agent only once per period.
 */
const stamps: Record<Period, string> = { hour: "%Y-%m-%dT%H", day: "%F", week: "%G-W%V", month: "%Y-%m" };

interface Call {
  /** A shell expression that yields the end of the idempotency key, within double quotes. */
  key: string;
  between: string;
}

/**
 * Returns the request as a curl command. The shell that runs the command expands the expression
 * key.
 */
function curl(s: Setup, { key, between }: Call): string {
  const rest = { target: s.agentId, input: { message: s.message }, ...(s.keep > 0 ? { ttlOverride: s.keep } : {}) };
  const body = quoteShell(`{"idempotencyKey":${json(s.name + "-").slice(0, -1)}`) + `"${key}"` + quoteShell(`",${json(rest).slice(1)}`);
  return [
    start, quoteShell(s.baseUrl + "/api/internal/run-automation"), `-H "x-api-key: $PARLEY_API_KEY"`,
    "-H 'x-trigger-type: schedule'", `-H ${quoteShell("x-automation-id: " + s.name)}`, "-H 'content-type: application/json'", `-d ${body}`,
  ].join(between);
}

const lines = " \\\n  ";
const indent = (text: string, by: number): string => text.split("\n").map((line) => " ".repeat(by) + line).join("\n");

/** Parses a time like "07:30". It returns null if the text is not a time. */
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
  return { hour: `*-*-* *:${two(minute)}:00`, day: `*-*-* ${time}`, week: texts.monTime(time), month: `*-*-01 ${time}` }[s.period];
}

const maxCronCommand = 950; // maximum number of characters of a command; Debian's cron accepts 998

function cron(s: Setup): Recipe {
  const command = curl(s, { key: `$(date +${stamps[s.period]})`, between: " " }).replaceAll("%", "\\%"); // cron ends the line at an unescaped %
  const long = command.length > maxCronCommand ? Words.thisLineMayBeTooLong : "";
  return {
    id: "cron", title: Words.cron, note: Words.runsInMachinesTime + long,
    pieces: [{ where: "crontab -e", text: `PARLEY_API_KEY=the key\n${cronTime(s)} ${command}` }],
  };
}

function systemd(s: Setup): Recipe {
  const unit = "parley-" + slugify(s.name);
  const program = `#!/bin/sh\nexec ${curl(s, { key: `$(date +${stamps[s.period]})`, between: lines })}\n`;
  const service = `[Unit]\nDescription=Parley automation ${slugify(s.name)}\nWants=network-online.target\nAfter=network-online.target\n\n[Service]\nType=oneshot\nDynamicUser=yes\nEnvironmentFile=/etc/parley.env\nExecStart=/usr/local/bin/${unit}\n`;
  const timer = `[Unit]\nDescription=When to run ${unit}\n\n[Timer]\nOnCalendar=${calendarTime(s)}\nPersistent=true\n\n[Install]\nWantedBy=timers.target\n`;
  return {
    id: "systemd", title: Words.systemd, note: Words.runsInMachinesTimeZone,
    pieces: [
      { where: Words.etcParleyEnvReadable, text: "PARLEY_API_KEY=the key\n" },
      { where: texts.usrLocalBin(unit), text: program },
      { where: `/etc/systemd/system/${unit}.service`, text: service },
      { where: `/etc/systemd/system/${unit}.timer`, text: timer },
      { where: Words.inAShell, text: `systemctl daemon-reload && systemctl enable --now ${unit}.timer` },
    ],
  };
}

function github(s: Setup): Recipe {
  const command = curl(s, { key: "$GITHUB_RUN_ID", between: lines }).replaceAll("${{", "${{ '${{' }}"); // GitHub must not evaluate text that looks like an expression
  return {
    id: "github", title: Words.githubActions,
    note: Words.runsInUtcOften +
      Words.storeApiKey,
    pieces: [{
      where: `.github/workflows/parley-${slugify(s.name)}.yml`,
      text: `name: ${json(texts.workflow(slugify(s.name)))}
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
  const command = curl(s, { key: "$JOB", between: lines }).replace(/\$(?=[$(])/g, "$$$$"); // Kubernetes expands $(…)
  return {
    id: "kubernetes", title: Words.kubernetes,
    note: Words.idempotencyKeyIsJobs +
      Words.requiresKubernetes127,
    pieces: [
      { where: Words.inShellOnce, text: `kubectl create secret generic parley --from-literal=api-key="$PARLEY_API_KEY"` },
      {
        where: texts.parleyYamlForKubectl(slugify(s.name)),
        text: `apiVersion: batch/v1
kind: CronJob
metadata:
  name: parley-${slugify(s.name)}
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
    start, quoteShell(url), `-H "x-api-key: $PARLEY_API_KEY"`, "-H 'x-trigger-type: webhook'", `-H ${quoteShell("x-automation-id: " + s.name)}`,
    `-H "idempotency-key: $DELIVERY_ID"`, "-H 'prefer: respond-async'", "-H 'content-type: application/json'", `-d ${quoteShell(json(body))}`,
  ].join(lines);
  const headers = [
    "x-api-key: the key", "x-trigger-type: webhook", "x-automation-id: " + s.name,
    "idempotency-key: the delivery's id", "prefer: respond-async", "content-type: application/json",
  ];
  return {
    id: "webhook", title: Words.webhookSender,
    note: Words.forAnyService +
      Words.agentGetsAllOtherKeys,
    pieces: [
      { where: Words.requestThatServiceSends, text: `POST ${url}\n${headers.join("\n")}\n\n${json(body)}` },
      { where: Words.sameFromShell, text: command },
    ],
  };
}

/** Returns the recipes for all schedulers. */
export const newRecipes = (s: Setup): Recipe[] => [cron(s), systemd(s), github(s), kubernetes(s), webhook(s)];
