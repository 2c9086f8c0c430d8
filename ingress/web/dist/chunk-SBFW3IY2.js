/* Licences: /assets/licences.txt */
import{I as s}from"./chunk-N5FMLGJ2.js";var o=()=>s("/docs/settings#models");export{o as a};
