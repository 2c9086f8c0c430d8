/* Licences: /assets/licences.txt */
import{I as s}from"./chunk-5HN7PHSA.js";var o=()=>s("/docs/settings#models");export{o as a};
