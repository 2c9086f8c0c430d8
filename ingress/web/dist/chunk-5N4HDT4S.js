/* Licences: /assets/licences.txt */
var s=e=>`Try it: ${e}`,i=e=>`Request: ${e}`,r=(e,t)=>`${e} (${t})`,o=e=>`${e} path and query`,h=(e,t,n)=>`${[e,t].join(" ").trim()}, headers after ${n} ms.`;export{s as a,i as b,r as c,o as d,h as e};
