/* Licences: /assets/licences.txt */
import{h as Q,i as Z,j as W}from"./chunk-PP2XD6F5.js";import{C as z,Ka as P,La as f,N as B,Oa as R,P as m,Pa as V,Q as U,Ra as v,Ta as Y,Td as X,Ua as S,_ as J,a as D,b as l,bd as G,da as g,e as d,f as u,h as I,k as F,m as e,ra as E,ta as C}from"./chunk-UGD5YGV5.js";var ee=t=>e(l,{children:[e("a",{href:t,target:"_blank",rel:"noopener",children:"Open a test page with the widget"}),", as visitors see it."]}),te=t=>`Widget of ${t}`,ne=t=>`Remove ${t}`,se=(t,n)=>`Not an origin: ${t}. ${n}`;var _e="#0b5a62",Re=400,Ye=[{value:"",label:"Right corner"},{value:"left",label:"Left corner"}],Ne=[{value:"",label:"The visitor’s system"},{value:"light",label:"Light"},{value:"dark",label:"Dark"}];function ie({editor:t,look:n,set:s,code:a}){let{agent:o}=t,r=o.widget.enabled&&o.widget.allowedOrigins.includes(location.origin);return e(g,{title:"How it looks",intro:"The preview works even if no origin is allowed, and sends messages in your name.",children:e("div",{class:"appearance",children:[e(He,{editor:t,look:n}),e("div",{class:"stack",children:[e(v,{label:"Title",value:n.title,maxLength:120,placeholder:o.name,onChange:i=>s({title:i})}),e(v,{label:"Greeting",value:n.greeting,maxLength:2e3,placeholder:"How can I help?",onChange:i=>s({greeting:i}),hint:"The first message in the chat, in Markdown."}),e(je,{value:n.accent,onChange:i=>s({accent:i})}),e(Y,{label:"Light or dark",value:n.scheme,options:Ne,onChange:i=>s({scheme:i})}),e(Y,{label:"Position",value:n.position,options:Ye,onChange:i=>s({position:i})}),e("div",{class:"note",children:[e("p",{children:"The look is part of the code, and is not stored with the agent. Copy the code again after a change. Only this browser remembers your choices."}),e(P,{text:a,label:"Copy the code",words:"Copy the code"})]}),r&&e("p",{class:"hint",children:ee(`/widget/preview?agent=${encodeURIComponent(o.id)}`)})]})]})})}function je({value:t,onChange:n}){let s=F();return e("div",{class:"field",children:[e("label",{for:s,children:"Accent colour"}),e("div",{class:"row",children:[e("input",{id:s,type:"color",class:"colour",value:t||_e,"aria-describedby":s+"-hint",onInput:a=>n(a.currentTarget.value)}),t===""?e("span",{class:"quiet",children:"default"}):e(l,{children:[e("code",{children:t}),e(m,{look:"bare",onClick:()=>n(""),children:"Use the default"})]})]}),e("div",{class:"hint",id:s+"-hint",children:"Text on this colour is black or white, whichever is easier to read."})]})}function Ke(t){let[n,s]=d(t);return u(()=>{let a=setTimeout(()=>s(t),Re);return()=>clearTimeout(a)},[t]),n}var qe=()=>import(document.getElementById("app")?.dataset.widget??"");function He({editor:t,look:n}){let{id:s,name:a,suggestions:o}=t.agent,r=C()?.organization.id,[i,h]=d("loading"),{title:k,greeting:x,accent:T,scheme:L}=Ke(n),c=I(null);if(u(()=>{if(!c.current)return;let _=new IntersectionObserver(([Le])=>{Le?.isIntersecting&&(_.disconnect(),qe().then(()=>h("ready"),()=>h("failed")))},{rootMargin:"0% 0% -25%"});return _.observe(c.current),()=>_.disconnect()},[]),i==="failed")return e("p",{class:"note",children:"Couldn’t load the preview. Reload the page."});if(i==="loading")return e("div",{ref:c,class:"widget-preview",role:"group","aria-label":"Preview of the widget"});let w=JSON.stringify({organization:r,name:a,suggestions:o,attachments:t.draft["widget.attachments"]}),A={"agent-id":s,preview:w,"chat-title":k||a,greeting:x||void 0,accent:T||void 0,scheme:L||void 0};return e("div",{class:"widget-preview",role:"group","aria-label":"Preview of the widget",children:D("agent-chat",{key:JSON.stringify(A),...A,inline:""})})}var ae=(t,n,s)=>`parley chat --url ${t} ${n} "${s}"`,re=t=>`Language: ${t}`,ce=t=>e(l,{children:["Voice is off for this agent. ",e("a",{href:t,children:"Switch it on under Tools"}),"."]}),le=t=>e(l,{children:["A WebSocket with the events of OpenAI’s Realtime API, so that API’s clients can connect too. Some of them require https. ",t," Web pages connect with a short-lived secret from ",e("code",{children:"/v1/realtime/client_secrets"}),"."]}),de=()=>e(l,{children:["Runs with an ",e("code",{children:"x-automation-id"})," are listed under ",e("a",{href:"/dashboard/automations",children:"Automations"}),". Requests from browsers are refused."]}),pe=()=>e(l,{children:["The examples read an API key from ",e("code",{children:"PARLEY_API_KEY"}),". ",e("a",{href:"/dashboard/org",children:"Create a key under Organization"}),"; it is shown once. Use the key on servers only. For web pages, use the widget."]}),he=()=>e(l,{children:["Schedulers and services may not call this agent. They get status 403 with the code ",e("code",{children:"caller_not_allowed"}),". Ask an admin to allow them."]}),ge=t=>`Schedulers and services may no longer call “${t}”.`,ue=t=>`Schedulers and services may now call “${t}”.`,me=()=>e(l,{children:["An organization’s API key implies it. With your personal API key, send it in the header ",e("code",{children:"x-organization-id"}),"."]});var p="What can you do?",y=({baseUrl:t,id:n})=>`${t}/api/agents?id=${n}&action=chat`,fe=t=>({curl:`curl '${y(t)}' \\
  -H "x-api-key: $PARLEY_API_KEY" \\
  -H 'content-type: application/json' \\
  -d '{"sessionId":"demo-1","message":"${p}"}'`,JavaScript:`const response = await fetch("${y(t)}", {
  method: "POST",
  headers: { "x-api-key": process.env.PARLEY_API_KEY, "content-type": "application/json" },
  body: JSON.stringify({ sessionId: "demo-1", message: "${p}" }),
});
const run = await response.json();
if (!response.ok) throw new Error(run.detail);
console.log(run.status, run.message);`,Python:`import json, os, urllib.request

request = urllib.request.Request(
    "${y(t)}",
    data=json.dumps({"sessionId": "demo-1", "message": "${p}"}).encode(),
    headers={"x-api-key": os.environ["PARLEY_API_KEY"], "content-type": "application/json"},
)
with urllib.request.urlopen(request) as response:
    run = json.load(response)
print(run["status"], run["message"])`}),ye=t=>({curl:`curl -N '${y(t)}' \\
  -H "x-api-key: $PARLEY_API_KEY" \\
  -H 'content-type: application/json' \\
  -d '{"sessionId":"demo-1","message":"${p}","stream":true}'`,JavaScript:`const response = await fetch("${y(t)}", {
  method: "POST",
  headers: { "x-api-key": process.env.PARLEY_API_KEY, "content-type": "application/json" },
  body: JSON.stringify({ sessionId: "demo-1", message: "${p}", stream: true }),
});
if (!response.ok) throw new Error((await response.json()).detail);
let rest = "";
for await (const piece of response.body.pipeThrough(new TextDecoderStream())) {
  const events = (rest + piece).split("\\n\\n");
  rest = events.pop();
  for (const event of events) {
    const data = event.split("\\n").find((line) => line.startsWith("data:"));
    if (event.includes("event: message.delta")) process.stdout.write(JSON.parse(data.slice(5)).text);
  }
}`,Python:`import json, os, urllib.request

request = urllib.request.Request(
    "${y(t)}",
    data=json.dumps({"sessionId": "demo-1", "message": "${p}", "stream": True}).encode(),
    headers={"x-api-key": os.environ["PARLEY_API_KEY"], "content-type": "application/json"},
)
event = ""
with urllib.request.urlopen(request) as response:
    for line in response:
        line = line.decode().rstrip("\\n")
        if line.startswith("event:"):
            event = line[6:].strip()
        elif line.startswith("data:") and event == "message.delta":
            print(json.loads(line[5:])["text"], end="", flush=True)`}),we=({baseUrl:t,id:n})=>({"TypeScript SDK":`import { Parley } from "parley-sdk";

const parley = new Parley({ baseUrl: "${t}" });
const run = await parley.chat({
  agentId: "${n}",
  message: "${p}",
});
console.log(run.message);`,"Python SDK":`from parley import Parley

client = Parley(base_url="${t}")
run = client.chat(
    agent_id="${n}",
    message="${p}",
)
print(run["message"])`,"OpenAI, Node.js":`import OpenAI from "openai";

const client = new OpenAI({ baseURL: "${t}/v1", apiKey: process.env.PARLEY_API_KEY });
const answer = await client.chat.completions.create({
  model: "${n}",
  messages: [{ role: "user", content: "${p}" }],
});
console.log(answer.choices[0].message.content);`,"OpenAI, Python":`import os
from openai import OpenAI

client = OpenAI(base_url="${t}/v1", api_key=os.environ["PARLEY_API_KEY"])
answer = client.chat.completions.create(
    model="${n}",
    messages=[{"role": "user", "content": "${p}"}],
)
print(answer.choices[0].message.content)`,MCP:`{
  "mcpServers": {
    "parley": {
      "type": "http",
      "url": "${t}/mcp",
      "headers": { "x-api-key": "ak_..." }
    }
  }
}`,"Command line":ae(t,n,p)}),ve=({baseUrl:t,id:n})=>({"Node.js":`import { appendFileSync, rmSync } from "node:fs";
import WebSocket from "ws"; // npm install ws

const socket = new WebSocket("${t.replace(/^http/,"ws")}/v1/realtime?model=${n}", {
  headers: { authorization: \`Bearer \${process.env.PARLEY_API_KEY}\` },
});
const send = (event) => socket.send(JSON.stringify(event));
rmSync("answer.pcm", { force: true });

socket.on("open", () => {
  // To speak, send { type: "input_audio_buffer.append", audio: base64 of 16-bit samples, 24,000 a second }.
  const content = [{ type: "input_text", text: "${p}" }];
  send({ type: "conversation.item.create", item: { type: "message", role: "user", content } });
  send({ type: "response.create" });
});
socket.on("message", (data) => {
  const event = JSON.parse(data);
  if (event.type === "response.output_audio_transcript.delta") process.stdout.write(event.delta);
  if (event.type === "response.output_audio.delta") appendFileSync("answer.pcm", Buffer.from(event.delta, "base64"));
  if (event.type === "error") throw new Error(event.error.message);
  if (event.type === "response.done") socket.close(); // ffplay -f s16le -ar 24000 answer.pcm
});`}),Se=({baseUrl:t,id:n})=>({curl:`curl '${t}/api/internal/run-automation' \\
  -H "x-api-key: $PARLEY_API_KEY" \\
  -H 'x-trigger-type: schedule' \\
  -H 'x-automation-id: nightly' \\
  -H 'content-type: application/json' \\
  -d '{"target":"${n}","input":{"message":"Summarize the day"},"idempotencyKey":"'"nightly-$(date +%F)"'"}'`,cron:`# crontab -e. Escape % as \\%.
PARLEY_API_KEY=ak_...
0 6 * * * curl -sS --fail-with-body --retry 5 --retry-all-errors '${t}/api/internal/run-automation' -H "x-api-key: $PARLEY_API_KEY" -H 'x-trigger-type: schedule' -H 'x-automation-id: nightly' -H 'content-type: application/json' -d '{"target":"${n}","input":{"message":"Summarize the day"},"idempotencyKey":"'"nightly-$(date +\\%F)"'"}'`,JavaScript:`const day = new Date().toISOString().slice(0, 10);
const response = await fetch("${t}/api/internal/run-automation", {
  method: "POST",
  headers: {
    "x-api-key": process.env.PARLEY_API_KEY,
    "x-trigger-type": "schedule",
    "x-automation-id": "nightly",
    "content-type": "application/json",
  },
  body: JSON.stringify({ target: "${n}", input: { message: "Summarize the day" }, idempotencyKey: \`nightly-\${day}\` }),
});
const run = await response.json();
if (!response.ok) throw new Error(run.detail);
console.log(run.id, run.status, run.message);`,Python:`import datetime, json, os, urllib.request

body = {
    "target": "${n}",
    "input": {"message": "Summarize the day"},
    "idempotencyKey": f"nightly-{datetime.date.today()}",
}
request = urllib.request.Request(
    "${t}/api/internal/run-automation",
    data=json.dumps(body).encode(),
    headers={
        "x-api-key": os.environ["PARLEY_API_KEY"],
        "x-trigger-type": "schedule",
        "x-automation-id": "nightly",
        "content-type": "application/json",
    },
)
with urllib.request.urlopen(request) as response:
    run = json.load(response)
print(run["id"], run["status"], run["message"])`}),O=(t,n)=>`${t}="${n.replaceAll("&","&amp;").replaceAll('"',"&quot;")}"`,be=(t,n)=>Object.entries(t).filter(([,s])=>s!=="").map(([s,a])=>O(n+s,a)),K=({baseUrl:t,id:n},s)=>`<script async src="${t}/widget.js"
  ${[O("data-agent",n),...be(s,"data-")].join(`
  `)}><\/script>`,ke=({baseUrl:t,id:n},s)=>{let{title:a,position:o,...r}=s,i=be({...r,position:"",title:""},""),h=[O("agent-id",n),...a===""?[]:[O("chat-title",a)],...i,"inline"];return`<script async src="${t}/widget.js"><\/script>
<agent-chat ${h.join(" ")}></agent-chat>`},xe=t=>`Content-Security-Policy: script-src ${t}; connect-src ${t}`,Ae=({id:t})=>({"Node.js":`import { createHmac } from "node:crypto";

// On your server: userId is your id of the signed-in person.
const signature = createHmac("sha256", process.env.PARLEY_IDENTITY_SECRET)
  .update("${t}\\n" + userId)
  .digest("hex");`,Python:`import hashlib, hmac, os

# On your server: user_id is your id of the signed-in person.
signature = hmac.new(
    os.environ["PARLEY_IDENTITY_SECRET"].encode(),
    f"${t}\\n{user_id}".encode(),
    hashlib.sha256,
).hexdigest()`,Go:`// On your server: userID is your id of the signed-in person.
mac := hmac.New(sha256.New, []byte(os.Getenv("PARLEY_IDENTITY_SECRET")))
mac.Write([]byte("${t}\\n" + userID))
signature := hex.EncodeToString(mac.Sum(nil))`}),Ie=({baseUrl:t,id:n})=>`<script async src="${t}/widget.js"
  data-agent="${n}"
  data-visitor-id="…" data-visitor-signature="…"><\/script>`;var q="",H=new EventTarget;function $({what:t,of:n}){let[,s]=d(0);u(()=>{let i=()=>s(h=>h+1);return H.addEventListener("change",i),()=>H.removeEventListener("change",i)},[]);let a=Object.keys(n),o=a.includes(q)?q:a[0]??"",r=i=>{q=i,H.dispatchEvent(new Event("change"))};return e("div",{class:"languages",children:[e("div",{class:"segments",role:"group","aria-label":re(t),children:a.map(i=>e(m,{look:"bare",pressed:i===o,onClick:()=>r(i),children:i},i))}),e(f,{text:n[o]??"",label:`${t}, ${o}`})]})}var Ee={title:"",greeting:"",accent:"",position:"",scheme:""},Ce=new Map,M=t=>`parley.widget-look.${t}`;function De(t){try{let n=JSON.parse(localStorage.getItem(M(t))??"{}");return Object.fromEntries(Object.entries(Ee).map(([s,a])=>[s,typeof n[s]=="string"?n[s]:a]))}catch{return Ee}}function Fe(t,n){Ce.set(t,n);try{Object.values(n).every(s=>s==="")?localStorage.removeItem(M(t)):localStorage.setItem(M(t),JSON.stringify(n))}catch{}}function Pe(t){let[n,s]=d(()=>Ce.get(t)??De(t));return[n,o=>{let r={...n,...o};Fe(t,r),s(r)}]}var ze=/^(?:(https?):\/\/)?(\[[0-9a-f:.]+\]|[^\s/?#@\\:*%[\]]+)(?::(\d{1,5}))?\/?$/i,Be=/^[a-z0-9]([a-z0-9_-]*[a-z0-9])?$/;function Ue(t){try{return new URL(t)}catch{return null}}function Oe(t){let[,n,s="",a]=ze.exec(t)??[];if(s===""||Number(a??1)<1||n===void 0&&a===void 0&&!s.includes(".")&&s.toLowerCase()!=="localhost")return null;let o=Ue(n===void 0?"https://"+t:t);return o===null||o.origin.length>255||!/[^\x21-\x7e]/.test(s)&&o.hostname!==s.toLowerCase()&&!s.startsWith("[")?null:s.startsWith("[")||o.hostname.split(".").every(i=>Be.test(i))?o.origin:null}function $e(t){let n=t.split(/[\s,]+/).filter(Boolean),s=n.filter(o=>Oe(o)===null);if(s.length===0)return{origins:n.map(Oe).filter(o=>o!==null),fault:""};let a=s.some(o=>o.includes("*"))?"Patterns are not supported. Add each origin separately, for example https://www.example.com.":"Enter a scheme and a host without a path, for example https://www.example.com.";return{origins:[],fault:se(s.join(", "),a)}}var Je=50;function Te({editor:t}){let n={baseUrl:E(),id:t.agent.id},{draft:s,set:a}=t,[o,r]=Pe(t.agent.id);return e("div",{class:"stack use embeds",children:[!t.mayEdit&&e("p",{class:"note",children:"You can view these settings. Only admins and owners of the organization can change them."}),e("fieldset",{class:"plain stack",disabled:!t.mayEdit,children:[e("legend",{class:"visually-hidden",children:te(t.agent.name)}),e(g,{title:"Where the widget may appear",intro:"The widget shows a chat with this agent on your own pages. The page contains no API key: browsers get short-lived tokens, and only on the origins listed here.",children:e("div",{class:"stack",children:[e(S,{label:"Widget",hint:"Pages on the allowed origins can show this agent.",checked:s["widget.enabled"],onChange:i=>a("widget.enabled",i)}),e(Ve,{editor:t}),e(S,{label:"Attachments",hint:"Visitors can attach images and documents to their messages. Anyone can be a visitor, and the model reads what visitors send.",checked:s["widget.attachments"],onChange:i=>a("widget.attachments",i)})]})})]}),e(ie,{editor:t,look:o,set:r,code:K(n,o)}),e(g,{title:"Put it on your page",intro:"Paste this code at the end of the page’s body. A second copy on the page has no effect.",children:e("div",{class:"stack",children:[e("div",{class:"stack tighter",children:e(f,{text:K(n,o),label:"Script tag"})}),e("div",{class:"stack tighter",children:[e("h3",{children:"Or inside the page, where you place this element"}),e(f,{text:ke(n,o),label:"Element"})]}),e("div",{class:"stack tighter",children:[e("h3",{children:"If the page has a Content-Security-Policy"}),e("p",{class:"quiet",children:"The policy must allow this service’s script and requests to this service. The widget needs no inline scripts or styles."}),e(f,{text:xe(n.baseUrl),label:"Content-Security-Policy"})]})]})}),e(g,{title:"Signed visitors",intro:"Optional. Without an identity secret, visitors are anonymous, and only their browser remembers their chat. If your server signs their identity, they find their chat on every device, and no other visitor can impersonate them.",children:e("div",{class:"stack",children:[e("fieldset",{class:"plain",disabled:!t.mayEdit,children:[e("legend",{class:"visually-hidden",children:"Identity secret"}),e(Z,{label:"Identity secret",value:s["widget.identitySecret"],saved:t.base["widget.identitySecret"]===G,fault:t.fault("widget.identitySecret"),generate:()=>Q(32,"hex"),onChange:i=>a("widget.identitySecret",i),hint:"16 to 256 characters. Store it only on your server."})]}),e($,{what:"Sign a visitor",of:Ae(n)}),e(f,{text:Ie(n),label:"Script tag with a signed visitor"})]})})]})}function Ve({editor:t}){let n="widget.allowedOrigins",s=t.draft[n],a=t.draft["widget.enabled"],[o,r]=d(""),[i,h]=d({fault:""}),k=I(null);u(()=>{V(k.current)},[i]);let x=c=>{t.clearFaults(),t.set(n,c)},T=c=>{r(c),i.fault!==""&&h({fault:""})},L=()=>{let c=$e(o);h(c),c.fault===""&&(r(""),x([...new Set([...s,...c.origins])]))};return e("div",{class:"stack tight",children:[e("div",{class:"field",children:[e("span",{class:"label",id:"origins",children:"Allowed origins"}),s.length===0?e("p",{class:"hint",children:"No origin yet, so no page can show the widget. Add an origin."}):e("ul",{class:"chips","aria-labelledby":"origins",children:s.map((c,w)=>e("li",{class:"chip"+(t.fault(`${n}[${w}]`)?" wrong":""),children:[e("code",{children:c}),e(m,{look:"bare",icon:"close",label:ne(c),onClick:()=>x(s.filter(A=>A!==c))}),t.fault(`${n}[${w}]`)&&e("span",{class:"fault",children:R("The origin",t.fault(`${n}[${w}]`)??"")})]},c))}),s.length>0&&!a&&e("p",{class:"note warn",children:"The widget is off, so no page can show it. Switch it on above."}),t.fault(n)&&e("div",{class:"fault",children:R("The list",t.fault(n)??"")})]}),s.length<Je&&e("form",{ref:k,class:"with-buttons end",onSubmit:c=>{c.preventDefault(),L()},children:[e("div",{class:"grow",children:e(v,{label:"Add an origin",mono:!0,value:o,placeholder:"https://www.example.com",onChange:T,fault:i.fault||void 0,hint:"The scheme, the host, and the port if it isn’t the default. Separate several origins with spaces."})}),e(m,{type:"submit",disabled:o.trim()==="",children:"Add"})]})]})}var Ge=[{id:"chat",title:"Chat"},{id:"stream",title:"Stream"},{id:"clients",title:"SDKs and clients"},{id:"speak",title:"Speak"},{id:"scheduler",title:"Scheduler"}];function Xe({editor:t}){let n={baseUrl:E(),id:t.agent.id},[s,a]=d("chat"),o={chat:()=>e(b,{what:"Chat",of:fe(n),children:"Sends a message and waits up to 55 seconds for the answer. If the run takes longer, the response is 202 with the run’s URL."}),stream:()=>e(b,{what:"Stream the answer",of:ye(n),children:"Server-sent events: message.delta contains a piece of text, run.completed contains the whole run."}),clients:()=>e(b,{what:"Use an existing client",of:we(n),children:"The SDKs retry and resume automatically. OpenAI clients see the agent as a model. MCP clients see all agents of the organization as tools."}),speak:()=>e(b,{what:"Speak with it",of:ve(n),children:le(t.agent.tools.voice?.enabled?"Voice is on for this agent.":ce(`/dashboard/agents/${t.agent.id}/settings#tools`))}),scheduler:()=>e(l,{children:[e(Qe,{editor:t}),e(b,{what:"Run it from a scheduler",of:Se(n),children:"Cron jobs, pipelines and services run the agent without a person. A repeated request with the same idempotencyKey starts no second run: it gets the first run’s result."}),e("p",{class:"hint",children:de()})]})};return e("div",{class:"stack use",children:[e(g,{title:"Call it from your programs",intro:pe(),children:e(X,{label:"What your program does",tabs:Ge,selected:s,onSelect:a,children:r=>o[r.id]()})}),e(g,{title:"Ids that the examples use",children:e(Ze,{editor:t})})]})}function b({what:t,of:n,children:s}){return e(l,{children:[e("p",{class:"quiet",children:s}),e($,{what:t,of:n},t)]})}function Qe({editor:t}){let{agent:n,mayEdit:s,adopt:a}=t,o=n.allowedCallers.includes("system"),r={allowedCallers:o?["user"]:[...n.allowedCallers,"system"]};if(!s)return o?null:e("p",{class:"note warn",children:he()});let i=async()=>{let h=await z("/api/agents",r,{id:n.id});a(h),B(o?ge(n.name):ue(n.name))};return e("div",{class:"note"+(o?"":" warn"),children:[e(S,{label:"Schedulers and services may call this agent",checked:o,onChange:()=>{i().catch(U)},hint:o?"Saved immediately.":"Until you switch this on, calls get status 403 with the code caller_not_allowed. The change is saved immediately."}),e(J,{what:"Change who may call it",request:{method:"PUT",path:"/api/agents",params:{id:n.id},body:r}})]})}function Ze({editor:t}){let n=C();return e("dl",{class:"facts names",children:[e("dt",{children:"Agent"}),e("dd",{children:[e("code",{children:t.agent.id})," ",e(P,{text:t.agent.id,label:"Copy the agent’s id"}),e("span",{class:"hint below",children:"The id stays the same when the agent is renamed."})]}),e("dt",{children:"Organization"}),e("dd",{children:[e("code",{children:n?.organization.id}),e("span",{class:"hint below",children:me()})]}),e("dt",{children:"Session"}),e("dd",{children:[e("code",{children:"sessionId"}),e("span",{class:"hint below",children:"An id of your choice for a chat, 1 to 128 characters. Messages of a session are answered in order, and each answer takes the earlier messages into account."})]}),e("dt",{children:"Idempotency"}),e("dd",{children:[e("code",{children:"Idempotency-Key"}),e("span",{class:"hint below",children:"An id of your choice for one message or run, sent as a header. A repeated request with the same key starts no second run."})]})]})}var nn=({editor:t})=>e(l,{children:[e(Te,{editor:t}),e(W,{editor:t})]});export{nn as EmbedTab,Xe as UseTab};
