// Runs the Postman collection with newman, and prints the response of each request: {answers:
// [{folder, name, method, path, …, status}], failures}.
import newman from "newman";
import { readFile } from "node:fs/promises";

const collection = JSON.parse(await readFile(process.env.COLLECTION, "utf8"));

// The request for the organization's stream of events is skipped, because that stream never ends.
// The login request is sent first and the logout request last.
const endless = ["/api/events"];
const first = ["Sign up", "Log in"];
const last = ["Log out"];
const path = (item) => item.request.url.raw.replace("{{baseUrl}}", "").replace(/\?.*/, "");
const only = (keep) => collection.item.map((folder) => ({ ...folder, item: folder.item.filter((item) => !endless.includes(path(item)) && keep(item)) }));
collection.item = [
  ...only((item) => first.includes(item.name)),
  ...only((item) => !first.includes(item.name) && !last.includes(item.name)),
  ...only((item) => last.includes(item.name)),
];

const places = {};
for (const [i, folder] of collection.item.entries()) {
  for (const [j, item] of folder.item.entries()) places[(item.id = `${i}.${j}`)] = { folder: folder.name, name: item.name };
}
const answers = [];
const summary = await new Promise((resolve, reject) => {
  newman
    .run({
      collection,
      envVar: [
        { key: "baseUrl", value: process.env.PARLEY_BASE_URL },
        { key: "apiKey", value: process.env.PARLEY_API_KEY },
      ],
      reporters: [],
      timeoutRequest: 30_000,
      ignoreRedirects: true,
    }, (error, done) => (error ? reject(error) : resolve(done)))
    .on("request", (error, { item, request, response }) => {
      answers.push({
        ...places[item.id], method: request.method, path: request.url.getPath(), target: request.url.getPathWithQuery(),
        status: response?.code ?? 0, ms: response?.responseTime ?? 0, error: error ? String(error) : "", body: response?.text().slice(0, 300) ?? "",
      });
    });
});
const failures = summary.run.failures.map(({ source, error }) => `${source?.name}: ${error.message}`);
console.log(JSON.stringify({ answers, failures }));
